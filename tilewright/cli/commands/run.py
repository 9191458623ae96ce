"""``tilewright run``: text from a language model on an accelerator, and what it cost."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, progress
from tilewright.cli.compiled_options import (
    add_compile_options,
    options_of,
    refuse_compile_options,
)
from tilewright.cli.generation_tables import print_generation, print_layers

if TYPE_CHECKING:
    from tilewright.studies.compiled import ModelFolder

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
        "--on", metavar="BLOCK", help="the accelerator [harmonia, or what DIR was compiled for]"
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
    parser.add_argument(
        "--rtl",
        action="store_true",
        help="run every program on the simulated Verilog too; what differs is an error",
    )
    parser.add_argument(
        "--layers", action="store_true", help="show the cycles of every layer of the last step"
    )
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="write a timeline of all units, which Perfetto and chrome://tracing open",
    )
    parser.add_argument(
        "--state",
        type=Path,
        metavar="FILE",
        help="keep the run here after every token; if the file is there, go on from it",
    )
    parser.add_argument(
        "--memory-error",
        type=int,
        metavar="N",
        help="let the memory answer with an error in the middle of generated token N",
    )
    add_compile_options(parser)


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.compiled import Session
    from tilewright.studies.compiled.generating import Text

    folder = _folder(args)
    session = Session(folder, args.prompt, state=args.state, latency=args.latency, rtl=args.rtl)
    timing = session.timing(trace=args.trace is not None) if args.layers or args.trace else None
    shown, text = sys.stderr if args.json else sys.stdout, Text(folder)

    def show(piece: str) -> None:
        print(piece, end="", flush=True, file=shown)

    show(args.prompt + "".join(map(text.add, session.begun)))
    try:
        done = session.generate(
            args.tokens,
            temperature=args.temperature,
            seed=args.seed,
            memory_error=args.memory_error,
            tell=lambda token: show(text.add(token)),
        )
    finally:
        show("\n")
    if args.json:
        print_json(replace(done, layers=timing.layers if args.layers and timing else None))
    else:
        print_generation(done)
        if args.layers and timing:
            print_layers(timing.layers)
    if args.trace and timing:
        timing.write(args.trace)
    return 0


def _folder(args: argparse.Namespace) -> "ModelFolder":
    from tilewright.studies.compiled import compiled_folder, open_folder

    path = Path(args.model)
    if (path / "manifest.json").is_file():
        refuse_compile_options(args, f"{path} is compiled already")
        return open_folder(path, target=args.on)
    with progress("compiling", 1) as tick:
        path = compiled_folder(
            args.model, options_of(args, args.on or "harmonia"), lambda doing: tick(doing, steps=0)
        )
    return open_folder(path, target=args.on)
