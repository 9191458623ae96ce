"""Results of the scoreboard as tables, for the command line and the site."""

from collections.abc import Callable, Iterable
from typing import Any

from tilewright.base.table import Column, Table, code, verdict
from tilewright.claims import Claim
from tilewright.claims.scoreboard import Count, Line, Result


def headline_table(lines: Iterable[Line]) -> Table:
    """A line for each claim of an abstract or conclusion."""
    columns: dict[str, Column] = {
        "Paper": "paper",
        "Claim": "text",
        "Published": lambda line: _each(line, lambda r: shown(r.published)),
        "Ours": lambda line: _each(line, lambda r: shown(r.ours)),
        "Over open choices": lambda line: _each(line, _interval),
        "Class": lambda line: line.worst.claim_class or "-",
        "Verdict": lambda line: verdict(line.worst.good, line.worst.verdict),
        "Turned by": "turned_by",
    }
    return Table.of(lines, columns)


def _each(line: Line, text: Callable[[Result], str]) -> str:
    """The texts of a line's figures; where they are many numbers, from the least to the most."""
    texts = [text(r) for r in line.results]
    if len(texts) > 2 and set(texts) != {"-"}:
        return "{} to {}".format(*(end(texts, key=float) for end in (min, max)))
    return "; ".join(texts) if set(texts) != {"-"} else "-"


def _interval(result: Result) -> str:
    return "-" if result.interval is None else "{:.4g} to {:.4g}".format(*result.interval)


def claim_table(results: Iterable[Result]) -> Table:
    """Results with their verdicts, and from which value on those that are off would be within."""
    columns: dict[str, Column] = {
        "Claim": lambda r: code(r.id),
        "Class": lambda r: r.claim_class or "-",
        "Verdict": lambda r: verdict(r.good, r.verdict),
        "Published": lambda r: ("" if r.printed else "derived: ") + shown(r.published),
        "Ours": lambda r: shown(r.ours),
        "Over open choices": _interval,
        "Unit": "unit",
        "Deviation": lambda r: r.deviation_text or "-",
        "Tolerance": "tolerance_text",
        "Within from": lambda r: "-" if r.good else shown(r.nearest),
        "Counts with": "same_as",
        "Place": "where",
        "Cause": lambda r: r.cause or "-",
        "Settled by": lambda r: r.cause.settled_by if r.cause else "-",
        "Reason": "reason",
    }
    return Table.of(results, columns)


def count_table(kind: str, counts: Iterable[Count]) -> Table:
    """Claims of each kind by verdict, those with the same cause once."""
    columns: dict[str, Column] = {
        kind: "name",
        "Claims": "claims",
        "Holds": "holds",
        "Off": "off",
        "Reversed": "reversed",
        "Not evidence": "not_evidence",
        "Not evaluated": "not_evaluated",
    }
    return Table.of(counts, columns)


def change_table(pairs: Iterable[tuple[Result, Result]]) -> Table:
    columns: dict[str, Column] = {
        "Claim": lambda pair: code(pair[0].id),
        "Published": lambda pair: shown(pair[0].published),
        "Ours": lambda pair: shown(pair[0].ours),
        "Then": lambda pair: shown(pair[1].ours),
        "Verdict": lambda pair: verdict(pair[0].good, pair[0].verdict),
        "Verdict then": lambda pair: verdict(pair[1].good, pair[1].verdict),
    }
    return Table.of(pairs, columns)


def fact_table(claims: Iterable[Claim]) -> Table:
    """Figures of a paper that the scoreboard does not compare."""
    columns: dict[str, Column] = {
        "Claim": lambda c: code(c.id),
        "Value": lambda c: shown(c.value),
        "Unit": "unit",
        "Place": "where",
        "Note": "note",
    }
    return Table.of(claims, columns)


def shown(value: Any) -> str:
    """A value as tables show it: four digits of a number."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case int():
            return str(value)
        case dict():
            return ", ".join(f"{key} {shown(part)}" for key, part in value.items())
        case list() | tuple():
            return ", ".join(map(shown, value))
    return f"{value:.4g}"
