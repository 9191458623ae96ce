"""``tilewright run``: text from a language model on an accelerator, and what it cost."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, progress
from tilewright.cli.compiled_options import options_of, refuse_compile_options
from tilewright.cli.cpu_run import is_cpu, refuse_cpu_options, run_on_cpu
from tilewright.cli.generation_tables import print_generation, print_layers
from tilewright.cli.run_options import add_arguments as add_arguments

if TYPE_CHECKING:
    from tilewright.studies.compiled import ModelFolder

NAME = "run"
HELP = "generate text with a language model on Harmonia, on Anda, or on a CPU with a DECA"
EXAMPLE = "tilewright run tiny-llama --on harmonia:small --context 32 --prompt Hello --tokens 3"


def run(args: argparse.Namespace) -> int:
    if is_cpu(args.on):
        return run_on_cpu(args)
    refuse_cpu_options(args)
    from tilewright.studies.compiled import Session
    from tilewright.studies.compiled.generating import Text
    from tilewright.studies.compiled.runner import LATENCY

    folder = _folder(args)
    latency = LATENCY if args.latency is None else args.latency
    session = Session(folder, args.prompt, state=args.state, latency=latency, rtl=args.rtl)
    timing = session.timing(trace=args.trace is not None) if args.layers or args.trace else None
    shown, text = sys.stderr if args.json else sys.stdout, Text(folder.tokenizer)

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
