"""``tilewright claims``: the papers' figures and ours."""

import argparse

from tilewright.base.console import print_json, show
from tilewright.base.errors import CommandError
from tilewright.base.table import Table
from tilewright.cli.options import adder, option

NAME = "claims"
HELP = "evaluate the papers' claims: published, ours, deviation, class, verdict"
EXAMPLE = "tilewright claims --paper deca"
VIEWS = {  # options that show something else
    "classes": "count the claims of each class by verdict, those with the same cause once",
    "off": "list what is off or reversed, with the reason",
    "residuals": "average the deviations of each table, fitted figures apart, over all papers",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("--paper P...", "anda, deca, harmonia or sparamx [all]")
    add("--verdict V...", "show only: holds, off, reversed, not evidence, not evaluated")
    instead = parser.add_mutually_exclusive_group()
    for name, text in VIEWS.items():
        instead.add_argument(f"--{name}", dest="view", action="store_const", const=name, help=text)
    text = "list verdicts that turn if a measured input were so much more: deca.cycles=+20%%"
    option(instead, "--what-if INPUT=P%...", text)


def run(args: argparse.Namespace) -> int:
    if args.view == "residuals" and args.paper:
        raise CommandError("--paper does not go with --residuals, which takes all claims")
    if args.verdict and (args.view or args.what_if):
        view = args.view or "what-if"
        raise CommandError(f"--verdict does not go with --{view}, which takes all verdicts")
    from tilewright.claims import scoreboard as board
    from tilewright.claims import tables
    from tilewright.golden.params.names import unknown
    from tilewright.studies.model_fit import residual_table, residuals

    for verdict in args.verdict:
        if verdict not in board.VERDICTS:
            raise ValueError(unknown("verdict", verdict, board.VERDICTS))
    factors = _factors(args.what_if)
    papers = args.paper or None
    results = board.evaluate(papers)
    every = [r for rows in results.values() for r in rows]
    total = f"\n{board.headline(results)}."
    if factors:
        then = board.evaluate(papers, factors)
        pairs = board.turned(results, then)
        found = [{"before": a.as_dict(), "after": b.as_dict()} for a, b in pairs]
        last = f"{total}\nWith {', '.join(args.what_if)}: {board.headline(then)}."
        _show(args, found, tables.change_table(pairs), last)
    elif args.view == "classes":
        counts = board.counts(results, "class")
        _show(args, counts, tables.count_table("Class", counts), total)
    elif args.view == "off":
        off = board.misses(every)
        data = [r.as_dict() | {"nearest": r.nearest} for r in off]
        _show(args, data, tables.claim_table(off), total)
    elif args.view == "residuals":
        deviations = residuals(results)
        _show(args, deviations, residual_table(deviations))
    else:
        wanted = args.verdict or board.VERDICTS
        shown = {name: [r for r in rows if r.verdict in wanted] for name, rows in results.items()}
        lines = [line for line in board.abstracts(results) if line.worst.verdict in wanted]
        if not args.json:
            show(tables.headline_table(lines))
            print()
        counts = board.counts(results, "paper")
        data = [
            vars(count)
            | {"headlines": [line.as_dict() for line in lines if line.paper == count.name]}
            | {"claims": [r.as_dict() for r in shown[count.name]]}
            for count in counts
        ]
        every = [r for rows in shown.values() for r in rows]
        by_paper = tables.count_table("Paper", counts)
        _show(args, data, tables.claim_table(every), f"\n{by_paper}\n{total}")
    return 0


def _factors(asked: list[str]) -> dict[str, float]:
    """Factors on inputs that ``NAME=+20%`` and the like give."""
    from tilewright.claims.scoreboard import measured_inputs
    from tilewright.golden.params.names import unknown

    found = {}
    for text in asked:
        name, _, change = text.partition("=")
        try:
            factor = 1 + float(change.removesuffix("%")) / 100
        except ValueError:
            factor = 0.0
        if not (change.endswith("%") and 0 < factor <= 1000):
            raise ValueError(f"--what-if {text!r}: write it as deca.cycles=+20%, above -100%")
        if name not in (known := measured_inputs()):
            raise ValueError(unknown("measured input", name, sorted(known)))
        found[name] = factor
    return found


def _show(args: argparse.Namespace, data: object, table: Table, last: str = "") -> None:
    if args.json:
        print_json(data)
        return
    show(table)
    if last:
        print(last)
