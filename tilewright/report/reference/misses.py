"""The page of what is off: one table a paper, made from the claims as they are evaluated now."""

from collections import Counter
from collections.abc import Sequence

from tilewright.claims import Cause
from tilewright.claims.scoreboard import Result, Summary, evaluate, headline, misses
from tilewright.report.reference.declarations import markdown_table

__all__ = ["miss_lists"]

TITLES = {"anda": "Anda", "deca": "DECA", "harmonia": "Harmonia", "sparamx": "SparAMX"}
HEADER = ("claim", "published", "ours", "off by", "allowed", "within from", "cause", "reason")


def miss_lists() -> str:
    """Return the headline, the causes, and the section of every paper with a claim that is off."""
    results = evaluate()
    every = [r for rows in results.values() for r in rows]
    counts = Counter(r.cause for r in misses(every))
    causes = [(str(cause), str(counts[cause])) for cause in Cause if counts[cause]]
    parts = [
        f"{headline(Summary.of(every))}.",
        f"## Causes\n\n{markdown_table(('cause', 'figures'), causes)}",
    ]
    for paper, rows in results.items():
        if found := misses(rows):
            parts.append(f"## {TITLES[paper]}\n\n{markdown_table(HEADER, map(_row, found))}")
    return "\n\n".join(parts)


def _row(result: Result) -> Sequence[str]:
    return (
        f"`{result.id}`",
        f"{_shown(result.published)} {result.unit}".strip(),
        f"{_shown(result.ours)} {result.unit}".strip(),
        result.deviation_text or "-",
        result.tolerance_text,
        _shown(result.nearest),
        str(result.cause or "unknown"),
        result.reason,
    )


def _shown(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return str(value).lower()
        case list():
            return " to ".join(map(_shown, value))
        case int() | float():
            return f"{value:.4g}"
    return str(value)
