"""``tilewright claims``: the papers' figures beside ours."""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from tilewright.base.console import print_csv, print_json, print_table
from tilewright.base.errors import CommandError

if TYPE_CHECKING:
    from tilewright.claims.scoreboard import ClassCount, Result, Summary
    from tilewright.studies.model_fit import Residual

NAME = "claims"
HELP = "evaluate the papers' claims: published, ours, deviation, class, verdict"
EXAMPLE = "tilewright claims --paper deca"
VIEWS = {  # options that show something else
    "classes": "count the claims of each class within tolerance, duplicates once",
    "off": "list predictions and measurements that are off, with the reason",
    "residuals": "average the deviations of each table, fitted figures apart, over all papers",
}
Table = tuple[Sequence[str], list[Sequence[object]]]  # header, rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--paper",
        action="append",
        metavar="P",
        help="anda, deca, harmonia or sparamx; repeatable [all]",
    )
    parser.add_argument(
        "--verdict",
        action="append",
        metavar="V",
        help="show only: reproduced, agrees, off, not modelled",
    )
    parser.add_argument("--csv", action="store_true", help="comma-separated values, for programs")
    instead = parser.add_mutually_exclusive_group()
    for name, text in VIEWS.items():
        instead.add_argument(f"--{name}", dest="view", action="store_const", const=name, help=text)


def run(args: argparse.Namespace) -> int:
    if args.csv and args.json:
        raise CommandError("--csv and --json exclude each other")
    if args.view == "residuals" and args.paper:
        raise CommandError("--paper does not go with --residuals, which takes all claims")
    if args.view and args.verdict:
        raise CommandError(f"--verdict does not go with --{args.view}, which takes all verdicts")
    from tilewright.claims import scoreboard as board
    from tilewright.golden.params.names import unknown
    from tilewright.studies.model_fit import residuals

    for verdict in args.verdict or ():
        if verdict not in board.VERDICTS:
            raise ValueError(unknown("verdict", verdict, board.VERDICTS))
    results = board.evaluate(args.paper)
    every = [r for rows in results.values() for r in rows]
    total = f"\n{board.headline(board.Summary.of(every))}."
    if args.view == "classes":
        counts = board.class_counts(every)
        _show(args, counts, class_table(counts), total)
    elif args.view == "off":
        off = board.misses(every)
        _show(args, [r.as_dict() | {"nearest": r.nearest} for r in off], miss_table(off), total)
    elif args.view == "residuals":
        deviations = residuals(results)
        _show(args, deviations, residual_table(deviations))
    else:
        wanted = args.verdict or board.VERDICTS
        shown = {name: [r for r in rows if r.verdict in wanted] for name, rows in results.items()}
        papers = board.summary(results)
        if not (args.json or args.csv):
            for rows in shown.values():
                print_table(*claim_table(rows))
                print()
            print_table(*summary_table(papers))
            return 0
        data = [
            {"name": name, **asdict(count), "claims": [r.as_dict() for r in shown[name]]}
            for name, count in papers.items()
        ]
        _show(args, data, claim_table(r for rows in shown.values() for r in rows))
    return 0


def _show(
    args: argparse.Namespace,
    found: Sequence[object],
    table: Table,
    last: str = "",
) -> None:
    print_json(found) if args.json else (print_csv if args.csv else print_table)(*table)
    if last and not (args.json or args.csv):
        print(last)


def claim_table(results: "Iterable[Result]") -> Table:
    """Show one claim a row."""
    header = (
        *("CLAIM", "WHERE", "PUBLISHED", "OURS", "REGISTERS OUTSIDE", "UNIT"),
        *("DEVIATION", "TOLERANCE", "CLASS", "VERDICT"),
    )
    return header, [
        (
            *(r.id, r.where, ("" if r.printed else "derived: ") + _shown(r.published)),
            *(_shown(r.ours), _shown(r.registers_outside), r.unit),
            *(r.deviation_text or "-", r.tolerance_text),
            (r.claim_class or "-") + (f", same as {r.same_as}" if r.same_as else ""),
            r.verdict + (f": {r.reason}" if r.reason else ""),
        )
        for r in results
    ]


def miss_table(results: "Iterable[Result]") -> Table:
    """Show one claim that is off a row."""
    header = (
        *("CLAIM", "CLASS", "PUBLISHED", "OURS", "UNIT"),
        *("DEVIATION", "TOLERANCE", "WITHIN FROM", "CAUSE", "REASON"),
    )
    return header, [
        (
            *(r.id, r.claim_class, _shown(r.published), _shown(r.ours), r.unit),
            *(r.deviation_text or "-", r.tolerance_text, _shown(r.nearest)),
            *(r.cause or "-", r.reason),
        )
        for r in results
    ]


def summary_table(counts: "dict[str, Summary]") -> Table:
    """Show one paper a row."""
    header = (
        *("PAPER", "PREDICTIONS AND MEASUREMENTS", "WITHIN TOLERANCE"),
        *("OTHER CLASSES", "AGREE", "DUPLICATES", "NOT MODELLED"),
    )
    return header, [
        (p, c.evaluated, c.within, c.others, c.others_within, c.duplicates, c.not_modelled)
        for p, c in counts.items()
    ]


def class_table(counts: "Iterable[ClassCount]") -> Table:
    """Show one class a row."""
    return ("CLASS", "IN THE HEADLINE", "EVALUATED", "WITHIN TOLERANCE", "DUPLICATES"), [
        (c.name, "yes" if c.counted else "no", c.evaluated, c.within, c.duplicates) for c in counts
    ]


def residual_table(rows: "Iterable[Residual]") -> Table:
    """Show one table of the papers a row."""
    return ("TABLE", "FITTED", "MEAN", "OTHERS", "MEAN OF OTHERS", "LARGEST", "UNIT"), [
        (
            *(r.table, r.fitted, _rounded(r.fitted_mean), r.others, _rounded(r.others_mean)),
            *(_rounded(r.largest), r.unit.replace("percent", "%")),
        )
        for r in rows
    ]


def _shown(value: object) -> str:
    """Return a value of a claim as tables show it, four digits of a number."""
    if isinstance(value, list):
        return " .. ".join(_shown(part) for part in value)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
