"""Tables of evidence, for the site and the report."""

from collections.abc import Sequence
from pathlib import Path

import tilewright
from tilewright.report.reference.declarations import markdown_table
from tilewright.studies.evidence import read_summary, standings, table
from tilewright.studies.evidence.fuzzing import load_fuzzing
from tilewright.studies.evidence.lines import Ran, load_lines
from tilewright.studies.evidence.summary import FILE

__all__ = [
    *("evidence_table", "fuzzing_table", "lines_that_ran", "lines_table", "long_tests"),
    "tried_inputs",
]

ROOT = Path(tilewright.__file__).parents[1]
Table = tuple[Sequence[str], list[tuple[object, ...]]]


def long_tests() -> Table:
    """One line a file of tests, from the outcomes that are kept; none outside a checkout."""
    found = standings(read_summary(ROOT / FILE), ROOT)
    header, rows = table(found)
    return [word.capitalize() for word in header], rows


def tried_inputs() -> Table:
    """One line a parser."""
    header = ("Parser", "Inputs", "Read", "Kinds of refusals", "Minutes", "Findings")
    return header, [
        (f.name, f.inputs, f.read, f.kinds_of_refusals, f"{f.minutes:.1f}", f.findings)
        for f in load_fuzzing()
    ]


def lines_that_ran() -> Table:
    """One line a package, and one for all."""
    header = ("Package", "Files", "Lines of functions", "Ran", "Share")
    found = load_lines()
    sums = (sum(getattr(f, name) for f in found) for name in ("files", "lines", "ran"))
    whole = [Ran("all", *sums)] if found else []
    return header, [(f.package, f.files, f.lines, f.ran, f"{f.share:.1%}") for f in found + whole]


def _markdown(found: Table) -> str:
    header, rows = found
    return markdown_table([word.lower() for word in header], rows) if rows else "None is recorded."


def evidence_table() -> str:
    """Long tests for the site."""
    return _markdown(long_tests())


def fuzzing_table() -> str:
    """Damaged inputs for the site."""
    return _markdown(tried_inputs())


def lines_table() -> str:
    """Lines that tests run, for the site."""
    return _markdown(lines_that_ran())
