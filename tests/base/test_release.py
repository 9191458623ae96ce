"""The files that go with a release agree with the package and with each other."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tilewright import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
TEMPLATES = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.md"))


def test_the_citation_is_valid_and_of_this_version():
    """Keys and values as the schema of the Citation File Format 1.2.0 wants them."""
    required = {"cff-version", "message", "title", "authors"}
    assert required <= set(CITATION) <= required | {"type", "version", "license", "keywords"}
    assert all(isinstance(CITATION[key], str) for key in CITATION.keys() - {"authors", "keywords"})
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["type"] in ("software", "dataset")
    assert CITATION["version"] == __version__
    assert CITATION["license"] == PROJECT["license"]
    assert [author["name"] for author in CITATION["authors"]] == [
        author["name"] for author in PROJECT["authors"]
    ]


def test_artifact_is_of_this_version():
    assert re.findall(r"Version (\d[\d.]*\d)", (ROOT / "ARTIFACT.md").read_text()) == [__version__]


def test_the_newest_entry_of_the_changelog_is_of_this_version():
    versions = re.findall(r"^## \[(.*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == __version__
    assert versions == sorted(versions, reverse=True)


def test_public_ci_runs_every_version_that_the_package_names():
    named = [
        found[1]
        for classifier in PROJECT["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", classifier))
    ]
    matrix = WORKFLOW["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["python"] == named
    assert PROJECT["requires-python"] == f">={named[0]}"
    assert matrix["os"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]


@pytest.mark.parametrize("session", ["tests", "lint", "docs"])
def test_public_ci_runs_the_sessions(session):
    assert f"def {session}(session: nox.Session)" in (ROOT / "noxfile.py").read_text()
    commands = [step["run"] for step in WORKFLOW["jobs"][session]["steps"] if "run" in step]
    assert commands[-1].startswith(f"pip install nox && nox -s {session}")


def test_public_ci_runs_every_part_of_the_long_tests():
    job = WORKFLOW["jobs"]["long-tests"]
    count = re.search(r"nox -s full -- -m full --splits (\d+) --group", job["steps"][-2]["run"])[1]
    assert job["strategy"]["matrix"]["part"] == list(range(1, int(count) + 1))


@pytest.mark.parametrize("session", WORKFLOW["jobs"]["others"]["strategy"]["matrix"]["session"])
def test_public_ci_runs_what_needs_more_packages(session):
    assert f"def {session}(session: nox.Session)" in (ROOT / "noxfile.py").read_text()


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_template_of_issues_says_what_it_is_for(path):
    _, head, body = path.read_text().split("---\n")
    assert set(yaml.safe_load(head)) == {"name", "about"}
    assert body.strip()


def test_pre_commit_runs_what_the_lint_session_runs():
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    entries = [" ".join(hook["entry"].split()[:2]) for hook in repository["hooks"]]
    assert entries == ["ruff format", "ruff check", "mypy"]
