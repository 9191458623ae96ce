"""``tilewright claims``: the papers' figures beside ours."""

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_json, print_table

if TYPE_CHECKING:
    from tilewright.sim.scoreboard import Result

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
    parser.add_argument(
        "--residuals",
        action="store_true",
        help="deviations by table, those of figures that constants were fitted to apart",
    )
    parser.add_argument(
        "--sensitivity", action="store_true", help="what 10%% more of each constant changes most"
    )
    parser.add_argument(
        "--programs",
        action="store_true",
        help="formulas for Anda and Harmonia beside the cycles of their programs",
    )
    parser.add_argument(
        "--update-record",
        action="store_true",
        help="write our figures to sim/claims/scoreboard.json, which the tests compare with",
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.golden.params.names import unknown
    from tilewright.sim.scoreboard import VERDICTS, evaluate, summary

    for verdict in args.verdict or ():
        if verdict not in VERDICTS:
            raise ValueError(unknown("verdict", verdict, VERDICTS))
    if args.update_record:
        return _update_record()
    if args.programs:
        from tilewright.sim.programs import residuals

        return _print_rows(residuals(), args.json)
    if args.residuals or args.sensitivity:
        return _print_rows(residual_rows() if args.residuals else sensitivity_rows(), args.json)
    results = evaluate(args.paper)
    counts = summary(results)
    shown = {
        paper: [r for r in rows if not args.verdict or r.verdict in args.verdict]
        for paper, rows in results.items()
    }
    if args.json:
        claims = {paper: [r.as_dict() for r in rows] for paper, rows in shown.items()}
        print_json({"summary": counts, "claims": claims})
        return 0
    for rows in shown.values():
        print_table(
            ("CLAIM", "WHERE", "PUBLISHED", "OURS", "UNIT", "DEVIATION", "TOLERANCE", "VERDICT"),
            [
                (
                    r.id + (" *" if r.fitted else ""),
                    r.where,
                    _text(r.published),
                    _text(r.ours),
                    r.unit,
                    _deviation(r),
                    r.tolerance,
                    r.verdict + (f": {r.reason}" if r.reason else ""),
                )
                for r in rows
            ],
        )
        print()
    print_table(
        ("PAPER", *(verdict.upper() for verdict in VERDICTS), "REPRODUCED ARE"),
        [
            (paper, *(counts[paper][verdict] for verdict in VERDICTS), _kinds(results[paper]))
            for paper in counts
        ],
    )
    print("\n* a constant of the model was fitted to this figure")
    return 0


def _kinds(results: Iterable["Result"]) -> str:
    """Of those reproduced: figures met freely, those fitted to, bounds and statements that hold."""
    from tilewright.sim.scoreboard import kinds

    figures, fitted, bounds = kinds(results).values()
    return f"{figures} figures, {fitted} fitted, {bounds} bounds"


def residual_rows() -> list[dict[str, Any]]:
    """One row per table of the papers, rounded as it is printed."""
    from tilewright.sim.scoreboard import evaluate, residuals

    return [
        {
            "table": r.group,
            "fitted": r.fitted,
            "mean": _rounded(r.fitted_mean),
            "others": r.rest,
            "mean of others": _rounded(r.rest_mean),
            "largest": _rounded(r.worst),
            "unit": r.unit,
        }
        for r in residuals(evaluate())
    ]


def sensitivity_rows() -> list[dict[str, Any]]:
    """One row per constant."""
    from tilewright.sim.scoreboard import sensitivities

    return [
        {"constant": s.constant, "moves most": s.figure, "by": f"{s.change:+.1f}%"}
        for s in sensitivities()
    ]


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _print_rows(rows: list[dict[str, Any]], as_json: bool) -> int:
    if as_json:
        print_json(rows)
    else:
        print_table([name.upper() for name in rows[0]], [list(row.values()) for row in rows])
    return 0


def _update_record() -> int:
    import json

    from tilewright.base.files import write_atomic
    from tilewright.sim.scoreboard import RECORD, evaluate, record

    write_atomic(RECORD, json.dumps(record(evaluate()), indent=2) + "\n")
    print(RECORD)
    return 0


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return " .. ".join(_text(part) for part in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _deviation(result: Any) -> str:
    if result.deviation is None:
        return "-"
    absolute = result.tolerance.replace(".", "").isdigit()
    return f"{result.deviation:+.2f}{'' if absolute else '%'}"
