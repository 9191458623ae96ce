"""``tilewright claims --off``: predictions and measurements that are off, and why."""

import argparse
from collections.abc import Iterable

from tilewright.base.console import print_csv, print_json, print_table
from tilewright.cli.claim_tables import Table, shown_value
from tilewright.sim.choices import ceiling
from tilewright.sim.classes import Summary, headline
from tilewright.sim.misses import Miss, misses
from tilewright.sim.scoreboard import evaluate

__all__ = ["miss_table", "show_misses"]


def miss_table(found: Iterable[Miss]) -> Table:
    """Show one claim a row."""
    header = (
        *("CLAIM", "CLASS", "PUBLISHED", "OURS", "UNIT"),
        *("DEVIATION", "TOLERANCE", "WITHIN FROM", "CAUSE", "REASON", "SHOWN BY", "NEEDS"),
    )
    return header, [
        (
            *(m.claim, m.claim_class, shown_value(m.published), shown_value(m.ours), m.unit),
            *(m.deviation or "-", m.tolerance),
            "-" if m.nearest is None else shown_value(m.nearest),
            m.cause.name.lower() if m.cause else "-",
            *(m.reason, m.shown_by or "-", m.needs or "-"),
        )
        for m in found
    ]


def show_misses(args: argparse.Namespace) -> None:
    """Print them, and how many are not off."""
    results = [r for rows in evaluate(args.paper).values() for r in rows]
    found = misses(results)
    if args.json:
        print_json([miss.as_dict() for miss in found])
    elif args.csv:
        print_csv(*miss_table(found))
    else:
        print_table(*miss_table(found))
        print(f"\n{headline(Summary.of(results))}. {ceiling(results).sentence}.")
