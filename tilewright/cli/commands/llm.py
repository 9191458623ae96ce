"""``tilewright llm``: how fast a model runs on one of the modelled systems."""

import argparse
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, progress
from tilewright.base.errors import CommandError
from tilewright.cli.llm_answer import print_answer
from tilewright.cli.llm_question import add_question_arguments, question_of
from tilewright.cli.llm_tables import print_csv, print_rows, show_remarks

if TYPE_CHECKING:
    from tilewright.sim.llm import LlmResult
    from tilewright.sim.serving import GenerationResult, Question

NAME = "llm"
HELP = "latency, tokens a second, bounds, energy and memory of a model on a system"
EXAMPLE = "tilewright llm llama-2-70b --system spr-hbm --scheme mxfp4 --batch 1 --context 1024"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_question_arguments(parser)
    parser.add_argument(
        "--sweep",
        action="append",
        metavar="NAME=VALUES",
        help="a row for each value of batch, context, prompt, tokens, model, system, engine,"
        " scheme, kv, phase, ... or of a field of --set, such as batch=1..64 or 1..64*2 or 1,8 or"
        " bandwidth=400GB/s,800GB/s; repeatable",
    )
    parser.add_argument("--jobs", metavar="N", type=int, help="of a sweep, processes [all cores]")
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="of a sweep, the workers of this Dask scheduler instead"
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="of a sweep, a folder from which it can go on"
    )
    parser.add_argument(
        "--plot", metavar="FILE", type=Path, help="draw a sweep as curves (SVG, PNG, PDF)"
    )
    parser.add_argument("--csv", action="store_true", help="print a table for other programs")


def run(args: argparse.Namespace) -> int:
    from tilewright.sim.serving import ask

    if args.csv and args.json:
        raise CommandError("--csv does not go with --json")
    question = question_of(args)
    axes = _axes(args)
    if not question.model and "model" not in axes:
        raise CommandError("give a MODEL; tilewright list models names those that are known")
    found = [ask(question)] if not axes else _sweep(args, question, axes)
    if args.csv:
        print_csv(found)
        show_remarks(found)
    elif args.json:
        print_json(found if axes else found[0])
    elif axes:
        print_rows(found)
        show_remarks(found)
    else:
        print_answer(found[0])
    return 0


def _axes(args: argparse.Namespace) -> dict[str, tuple[int | str, ...]]:
    from tilewright.sim.sweep import parse_axis

    axes: dict[str, tuple[int | str, ...]] = {}
    for name, values in map(parse_axis, args.sweep or ()):
        if name in axes:
            raise CommandError(f"--sweep names {name} more than once")
        axes[name] = values
    for option in ("jobs", "dask", "out", "plot"):
        if not axes and getattr(args, option) is not None:
            raise CommandError(f"--{option} goes with --sweep")
    if args.jobs is not None and args.jobs < 1:
        raise CommandError(f"--jobs must be at least 1, not {args.jobs}")
    if args.jobs is not None and args.dask:
        raise CommandError("--jobs is about this machine, not about --dask")
    return axes


def _sweep(
    args: argparse.Namespace, question: "Question", axes: dict[str, tuple[int | str, ...]]
) -> "list[LlmResult | GenerationResult]":
    from tilewright.report.llm_plot import check_plot, plot_sweep
    from tilewright.sim.sweep import points_of
    from tilewright.studies.llm_sweep import run_llm_sweep

    if args.plot is not None:
        check_plot(args.plot)
    with progress("sweep", prod(map(len, axes.values()))) as tick:
        found = run_llm_sweep(
            question, axes, workers=args.jobs, cluster=args.dask, out=args.out, tick=tick
        )
    if args.plot is not None:
        plot_sweep(found, points_of(question, axes), args.plot)
    return found
