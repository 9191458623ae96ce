"""The page of the papers' contradictions: one table a paper, made from the entries."""

from tilewright.report.reference.declarations import markdown_table
from tilewright.sim.claims import papers
from tilewright.sim.contradictions import Contradiction, contradictions

__all__ = ["contradiction_lists"]

TITLES = {"anda": "Anda", "deca": "DECA", "harmonia": "Harmonia", "sparamx": "SparAMX"}
HEADER = ("figure", "printed", "follows", "from", "arithmetic", "taken here")


def contradiction_lists() -> str:
    """Return the section of every paper that has an entry."""
    return "\n\n".join(
        f"## {TITLES[paper]}\n\n{markdown_table(HEADER, [_row(one) for one in found])}"
        for paper in papers()
        if (found := contradictions([paper]))
    )


def _row(one: Contradiction) -> tuple[str, ...]:
    return (
        f"{one.subject} ({one.where})",
        f"{one.printed} {one.unit}".strip(),
        f"{one.computed:.4g} {one.unit}".strip(),
        one.source,
        f"`{one.arithmetic}`",
        one.taken,
    )
