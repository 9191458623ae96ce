"""``tilewright claims``: the papers' figures and ours."""

import argparse

from tilewright.base.console import print_json, show
from tilewright.base.errors import CommandError
from tilewright.base.table import Table

NAME = "claims"
HELP = "evaluate the papers' claims: published, ours, deviation, class, verdict"
EXAMPLE = "tilewright claims --paper deca"
VIEWS = {  # options that show something else
    "classes": "count the claims of each class within tolerance, duplicates once",
    "off": "list predictions and measurements that are off, with the reason",
    "residuals": "average the deviations of each table, fitted figures apart, over all papers",
}


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
    from tilewright.claims import tables
    from tilewright.golden.params.names import unknown
    from tilewright.studies.model_fit import residual_table, residuals

    for verdict in args.verdict or ():
        if verdict not in board.VERDICTS:
            raise ValueError(unknown("verdict", verdict, board.VERDICTS))
    results = board.evaluate(args.paper)
    every = [r for rows in results.values() for r in rows]
    total = f"\n{board.headline(board.Summary.of(every))}."
    if args.view == "classes":
        counts = board.class_counts(every)
        _show(args, counts, tables.class_table(counts), total)
    elif args.view == "off":
        off = board.misses(every)
        data = [r.as_dict() | {"nearest": r.nearest} for r in off]
        _show(args, data, tables.miss_table(off), total)
    elif args.view == "residuals":
        deviations = residuals(results)
        _show(args, deviations, residual_table(deviations))
    else:
        wanted = args.verdict or board.VERDICTS
        shown = {name: [r for r in rows if r.verdict in wanted] for name, rows in results.items()}
        papers = board.summary(results)
        every = [r for rows in shown.values() for r in rows]
        data = [
            {"name": name, **vars(count), "claims": [r.as_dict() for r in shown[name]]}
            for name, count in papers.items()
        ]
        by_paper = tables.summary_table(papers)
        _show(args, data, tables.claim_table(every), f"\n{by_paper}")
    return 0


def _show(args: argparse.Namespace, data: object, table: Table, last: str = "") -> None:
    if args.json:
        print_json(data)
        return
    if args.csv:
        print(table.csv)
        return
    show(table)
    if last:
        print(last)
