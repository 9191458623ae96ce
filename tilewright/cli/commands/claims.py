"""``tilewright claims``: the papers' figures beside ours."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from tilewright.base.console import print_csv, print_json, print_table
from tilewright.base.errors import CommandError

NAME = "claims"
HELP = "evaluate the papers' claims: published, ours, deviation, class, verdict"
EXAMPLE = "tilewright claims --paper deca"
OF_PAPERS = {  # options that show something else, of the claims of --paper
    "classes": "how many claims of each class are within tolerance, duplicates counted once",
    "off": "predictions and measurements that are off, with the reason",
}
OF_ALL = {  # options that show something else, for all claims
    "residuals": "deviations by table, those of figures that constants were fitted to apart",
    "sensitivity": "what 10%% more of each constant changes most",
    "programs": "formulas for Anda and Harmonia beside the cycles of their programs",
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
    for name, text in {**OF_PAPERS, **OF_ALL}.items():
        instead.add_argument(f"--{name}", dest="view", action="store_const", const=name, help=text)


def run(args: argparse.Namespace) -> int:
    if args.csv and args.json:
        raise CommandError("--csv and --json exclude each other")
    for name in ("paper", "verdict"):
        if args.view in OF_ALL and getattr(args, name):
            raise CommandError(f"--{name} does not go with --{args.view}, which takes all claims")
    if args.view and args.verdict:
        raise CommandError(f"--verdict does not go with --{args.view}, which takes all verdicts")
    (_model if args.view in OF_ALL else _scoreboard)(args)
    return 0


def _scoreboard(args: argparse.Namespace) -> None:
    from tilewright.claims import scoreboard as board
    from tilewright.cli import claim_tables as tables
    from tilewright.golden.params.names import unknown

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
        _show(
            args, [r.as_dict() | {"nearest": r.nearest} for r in off], tables.miss_table(off), total
        )
    else:
        wanted = args.verdict or board.VERDICTS
        shown = {name: [r for r in rows if r.verdict in wanted] for name, rows in results.items()}
        papers = board.summary(results)
        if not (args.json or args.csv):
            for rows in shown.values():
                print_table(*tables.claim_table(rows))
                print()
            print_table(*tables.summary_table(papers))
            return
        data = [
            {"name": name, **asdict(count), "claims": [r.as_dict() for r in shown[name]]}
            for name, count in papers.items()
        ]
        _show(args, data, tables.claim_table(r for rows in shown.values() for r in rows))


def _model(args: argparse.Namespace) -> None:
    """How good the performance model is, and programs: whole layers, then products alone."""
    from tilewright.claims.scoreboard import evaluate
    from tilewright.cli import claim_tables as tables
    from tilewright.sim.program_residuals import layer_residuals, product_residuals
    from tilewright.studies.model_fit import residuals, sensitivities

    if args.view == "residuals":
        rows = residuals(evaluate())
        _show(args, rows, tables.residual_table(rows))
    elif args.view == "sensitivity":
        found = sensitivities()
        _show(args, found, tables.sensitivity_table(found))
    else:
        layers, products = layer_residuals(), product_residuals()
        if args.json:
            print_json({"layers": layers, "projections": products})
            return
        _show(args, layers, tables.layer_table(layers))
        print()
        _show(args, products, tables.program_table(products))


def _show(
    args: argparse.Namespace,
    found: Sequence[object],
    table: tuple[Sequence[str], Sequence[Sequence[object]]],
    last: str = "",
) -> None:
    print_json(found) if args.json else (print_csv if args.csv else print_table)(*table)
    if last and not (args.json or args.csv):
        print(last)
