"""``tilewright run``: text from a language model on an accelerator, and its cost."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, progress
from tilewright.base.errors import CommandError
from tilewright.cli.compiled_options import options_of, refuse_compile_options
from tilewright.cli.cpu_run import is_cpu, refuse_cpu_options, run_on_cpu
from tilewright.cli.generation_tables import print_generations, print_layers
from tilewright.cli.run_options import add_arguments as add_arguments

if TYPE_CHECKING:
    from tilewright.compiler.folder import ModelFolder
    from tilewright.compiler.generate import Generation, Session

NAME = "run"
HELP = "generate text with a language model on Harmonia, on Anda, or on a CPU with a DECA"
EXAMPLE = "tilewright run tiny-llama --on harmonia:small --context 32 --prompt Hello --tokens 3"


def run(args: argparse.Namespace) -> int:
    prompts = _prompts(args)
    if is_cpu(args.on):
        if len(prompts) > 1:
            raise CommandError("on a CPU there is one --prompt")
        args.prompt = prompts[0]
        return run_on_cpu(args)
    refuse_cpu_options(args)
    from tilewright.compiler.generate import Session
    from tilewright.compiler.host import LATENCY, Runner
    from tilewright.studies.accelerators import accelerator_of

    folder = _folder(args, len(prompts))
    latency = LATENCY if args.latency is None else args.latency
    runner_class: type[Runner] = Runner
    if args.rtl:
        from tilewright.studies.on_rtl import RtlRunner

        runner_class = RtlRunner
    runner = runner_class(folder, latency=latency)
    session = Session(runner, prompts, accelerator_of(runner.machine), state=args.state)
    timing = session.timing(trace=args.trace is not None) if args.layers or args.trace else None
    done = _generated(args, session, prompts)
    if args.json:
        layers = timing.layers if args.layers and timing else None
        results = [replace(own, layers=layers) for own in done]
        print_json(results if len(results) > 1 else results[0])
    else:
        print_generations(done)
        if args.layers and timing:
            print_layers(timing.layers)
    if args.trace and timing:
        timing.write(args.trace)
    return 0


def _prompts(args: argparse.Namespace) -> list[str]:
    if args.prompts is None:
        given: list[str] = args.prompt
        return given
    found = [line for line in args.prompts.read_text().splitlines() if line.strip()]
    if not found:
        raise CommandError(f"{args.prompts} has no prompts")
    return found


def _generated(
    args: argparse.Namespace, session: "Session", prompts: list[str]
) -> "list[Generation]":
    """Generate; a single text is shown as it grows, several after the last token."""
    from tilewright.compiler.text import Text

    shown = sys.stderr if args.json else sys.stdout
    texts = [Text(session.runner.folder.tokenizer) for _ in prompts]
    whole = [
        prompt + "".join(map(text.add, begun))
        for prompt, text, begun in zip(prompts, texts, session.begun, strict=True)
    ]

    def add(sequence: int, token: int) -> None:
        piece = texts[sequence].add(token)
        whole[sequence] += piece
        if len(prompts) == 1:
            print(piece, end="", flush=True, file=shown)

    if len(prompts) == 1:
        print(whole[0], end="", flush=True, file=shown)
    try:
        return session.generate(
            args.tokens,
            temperature=args.temperature,
            seed=args.seed,
            memory_error=args.memory_error,
            tell=add,
        )
    finally:
        print("\n".join(whole) if len(prompts) > 1 else "", file=shown)


def _folder(args: argparse.Namespace, sequences: int) -> "ModelFolder":
    from tilewright.compiler.compile import compiled_folder
    from tilewright.compiler.folder import open_folder

    path = Path(args.model)
    if (path / "manifest.json").is_file():
        refuse_compile_options(args, f"{path} is compiled already")
        return open_folder(path, target=args.on)
    options = options_of(args, args.on or "harmonia")
    if args.sequences is None:
        options = replace(options, sequences=sequences)
    with progress("compiling", 1) as tick:
        path = compiled_folder(args.model, options, lambda doing: tick(doing, steps=0))
    return open_folder(path, target=args.on)
