"""``tilewright claims``: the papers' figures beside ours."""

import argparse

from tilewright.base.errors import CommandError

NAME = "claims"
HELP = "evaluate the papers' claims: published, ours, deviation, class, verdict"
EXAMPLE = "tilewright claims --paper deca"
SHOWN = {  # options that show something else, of the claims of --paper
    "classes": "how many claims of each class are within tolerance, duplicates counted once",
    "off": "predictions and measurements that are off, and the computation that shows why",
    "moved-by": "what 10%% more of each of our measured inputs changes, claim by claim",
    "contradictions": "figures of a paper that do not follow from its others, with the arithmetic",
}
OF_PAPERS = ("what-if", *SHOWN)
INSTEAD = {  # options that show something else, for all claims
    "coverage": "how many of the papers' claims are evaluated, and why the others are not",
    "residuals": "deviations by table, those of figures that constants were fitted to apart",
    "sensitivity": "what 10%% more of each constant changes most",
    "programs": "formulas for Anda and Harmonia beside the cycles of their programs",
    "update-record": "write our figures to sim/claims/scoreboard.json, which tests compare with",
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
    instead.add_argument(
        "--what-if",
        action="append",
        metavar="INPUT=+N%",
        help="verdicts that change with N%% more of one of our measured inputs, such as"
        " deca.cycles; repeatable",
    )
    for name, text in {**SHOWN, **INSTEAD}.items():
        instead.add_argument(f"--{name}", action="store_true", help=text)


def run(args: argparse.Namespace) -> int:
    from tilewright.cli import claim_views as views

    _check(args)
    chosen = [name for name in (*OF_PAPERS, *INSTEAD) if getattr(args, name.replace("-", "_"))]
    views.VIEWS[chosen[0] if chosen else "claims"](args)
    return 0


def _check(args: argparse.Namespace) -> None:
    if args.csv and args.json:
        raise CommandError("--csv and --json exclude each other")
    if args.csv and args.update_record:
        raise CommandError("--csv does not go with --update-record, which shows no table")
    for option in INSTEAD:
        for name in ("paper", "verdict"):
            if getattr(args, option.replace("-", "_")) and getattr(args, name):
                raise CommandError(f"--{name} does not go with --{option}, which takes all claims")
    for option in OF_PAPERS:
        if getattr(args, option.replace("-", "_")) and args.verdict:
            raise CommandError(f"--verdict does not go with --{option}, which takes all verdicts")
