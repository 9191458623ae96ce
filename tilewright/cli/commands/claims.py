"""``tilewright claims``: the papers' figures beside ours."""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from tilewright.base.console import print_csv, print_json, print_table
from tilewright.base.errors import CommandError

if TYPE_CHECKING:
    from tilewright.claims.scoreboard import ClassCount, Result, Summary
    from tilewright.sim.program_residuals import LayerResidual, ProductResidual
    from tilewright.studies.model_fit import Residual, Sensitivity

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
    from tilewright.golden.params.names import unknown

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
    else:
        wanted = args.verdict or board.VERDICTS
        shown = {name: [r for r in rows if r.verdict in wanted] for name, rows in results.items()}
        papers = board.summary(results)
        if not (args.json or args.csv):
            for rows in shown.values():
                print_table(*claim_table(rows))
                print()
            print_table(*summary_table(papers))
            return
        data = [
            {"name": name, **asdict(count), "claims": [r.as_dict() for r in shown[name]]}
            for name, count in papers.items()
        ]
        _show(args, data, claim_table(r for rows in shown.values() for r in rows))


def _model(args: argparse.Namespace) -> None:
    """How good the performance model is, and programs: whole layers, then products alone."""
    from tilewright.claims.scoreboard import evaluate
    from tilewright.sim.program_residuals import layer_residuals, product_residuals
    from tilewright.studies.model_fit import residuals, sensitivities

    if args.view == "residuals":
        rows = residuals(evaluate())
        _show(args, rows, residual_table(rows))
    elif args.view == "sensitivity":
        found = sensitivities()
        _show(args, found, sensitivity_table(found))
    else:
        layers, products = layer_residuals(), product_residuals()
        if args.json:
            print_json({"layers": layers, "projections": products})
            return
        _show(args, layers, layer_table(layers))
        print()
        _show(args, products, program_table(products))


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


def sensitivity_table(rows: "Iterable[Sensitivity]") -> Table:
    """Show one constant a row."""
    return ("CONSTANT", "MOVES MOST", "BY"), [
        (s.constant, s.figure, f"{s.change_percent:+.1f}%") for s in rows
    ]


def program_table(rows: "Iterable[ProductResidual]") -> Table:
    """Show one system, prompt and memory port a row."""
    header = (
        *("SYSTEM", "TOKENS", "PORT", "PROGRAMS, MILLION CYCLES"),
        *("FORMULA FOR THIS PORT", "PROGRAMS OVER THE FORMULA AT 256 GB/S"),
    )
    port = "{0.memory_channels} x {0.line_bytes} bytes, {0.outstanding_lines} lines"
    return header, [
        (
            *(r.system, r.tokens, port.format(r), f"{r.program_cycles / 1e6:.3f}"),
            *(f"{r.formula_deviation_percent:+.1f}%", f"{r.programs_over_formula:.2f}"),
        )
        for r in rows
    ]


def layer_table(rows: "Iterable[LayerResidual]") -> Table:
    """Show one accelerator and kind of step a row."""
    header = (
        *("BLOCK", "STEP", "BATCH", "CONTEXT", "FROM", "ONE LAYER, MILLION CYCLES"),
        *("BOUND", "PROGRAMS OVER THE BOUND", "ATTENTION ALONE"),
    )
    return header, [
        (
            *(r.block, r.phase, r.batch, r.context, r.kind),
            *(f"{cycles / 1e6:.3f}" for cycles in (r.program_cycles, r.bound_cycles)),
            *(_rounded(r.programs_over_bound), _rounded(r.attention_over_bound)),
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
