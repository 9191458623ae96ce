"""``tilewright llm``: how fast a model runs on one of the modelled systems."""

import argparse
from math import prod

from tilewright.base.console import print_json, progress
from tilewright.base.errors import CommandError
from tilewright.cli.llm_answer import print_answer
from tilewright.cli.llm_question import add_question_arguments, question_of
from tilewright.cli.llm_tables import print_csv, print_rows, show_remarks

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
        " scheme, kv or phase, such as batch=1..64 or 1..64*2 or 1,8; repeatable",
    )
    parser.add_argument("--csv", action="store_true", help="print a table for other programs")


def run(args: argparse.Namespace) -> int:
    from tilewright.sim.serving import ask
    from tilewright.sim.sweep import parse_axis, sweep

    if args.csv and args.json:
        raise CommandError("--csv does not go with --json")
    question = question_of(args)
    axes: dict[str, tuple[int | str, ...]] = {}
    for name, values in map(parse_axis, args.sweep or ()):
        if name in axes:
            raise CommandError(f"--sweep names {name} more than once")
        axes[name] = values
    if not question.model and "model" not in axes:
        raise CommandError("give a MODEL; tilewright list models names those that are known")
    if not axes:
        found = [ask(question)]
    else:
        with progress("sweep", prod(map(len, axes.values()))) as tick:
            found = sweep(question, axes, tick)
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
