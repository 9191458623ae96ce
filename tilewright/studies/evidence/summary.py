"""The last outcome of every long test, gathered from runs: ``docs/evidence.json``."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from tilewright.base.files import write_atomic
from tilewright.studies.evidence.outcomes import Run
from tilewright.studies.evidence.sources import sources_key

__all__ = [
    "FILE",
    "Entry",
    "Standing",
    "Summary",
    "merged",
    "of_commit",
    "read_summary",
    "standings",
    "table",
]

FILE = "docs/evidence.json"


@dataclass(frozen=True)
class Entry:
    """The last outcome of one case of a test, ``tests/FILE.py::NAME[CASE]``."""

    outcome: str
    seconds: float
    commit: str
    date: str  # UTC, YYYY-MM-DD
    machine: str
    python: str
    sources: str  # key of what its file reached


@dataclass(frozen=True)
class Summary:
    """Entries by test, in alphabetical order."""

    tests: dict[str, Entry]

    def only(self, names: Iterable[str]) -> "Summary":
        """Return the entries of ``names``: a test that is no more has nothing to say."""
        known = set(names)
        return Summary({name: entry for name, entry in self.tests.items() if name in known})

    def write(self, path: Path) -> None:
        """Write it as JSON, a line for each entry, at once or not at all."""
        lines = [f"  {json.dumps(k)}: {json.dumps(asdict(e))}" for k, e in self.tests.items()]
        write_atomic(path, '{\n "tests": {\n' + ",\n".join(lines) + "\n }\n}\n")


@dataclass(frozen=True)
class Standing:
    """Of one file of tests."""

    file: str
    tests: int
    passed: int  # cases
    failed: int
    skipped: int
    seconds: float
    commits: tuple[str, ...]
    dates: tuple[str, str]  # the first and the last
    current: bool  # the sources that it reaches are those that were run

    def days_before(self, today: date) -> int:
        """Return how long ago the last run was."""
        return (today - date.fromisoformat(self.dates[1])).days

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


def of_commit(run: Run, commit: str, root: Path) -> Run:
    """Return a run of a tree that was no checkout as one of ``commit``, which ``root`` is one of.

    Such a tree has no Git, or differs from the commit it names. Refused where a source that a test
    reached is not what the checkout has.
    """
    if run.commit not in ("", commit) and not run.changed:
        raise ValueError(f"shard {run.shard or 'of all'} says itself that it ran {run.commit}")
    for file, key in run.sources.items():
        if key != sources_key(file, root):
            raise ValueError(f"{file} ran with other sources than those of this checkout")
    return replace(run, commit=commit, changed=False)


def merged(summary: Summary, runs: Iterable[Run]) -> Summary:
    """Return the summary with the outcomes of more runs; a later one replaces an earlier one.

    A run of a changed checkout has no commit that would stand for it and is refused.
    """
    tests = dict(summary.tests)
    for run in runs:
        if run.changed:
            raise ValueError(
                f"shard {run.shard or 'of all'} ran on changes that are not part of {run.commit}:"
                " commit them and run it again"
            )
        if not run.commit:
            raise ValueError(f"shard {run.shard or 'of all'} ran outside Git: --commit names it")
        for name, case in run.tests.items():
            tests[name] = Entry(
                outcome=case.outcome,
                seconds=round(case.seconds, 1),
                commit=run.commit,
                date=run.date,
                machine=run.machine,
                python=run.python,
                sources=run.sources[name.partition("::")[0]],
            )
    return Summary(dict(sorted(tests.items())))


def read_summary(path: Path) -> Summary:
    """Read a summary; a file that is not there yet is an empty one."""
    if not path.exists():
        return Summary({})
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Summary({name: Entry(**entry) for name, entry in data["tests"].items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no summary of evidence: {error}") from None


def standings(summary: Summary, root: Path) -> list[Standing]:
    """Return one line a test file; files that are gone are left out."""
    files: dict[str, dict[str, Entry]] = {}
    for name, entry in summary.tests.items():
        files.setdefault(name.partition("::")[0], {})[name] = entry
    return [_standing(f, found, root) for f, found in files.items() if (root / f).is_file()]


def _standing(file: str, found: dict[str, Entry], root: Path) -> Standing:
    entries = list(found.values())
    outcomes = [entry.outcome for entry in entries]
    dates = sorted(entry.date for entry in entries)
    return Standing(
        file=file,
        tests=len({name.partition("[")[0] for name in found}),
        passed=outcomes.count("passed"),
        failed=outcomes.count("failed"),
        skipped=outcomes.count("skipped"),
        seconds=round(sum(entry.seconds for entry in entries), 1),
        commits=tuple(sorted({entry.commit[:9] for entry in entries})),
        dates=(dates[0], dates[-1]),
        current={entry.sources for entry in entries} == {sources_key(file, root)},
    )


HEADER = (
    *("FILE", "TESTS", "PASSED", "FAILED", "SKIPPED"),
    *("MINUTES", "COMMITS", "LAST", "CODE SINCE"),
)


def table(
    found: Iterable[Standing], today: date | None = None
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Return header and rows to print; with ``today``, how many days ago the last run was."""
    rows: list[tuple[object, ...]] = [
        (
            *(one.file, one.tests, one.passed, one.failed, one.skipped),
            *(f"{one.seconds / 60:.1f}", " ".join(one.commits), one.dates[1]),
            "the same" if one.current else "changed",
            *([one.days_before(today)] if today else []),
        )
        for one in found
    ]
    return (*HEADER, "DAYS AGO") if today else HEADER, rows
