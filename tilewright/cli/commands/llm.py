"""``tilewright llm``: how fast a model runs on one of the modelled systems."""

import argparse
from math import prod
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, progress
from tilewright.base.errors import CommandError
from tilewright.cli.llm_answer import print_answer
from tilewright.cli.llm_tables import print_csv, print_rows, show_remarks
from tilewright.cli.targets import add_target_arguments, block_of, settings_of

if TYPE_CHECKING:
    from tilewright.sim.serving import Question
    from tilewright.sim.workload import Batch

NAME = "llm"
HELP = "latency, tokens a second, bounds, energy and memory of a model on a system"
EXAMPLE = "tilewright llm llama-2-70b --system spr-hbm --scheme mxfp4 --batch 1 --context 1024"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        nargs="?",
        default="",
        metavar="MODEL",
        help="a name (tilewright list models), or a config.json",
    )
    add_target_arguments(parser)
    parser.add_argument(
        "--tensor", type=int, metavar="N", help="sockets or accelerators that share each layer [1]"
    )
    parser.add_argument(
        "--pipeline", type=int, metavar="N", help="groups of them with layers of their own [1]"
    )
    parser.add_argument(
        "--kv", metavar="F", help="keys and values of a server in bf16, fp8, int8, ... [bf16]"
    )
    parser.add_argument("--batch", type=int, metavar="N", help="sequences [1]")
    parser.add_argument(
        "--context", metavar="C", help="tokens of each sequence, or of several: 8x128,2x4096 [1024]"
    )
    parser.add_argument("--phase", help="decode (one more token) or prefill [decode]")
    parser.add_argument(
        "--prompt", metavar="P", help="tokens of a prompt that --tokens follow; instead of a step"
    )
    parser.add_argument("--tokens", type=int, metavar="N", help="that follow the prompt")
    parser.add_argument(
        "--within", type=float, metavar="MS", help="the largest batch that takes no longer"
    )
    parser.add_argument(
        "--sweep",
        action="append",
        metavar="NAME=VALUES",
        help="a row for each value of batch, context, prompt, tokens, model, system, engine,"
        " scheme, kv or phase, such as batch=1..64 or 1..64*2 or 1,8; repeatable",
    )
    parser.add_argument(
        "--prices",
        metavar="NAME=DOLLARS,...",
        help="for dollars of a million tokens: hardware=9000,years=4 of a socket with its memory or"
        " of an accelerator, or hour=2.5 of its rent; energy=0.15 of a kWh, overhead=1.3 of the"
        " building, use=60%% of the time",
    )
    parser.add_argument("--csv", action="store_true", help="print a table for other programs")


def run(args: argparse.Namespace) -> int:
    from tilewright.sim.serving import ask
    from tilewright.sim.sweep import parse_axis, sweep

    if args.csv and args.json:
        raise CommandError("--csv does not go with --json")
    question = _question(args)
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


def _question(args: argparse.Namespace) -> "Question":
    from tilewright.sim.cost import parse_prices
    from tilewright.sim.serving import Question

    return Question(
        model=args.model,
        system=args.system,
        engine=args.engine,
        scheme=args.scheme,
        block=block_of(args),
        latency=args.latency,
        settings=settings_of(args),
        tensor=args.tensor,
        pipeline=args.pipeline,
        kv=args.kv,
        batch=args.batch,
        context=_tokens("--context", args.context),
        phase=args.phase,
        prompt=_tokens("--prompt", args.prompt),
        tokens=args.tokens,
        within_ms=args.within,
        prices=None if args.prices is None else parse_prices(args.prices),
    )


def _tokens(option: str, text: str | None) -> "int | Batch | None":
    from tilewright.sim.workload import Batch

    if text is None:
        return None
    if "x" in text:
        return Batch.parse(text)
    try:
        return int(text)
    except ValueError:
        raise CommandError(f"{option} takes tokens, or 8x128,2x4096, not {text[:40]!r}") from None
