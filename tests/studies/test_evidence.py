"""Long runs in parts, their outcomes, and what makes an outcome older than its code."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.campaign import parse_shard, shards
from tests.support.long_run import Part, Runner, parts_of
from tilewright.cli import main
from tilewright.cli.commands import evidence as command
from tilewright.studies import evidence
from tilewright.studies.evidence.outcomes import Outcome, Run
from tilewright.studies.evidence.summary import FILE, Summary

ROOT = Path(__file__).parents[2]
RUN = Run(
    commit="0123456789abcdef",
    changed=False,
    date="2026-01-02",
    machine="aarch64",
    python="3.11.7",
    shard="1/2",
    sources={"tests/test_a.py": "old"},
    tests={
        "tests/test_a.py::test_one[x]": Outcome("passed", 2.0),
        "tests/test_a.py::test_one[y]": Outcome("failed", 3.0),
        "tests/test_a.py::test_two": Outcome("skipped", 0.5),
    },
)


def checkout(folder: Path) -> Path:
    """A small project: a test, what it imports, and what that imports."""
    (folder / "tests").mkdir()
    (folder / "golden").mkdir()
    (folder / "tilewright").mkdir()
    (folder / "tilewright" / "__init__.py").write_text("")
    (folder / "golden" / "__init__.py").write_text("")
    (folder / "golden" / "deep.py").write_text("VALUE = 1\n")
    (folder / "golden" / "near.py").write_text("from tilewright.golden import deep\n")
    (folder / "golden" / "other.py").write_text("")
    text = "def test_one():\n    from tilewright.golden.near import deep\n"
    (folder / "tests" / "test_a.py").write_text(text)
    return folder


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_parts_hold_every_test_once_and_are_even(count):
    seconds = {f"t{n}": float(1 + n * 7 % 30) for n in range(60)}
    parts = shards(seconds, count, seconds)
    assert sorted(name for part in parts for name in part) == sorted(seconds)
    loads = [sum(seconds[name] for name in part) for part in parts]
    assert max(loads) - min(loads) <= max(seconds.values())
    assert parts == shards(reversed(seconds), count, seconds)


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "-1/2"])
def test_parts_that_do_not_exist_are_refused(text):
    with pytest.raises(pytest.UsageError, match="K/N"):
        parse_shard(text)


def test_pytest_writes_outcomes_of_a_part(pytester_run, tmp_path):
    first, second = (pytester_run(f"{k}/2", tmp_path / f"{k}.json") for k in (1, 2))
    assert not set(first.tests) & set(second.tests)
    together = first.tests | second.tests
    words = {name.rpartition("::")[2]: each.outcome for name, each in together.items()}
    assert words == {
        **{"test_good[0]": "passed", "test_good[1]": "passed"},
        **{"test_bad": "failed", "test_broken_set_up": "failed", "test_left_out": "skipped"},
    }


@pytest.fixture
def pytester_run(tmp_path):
    file = tmp_path / "test_sample.py"
    file.write_text(
        "import pytest\n"
        "@pytest.fixture\ndef broken():\n    raise ValueError\n"
        "@pytest.mark.parametrize('n', [0, 1])\ndef test_good(n): pass\n"
        "def test_bad(): assert False\n"
        "def test_broken_set_up(broken): pass\n"
        "@pytest.mark.skip\ndef test_left_out(): pass\n"
    )

    def run(shard: str, path: Path) -> Run:
        plugins = ["-p", "tests.support.campaign", "-p", "no:cacheprovider"]
        place = ["-c", "/dev/null", f"--rootdir={tmp_path}", str(file)]
        command = [sys.executable, "-m", "pytest", *plugins, *place]
        program = [*command, "--shard", shard, "--outcomes", str(path)]
        subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
        return evidence.read_run(path)

    return run


def test_sources_are_followed_and_nothing_else_is(tmp_path):
    root = checkout(tmp_path)
    found = [str(p.relative_to(root)) for p in evidence.sources_of("tests/test_a.py", root)]
    assert found == [
        *("golden/__init__.py", "golden/deep.py", "golden/near.py"),
        *("tests/test_a.py", "tilewright/__init__.py"),
    ]
    with pytest.raises(ValueError, match="no file"):
        evidence.sources_of("tests/gone.py", root)


def test_this_file_reaches_what_it_tests():
    found = evidence.sources_of("tests/studies/test_evidence.py", ROOT)
    assert ROOT / "tilewright/studies/evidence/sources.py" in found
    assert ROOT / "tests/support/campaign.py" in found


def test_a_change_of_what_is_reached_makes_an_outcome_old(tmp_path):
    root = checkout(tmp_path)
    key = evidence.sources_key("tests/test_a.py", root)
    run = replace(RUN, sources={"tests/test_a.py": key})
    summary = evidence.merged(Summary({}), [run])
    (standing,) = evidence.standings(summary, root)
    assert (standing.tests, standing.passed, standing.failed, standing.skipped) == (2, 1, 1, 1)
    assert standing.current
    (root / "golden" / "other.py").write_text("VALUE = 3\n")
    deep = root / "golden" / "deep.py"
    deep.write_text(f"# A reason.\n{deep.read_text()}")
    assert evidence.sources_key("tests/test_a.py", root) == key
    deep.write_text("VALUE = 2\n")
    assert evidence.sources_key("tests/test_a.py", root) != key


def test_later_outcomes_replace_earlier_ones():
    later = replace(RUN, commit="f" * 16, tests={"tests/test_a.py::test_two": Outcome("passed", 1)})
    summary = evidence.merged(Summary({}), [RUN, later])
    assert summary.tests["tests/test_a.py::test_two"].commit == "f" * 16
    assert summary.tests["tests/test_a.py::test_one[x]"].commit == RUN.commit
    with pytest.raises(ValueError, match="commit them"):
        evidence.merged(summary, [replace(RUN, changed=True)])


def test_a_run_outside_git_is_of_the_commit_whose_sources_it_had(tmp_path):
    root = checkout(tmp_path)
    key = evidence.sources_key("tests/test_a.py", root)
    run = replace(RUN, commit="", sources={"tests/test_a.py": key})
    with pytest.raises(ValueError, match="--commit names it"):
        evidence.merged(Summary({}), [run])
    for other in (run, replace(run, commit="0" * 16, changed=True)):
        named = evidence.of_commit(other, "f" * 16, root)
        assert (named.commit, named.changed) == ("f" * 16, False)
    with pytest.raises(ValueError, match="other sources than those of this checkout"):
        evidence.of_commit(replace(run, sources={"tests/test_a.py": "old"}), "f" * 16, root)
    with pytest.raises(ValueError, match="says itself"):
        evidence.of_commit(RUN, "f" * 16, root)


def test_tests_that_are_no_more_are_forgotten(tmp_path, capsys, monkeypatch):
    root = checkout(tmp_path)
    monkeypatch.setattr(command, "ROOT", root)
    RUN.write(root / "run.json")
    (root / "tests.txt").write_text("tests/test_a.py::test_two\ntests/test_a.py::test_three\n")
    known = ["--known", str(root / "tests.txt")]
    assert main(["evidence", "--add", str(root / "run.json"), *known]) == 0
    assert "1 of 2 long tests have no outcome" in capsys.readouterr().err
    assert list(evidence.read_summary(root / FILE).tests) == ["tests/test_a.py::test_two"]
    assert main(["evidence", *known]) == 2
    assert main(["evidence", "--add", str(root / "run.json"), "--known", str(root / "no")]) == 2


def test_long_cases_begin_first_and_short_ones_share_a_process():
    seconds = {f"tests/a.py::test_short[{k}]": 20.0 for k in range(5)}
    long, fuzz = "tests/a.py::test_long", "tests/fuzz/a.py::test_inputs"
    parts = parts_of([*seconds, long, fuzz], {**seconds, long: 50.0, fuzz: 900.0})
    assert [len(part.cases) for part in parts] == [1, 2, 2, 1, 1]
    assert (parts[0].cases, parts[-1].cases) == ((long,), (fuzz,))


def test_few_large_ones_run_at_a_time(tmp_path):
    large = [Part((f"tests/a.py::test_at_the_papers_size[{k}]",), 100.0) for k in range(3)]
    small = Part(("tests/a.py::test_one",), 1.0)
    runner = Runner([*large, small], tmp_path, jobs=4, large=1)
    runner.running["a process"] = runner.next_part()
    assert list(runner.running.values()) == large[:1]
    assert runner.next_part() == small and runner.next_part() is None
    runner.running.clear()
    assert runner.next_part() == large[1]


def test_half_of_the_processes_take_short_ones(tmp_path):
    long = [Part((f"tests/a.py::test_long[{k}]",), 100.0) for k in range(3)]
    short = [Part((f"tests/a.py::test_short[{k}]",), 1.0) for k in range(2)]
    runner = Runner([*long, *short], tmp_path, jobs=2, large=1)
    order = []
    for process in range(5):
        order.append(runner.next_part())
        runner.running[process] = order[-1]
    assert order == [long[0], short[0], short[1], long[1], long[2]]


def test_command_adds_and_shows(tmp_path, capsys, monkeypatch):
    root = checkout(tmp_path)
    monkeypatch.setattr(command, "ROOT", root)
    RUN.write(root / "run.json")
    assert main(["evidence", "--add", str(root / "run.json"), "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert shown["file"] == "tests/test_a.py" and not shown["current"]
    assert evidence.read_summary(root / FILE).tests
    (root / "bad.json").write_text("{}")
    assert main(["evidence", "--add", str(root / "bad.json")]) == 2
    assert "no file of `pytest --outcomes`" in capsys.readouterr().err
    broken = '{"tests": {"a": {"outcome": "passed", "seco\\nds": 1}}}'  # found by fuzzing
    (root / "bad.json").write_text(broken)
    assert main(["evidence", "--add", str(root / "bad.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
