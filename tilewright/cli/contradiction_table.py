"""The papers' contradictions as rows of text."""

from collections.abc import Iterable

from tilewright.cli.claim_tables import Table
from tilewright.sim.contradictions import Contradiction

__all__ = ["contradiction_table"]


def contradiction_table(rows: Iterable[Contradiction]) -> Table:
    """Show what is printed beside what follows from the rest of the paper."""
    header = ("PAPER", "SUBJECT", "PRINTED", "FOLLOWS", "UNIT", "WHERE", "FROM", "ARITHMETIC")
    return header, [
        (
            *(c.paper, c.subject, c.printed, f"{c.computed:.4g}", c.unit),
            *(c.where, c.source, c.arithmetic),
        )
        for c in rows
    ]
