"""Tables of evidence, for the site and the report."""

from collections.abc import Sequence
from pathlib import Path

import tilewright
from tilewright.report.reference.declarations import markdown_table
from tilewright.studies.evidence import read_summary, standings, table
from tilewright.studies.evidence.fuzzing import load_fuzzing
from tilewright.studies.evidence.lines import Ran, load_lines
from tilewright.studies.evidence.summary import FILE
from tilewright.studies.mutations import Score, Verdict, load_campaign, scores
from tilewright.studies.mutations.survivors import reason_of

__all__ = [
    *("evidence_table", "fuzzing_table", "lines_that_ran", "lines_table", "long_tests"),
    *("mutation_table", "planted_errors", "survivor_table", "survivors", "tried_inputs"),
]

ROOT = Path(tilewright.__file__).parents[1]
Table = tuple[Sequence[str], list[tuple[object, ...]]]


def long_tests() -> Table:
    """One line a file of tests, from the outcomes that are kept; none outside a checkout."""
    found = standings(read_summary(ROOT / FILE), ROOT)
    header, rows = table(found)
    return [word.capitalize() for word in header], rows


def planted_errors() -> Table:
    """One line a block, and one for all."""
    header = ("Block", "Mutants", "Found", "Equivalent", "Survived", "Open", "Found of the judged")
    found = scores(load_campaign())
    whole = Score(
        block="all",
        mutants=sum(s.mutants for s in found),
        found=sum(s.found for s in found),
        equivalent=sum(s.equivalent for s in found),
        survived=sum(s.survived for s in found),
        open=sum(s.open for s in found),
    )
    return header, [
        (s.block, s.mutants, s.found, s.equivalent, s.survived, s.open, s.percent)
        for s in (*found, whole)
    ]


def survivors() -> Table:
    """Every error that no bench found and no proof excused, and what is known about it."""
    rows: list[tuple[object, ...]] = [
        (block, mutant.kind, mutant.change, reason_of(block, mutant))
        for block, found in load_campaign().blocks.items()
        for mutant in found.mutants
        if mutant.verdict == Verdict.SURVIVED.value
    ]
    return ("Block", "Error", "Change", "Why it lives"), rows


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


def mutation_table() -> str:
    """Planted errors for the site."""
    return _markdown(planted_errors())


def survivor_table() -> str:
    """Errors that live, for the site."""
    return _markdown(survivors())


def fuzzing_table() -> str:
    """Damaged inputs for the site."""
    return _markdown(tried_inputs())


def lines_table() -> str:
    """Lines that tests run, for the site."""
    return _markdown(lines_that_ran())
