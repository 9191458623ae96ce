"""Options of pytest for long runs: a part of the tests, and a file of their outcomes.

``--shard 3/12`` takes the third of twelve parts. Cases of one test stay together, for they share
builds of simulators; the parts are as long as each other by the times of docs/evidence.json.
``--outcomes FILE`` writes what `tilewright evidence --add FILE` reads.
"""

import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tilewright.studies.evidence import Outcome, Run, read_summary, sources_key
from tilewright.studies.evidence.summary import FILE

ROOT = Path(__file__).parents[2]
UNKNOWN_SECONDS = 20.0  # of a test that no run has timed


def pytest_addoption(parser):
    group = parser.getgroup("long runs")
    group.addoption("--shard", metavar="K/N", help="the K-th of N parts of the tests")
    group.addoption("--outcomes", metavar="FILE", help="write outcomes and times as JSON")


def pytest_configure(config):
    if text := config.getoption("--shard"):
        parse_shard(text)  # an error before anything is collected
    path = config.getoption("--outcomes")
    if path and not hasattr(config, "workerinput"):  # workers report to the one that started them
        recorder = Recorder(Path(path), text or "", config.rootpath)
        config.pluginmanager.register(recorder, "tilewright-outcomes")


def parse_shard(text: str) -> tuple[int, int]:
    """Of ``K/N``: both as numbers."""
    part, _, count = text.partition("/")
    if not (part.isdigit() and count.isdigit() and 1 <= int(part) <= int(count)):
        raise pytest.UsageError(f"--shard {text}: write K/N with K from 1 to N, such as 3/12")
    return int(part), int(count)


@pytest.hookimpl(trylast=True)  # after -m and -k have chosen
def pytest_collection_modifyitems(config, items):
    if text := config.getoption("--shard"):
        part, count = parse_shard(text)
        names = [item.nodeid.partition("[")[0] for item in items]
        mine = shards(names, count)[part - 1]
        config.hook.pytest_deselected(
            items=[i for i, name in zip(items, names, strict=True) if name not in mine]
        )
        items[:] = [i for i, name in zip(items, names, strict=True) if name in mine]


def shards(names, count: int, seconds=None) -> list[set[str]]:
    """Divide tests into ``count`` sets of about the same length; the same for the same names."""
    if seconds is None:
        seconds = {}
        for name, entry in read_summary(ROOT / FILE).tests.items():
            test = name.partition("[")[0]
            seconds[test] = seconds.get(test, 0.0) + entry.seconds
    weights = {name: seconds.get(name, UNKNOWN_SECONDS) for name in names}
    parts: list[set[str]] = [set() for _ in range(count)]
    loads = [0.0] * count
    for name in sorted(weights, key=lambda name: (-weights[name], name)):
        place = loads.index(min(loads))
        parts[place].add(name)
        loads[place] += weights[name]
    return parts


class Recorder:
    """Keeps the outcome of every test and writes them after each: a run that is cut short leaves
    what it had.

    Commit and sources are those of the start: what changes later was not tested. A tree without
    Git has no commit; `tilewright evidence --add FILE --commit NAME` gives it one.
    """

    def __init__(self, path: Path, shard: str, root: Path):
        self.path, self.shard, self.root = path, shard, root
        self.tests: dict[str, Outcome] = {}
        self.seconds: dict[str, float] = {}
        self.sources: dict[str, str] = {}
        self.commit = self._git("rev-parse", "HEAD")
        self.changed = self._is_changed()
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def pytest_runtest_logreport(self, report):
        name = report.nodeid
        self.seconds[name] = self.seconds.get(name, 0.0) + report.duration
        known = self.tests.get(name)
        outcome = known.outcome if known else None
        if report.failed:
            outcome = "failed"
        elif report.skipped or report.when == "call":
            outcome = outcome or report.outcome
        if outcome:  # a test that was stopped before its end has none
            self.tests[name] = Outcome(outcome, round(self.seconds[name], 2))
        file = report.nodeid.partition("::")[0]
        if file not in self.sources:
            self.sources[file] = sources_key(file, self.root)
        if report.when == "teardown":
            self.write()

    def pytest_sessionfinish(self):
        self.changed = self.changed or self._is_changed()
        self.write()

    def write(self):
        Run(
            commit=self.commit,
            changed=self.changed,
            date=datetime.now(UTC).date().isoformat(),
            machine=platform.machine(),
            python=platform.python_version(),
            shard=self.shard,
            sources=dict(sorted(self.sources.items())),
            tests=dict(sorted(self.tests.items())),
        ).write(self.path)

    def _is_changed(self) -> bool:
        return bool(self._git("status", "--porcelain", "--untracked-files=no"))

    def _git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.root), *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        return result.stdout.strip()
