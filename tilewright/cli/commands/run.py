"""``tilewright run``: text from a language model on an accelerator, and what it cost."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table, progress
from tilewright.cli.compiled_options import (
    add_compile_options,
    options_of,
    refuse_compile_options,
)

if TYPE_CHECKING:
    from tilewright.studies.compiled import Generation, ModelFolder
    from tilewright.studies.compiled.generating import Cost

NAME = "run"
HELP = "generate text with a language model whose programs run on Harmonia"
EXAMPLE = "tilewright run tiny-llama --on harmonia:small --context 32 --prompt Hello --tokens 3"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="DIR|MODEL",
        help="a folder that tilewright compile has written, or a model, which is compiled first",
    )
    parser.add_argument(
        "--on", default="harmonia", metavar="BLOCK", help="the accelerator [harmonia]"
    )
    parser.add_argument("--prompt", required=True, metavar="TEXT", help="what the text begins with")
    parser.add_argument("--tokens", type=int, default=16, metavar="N", help="to generate [16]")
    parser.add_argument(
        "--temperature", type=float, default=0.0, metavar="T", help="of sampling [0: the likeliest]"
    )
    parser.add_argument("--seed", type=int, default=0, help="of sampling [0]")
    parser.add_argument(
        "--latency", type=int, default=100, metavar="N", help="of the memory, in cycles [100]"
    )
    add_compile_options(parser)


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.compiled import Runner, generate
    from tilewright.studies.compiled.generating import Text, encoded

    folder = _folder(args)
    runner, prompt = Runner(folder, latency=args.latency), encoded(folder, args.prompt)
    shown = sys.stderr if args.json else sys.stdout
    print(args.prompt, end="", flush=True, file=shown)
    text = Text(folder)
    done = generate(
        runner,
        prompt,
        args.tokens,
        temperature=args.temperature,
        seed=args.seed,
        tell=lambda token: print(text.add(token), end="", flush=True, file=shown),
    )
    print(file=shown)
    if args.json:
        print_json(done)
    else:
        _print(done)
    return 0


def _folder(args: argparse.Namespace) -> "ModelFolder":
    from tilewright.studies.compiled import compiled_folder, open_folder

    path = Path(args.model)
    if (path / "manifest.json").is_file():
        refuse_compile_options(args, f"{path} is compiled already")
        return open_folder(path, target=args.on)
    with progress("compiling", 1) as tick:
        path = compiled_folder(
            args.model, options_of(args, args.on), lambda doing: tick(doing, steps=0)
        )
    return open_folder(path, target=args.on)


def _print(done: "Generation") -> None:
    print(f"\n{done.model} on {done.block} at {done.clock_mhz:g} MHz\n")
    costs = [("prefill", done.prefill), *([("decode", done.decode)] if done.decode else [])]
    print_table(
        ("PHASE", "TOKENS", "CYCLES", "MS", "TOKENS/S", "MB READ", "MB WRITTEN", "MJ", "BOUND BY"),
        [_row(name, cost) for name, cost in costs],
    )
    print()
    print_table(
        ("PHASE", *(name.upper() for name in costs[0][1].shares)),
        [(name, *(f"{share:.1%}" for share in cost.shares.values())) for name, cost in costs],
    )


def _row(name: str, cost: "Cost") -> tuple[str, ...]:
    return (
        name,
        f"{cost.tokens}",
        f"{cost.cycles:,}",
        f"{cost.milliseconds:.3f}",
        f"{cost.tokens_per_second:.1f}",
        f"{cost.bytes_read / 1e6:.3f}",
        f"{cost.bytes_written / 1e6:.3f}",
        f"{sum(cost.millijoules.values()):.4f}",
        cost.bound,
    )
