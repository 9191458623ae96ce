"""``tilewright claims``: the papers' figures beside ours."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table
from tilewright.base.errors import CommandError

if TYPE_CHECKING:
    from tilewright.cli.claim_tables import Table

NAME = "claims"
HELP = "evaluate the papers' claims: published, ours, deviation, verdict"
EXAMPLE = "tilewright claims --paper deca"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--paper",
        action="append",
        metavar="P",
        help="anda, deca, harmonia or sparamx; repeatable [all]",
    )
    parser.add_argument(
        "--verdict", action="append", metavar="V", help="show only: reproduced, off, not modelled"
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--residuals",
        action="store_true",
        help="deviations by table, those of figures that constants were fitted to apart",
    )
    instead.add_argument(
        "--sensitivity", action="store_true", help="what 10%% more of each constant changes most"
    )
    instead.add_argument(
        "--programs",
        action="store_true",
        help="formulas for Anda and Harmonia beside the cycles of their programs",
    )
    instead.add_argument(
        "--update-record",
        action="store_true",
        help="write our figures to sim/claims/scoreboard.json, which the tests compare with",
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.cli import claim_tables as tables
    from tilewright.sim import programs, scoreboard

    chosen = [name for name in ("residuals", "sensitivity", "programs") if getattr(args, name)]
    if args.update_record:
        chosen.append("update-record")
    for name in ("paper", "verdict") if chosen else ():
        if getattr(args, name):
            raise CommandError(f"--{name} does not go with --{chosen[0]}, which takes all claims")
    if args.update_record:
        _update_record(args.json)
    elif args.residuals:
        by_table = scoreboard.residuals(scoreboard.evaluate())
        _show(by_table, tables.residual_table(by_table), args.json)
    elif args.sensitivity:
        by_constant = scoreboard.sensitivities()
        _show(by_constant, tables.sensitivity_table(by_constant), args.json)
    elif args.programs:
        by_port = programs.residuals()
        _show(by_port, tables.program_table(by_port), args.json)
    else:
        _claims(args.paper, args.verdict, args.json)
    return 0


def _claims(paper: list[str] | None, verdicts: list[str] | None, as_json: bool) -> None:
    from tilewright.cli.claim_tables import claim_table, summary_table
    from tilewright.golden.params.names import unknown
    from tilewright.sim.scoreboard import VERDICTS, evaluate, summary

    for verdict in verdicts or ():
        if verdict not in VERDICTS:
            raise ValueError(unknown("verdict", verdict, VERDICTS))
    results = evaluate(paper)
    shown = {
        name: [r for r in rows if not verdicts or r.verdict in verdicts]
        for name, rows in results.items()
    }
    if as_json:
        print_json(
            [
                {"name": name, **asdict(count), "claims": [r.as_dict() for r in shown[name]]}
                for name, count in summary(results).items()
            ]
        )
        return
    for rows in shown.values():
        print_table(*claim_table(rows))
        print()
    print_table(*summary_table(summary(results)))
    print("\n* a constant of the model was fitted to this figure")


def _show(results: Sequence[object], table: "Table", as_json: bool) -> None:
    if as_json:
        print_json(results)
    else:
        print_table(*table)


def _update_record(as_json: bool) -> None:
    from tilewright.base.files import write_atomic
    from tilewright.sim.scoreboard import RECORD, evaluate, record

    write_atomic(RECORD, json.dumps(record(evaluate()), indent=2) + "\n")
    if as_json:
        print_json({"record": str(RECORD)})
    else:
        print(RECORD)
