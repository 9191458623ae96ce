"""Outcomes of the tests that claims name, from the report of a run of pytest.

``pytest --junitxml REPORT.xml`` writes a report, ``python -m tilewright.sim.tested REPORT.xml``
takes from it what the claims name, and ``sim/claims/tests.json`` keeps it. A test with several
cases has passed when all of them have, and at least one was not skipped.
"""

import json
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

from tilewright.sim.claims import CLAIMS, load_claims, papers
from tilewright.sim.records import NoRecordError

__all__ = ["RECORD", "main", "named_tests", "outcome", "outcomes_of_report", "updated"]

RECORD = CLAIMS / "tests.json"
COMMAND = "python -m tilewright.sim.tested REPORT.xml"
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


def named_tests() -> list[str]:
    """Return the tests that claims name, as ``tests/FILE.py::NAME``, in alphabetical order."""
    every = (claim for paper in papers() for claim in load_claims(paper).values())
    return sorted({test for claim in every for test in claim.arguments.get("tests", ())})


def outcomes_of_report(path: Path) -> dict[str, str]:
    """Return the outcome of every test of a JUnit report, its cases together."""
    try:
        cases = ElementTree.parse(path).iter("testcase")
    except (OSError, ElementTree.ParseError) as error:
        raise ValueError(f"{path} is no report of pytest --junitxml: {error}") from None
    found: dict[str, set[str]] = {}
    for case in cases:
        name = case.get("name", "").partition("[")[0]
        node = f"{case.get('classname', '').replace('.', '/')}.py::{name}"
        bad = case.find("failure") is not None or case.find("error") is not None
        skipped = case.find("skipped") is not None
        found.setdefault(node, set()).add(FAILED if bad else SKIPPED if skipped else PASSED)
    return {node: _together(outcomes) for node, outcomes in found.items()}


def _together(outcomes: Iterable[str]) -> str:
    seen = set(outcomes)
    return FAILED if FAILED in seen else PASSED if PASSED in seen else SKIPPED


@cache
def _record() -> dict[str, str]:
    if not RECORD.exists():
        return {}
    found: dict[str, str] = json.loads(RECORD.read_text())["tests"]
    return found


def outcome(test: str) -> bool:
    """Return whether a test passed in its last recorded run."""
    found = _record().get(test, SKIPPED)
    if found == SKIPPED:
        raise NoRecordError(f"no outcome of {test} in the record of tests")
    return found == PASSED


def updated(reports: Iterable[Path]) -> dict[str, object]:
    """Return the record with the outcomes of some reports; named tests keep their others."""
    known = dict(_record())
    for path in reports:
        known |= outcomes_of_report(path)
    named = named_tests()
    return {"command": COMMAND, "tests": {test: known[test] for test in named if test in known}}


def main(arguments: list[str]) -> int:
    """Write the record from reports."""
    if not arguments:
        print("usage: python -m tilewright.sim.tested REPORT.xml...", file=sys.stderr)
        return 2
    try:
        text = json.dumps(updated(map(Path, arguments)), indent=1) + "\n"
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    partial = RECORD.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(RECORD)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
