"""README.md and the tour of the commands: what they show is run, counts are compared."""

import re
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.examples import blocks, console_examples, run_examples
from tests.support.installed import run
from tilewright import cli
from tilewright.claims.scoreboard import Count, counts, evaluate
from tilewright.golden.params.resolve import BLOCKS
from tilewright.hw.catalog import CATALOG
from tilewright.site.gallery import PICTURES, standalone
from tilewright.verify.benches import BENCHES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
TOUR = (ROOT / "docs" / "reference" / "tour.md").read_text()


@pytest.mark.parametrize("examples", console_examples(TOUR), ids=lambda found: found[0][0])
def test_examples_of_the_tour(examples, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_examples(examples, capsys)


def test_counts_of_the_readme():
    """And of docs/model-accuracy.md, where the other kinds are too."""
    first, *others = counts(evaluate(), "subject")
    assert f"{first.holds} of {first.counted} figures of the papers that the hardware" in README
    page = " ".join((ROOT / "docs" / "model-accuracy.md").read_text().split())
    assert f"hardware decides {first.holds} of {first.counted} hold" in page
    assert all(f"{c.holds} of {c.counted} of {c.name}" in page for c in others)
    holds, counted = (
        sum(getattr(c, key) for c in (first, *others)) for key in ("holds", "counted")
    )
    assert f"{holds} of {counted}, of which {first.holds} of {first.counted} are about" in page


# These need a model that is a package of its own, or long; all are in the run of the whole page.
NOT_RUN = ("tilewright run smollm2", "tilewright simulate", "tilewright synth")


@pytest.mark.parametrize("line", re.findall(r"\| `(tilewright [^`]*)` \|$", README, re.MULTILINE))
def test_commands_of_the_readme(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words, rest = cli.find_command(shlex.split(line)[1:])
    assert cli.command_parser(*words).parse_known_args(rest)[1] == []
    if not line.startswith(NOT_RUN):
        assert cli.main(shlex.split(line)[1:]) == 0


# The session that runs this test, and gigabytes that the session torch installs.
ELSEWHERE = ("nox -s tests", ".[torch]")
STEP = r"^```\n(?P<lines>.*?)^```$|^```python\n(?P<program>.*?)^```$"
STEP += r"|`(?P<install>pip install [^`]*)`|\| `(?P<row>tilewright [^`]*)` \|"


@pytest.mark.full
def test_the_readme_from_top_to_bottom(tmp_path):
    """A shell runs it as it is written: in a copy of the checkout, in an empty environment."""
    copy, environment = tmp_path / "checkout", tmp_path / "environment"
    left_out = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "out")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=left_out)
    run(sys.executable, "-m", "venv", environment, cwd=tmp_path)
    started = f"export PATH={environment}/bin:/usr/local/bin:/usr/bin:/bin; "
    printed = []
    for step in re.finditer(STEP, README, re.MULTILINE | re.DOTALL):
        if step["program"]:
            (copy / "program.py").write_text(step["program"])
        lines = ["python program.py"] if step["program"] else step[step.lastgroup].splitlines()
        for line in lines:
            if not any(words in line for words in ELSEWHERE):
                printed.append(run("bash", "-c", started + line, cwd=copy))
    assert len(printed) == 11
    assert printed[0].rstrip().splitlines()[-1].startswith("out/report/index.html and ")
    assert (copy / "out" / "report" / "index.html").is_file()
    assert (copy / "packed.safetensors").is_file() and list((copy / "build").glob("*.v"))


def test_readme_is_short_and_its_links_lead_somewhere():
    assert len(README.splitlines()) <= 150
    targets = re.findall(r"\]\(([^)#]+)\)|src=\"([^\"]+)\"", README)
    local = [link or image for link, image in targets if "://" not in link]
    assert len(local) > 20
    assert [target for target in local if not (ROOT / target).is_file()] == []


def test_pictures_of_the_readme_stand_alone():
    """Drawn by the gallery's functions, without the site's style sheet."""
    for name in (*PICTURES, "terminal"):
        svg = (ROOT / "docs" / "gallery" / f"{name}.svg").read_text()
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert "currentColor" not in svg and "var(--" not in svg
    assert standalone(PICTURES["pes"]()) == (ROOT / "docs" / "gallery" / "pes.svg").read_text()


def test_every_block_has_a_component_and_a_bench():
    assert set(BLOCKS) == set(CATALOG) == set(BENCHES)


def test_program_of_the_readme(capsys):
    (program,) = blocks(README, "python")
    exec(compile(program, "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("passed", "area (um2)", "tokens/s", "SNR", "prefill"))


def test_figures_with_one_cause_count_once_and_fail_if_one_fails():
    result = replace(evaluate(["sparamx"])["sparamx"][0], id="x", same_as="", verdict="holds")
    off = replace(result, id="y", verdict="off")

    def count(*rows):
        found = Count.of("", rows)
        return found.claims, found.holds, found.off, found.counted

    assert count(result, off) == (2, 1, 1, 2)
    assert count(result, replace(off, same_as="x")) == (2, 0, 1, 1)
    nothing = replace(result, verdict="not evidence")
    assert count(nothing) == (1, 0, 0, 0)
    assert count(nothing, replace(result, id="z", same_as="x")) == (2, 1, 0, 1)
