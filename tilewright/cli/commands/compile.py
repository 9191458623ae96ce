"""``tilewright compile``: a language model as a memory image for an accelerator."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError
from tilewright.cli.models import add_compile_options, model_name, options_of
from tilewright.cli.options import adder

if TYPE_CHECKING:
    from tilewright.compiler.compile import CompiledModel
    from tilewright.compiler.plan import Plan

NAME = "compile"
HELP = "turn a language model into a memory image and programs of Harmonia or Anda"
EXAMPLE = "tilewright compile tiny-llama --on harmonia:small --context 32 -o tiny"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add(
        "model MODEL",
        "smollm2, tiny-llama, a GGUF file or a Hugging Face folder of the LLaMA family; with"
        " --show a config.json is enough",
        type=model_name,
    )
    add("-o --output DIR", "folder to write")
    add(
        "--on --target BLOCK",
        "the accelerator, such as anda, harmonia:small or harmonia,operand_rows=4096",
        "harmonia",
        dest="target",
    )
    add(
        "--show graph|schedule|program",
        "print a decoder layer of a decode step: operations, instructions on the clock, or the"
        " program",
    )
    add_compile_options(parser)


def run(args: argparse.Namespace) -> int:
    from tilewright.compiler.compile import compile_model

    if args.show:
        _show(args)
    elif args.output is None:
        raise CommandError("-o DIR or --show VIEW says what to make of the model")
    if args.output is None:
        return 0
    with progress("compiling") as tick:
        done = compile_model(
            args.model,
            args.output,
            options_of(args, args.target),
            lambda doing: tick(doing, steps=0),
        )
    if args.json:
        print_json(done)
    else:
        _print(done)
    return 0


def _show(args: argparse.Namespace) -> None:
    from tilewright.compiler.show import show

    text = show(_plan(args), args.show)
    if args.json:
        print_json({args.show: text.splitlines()})
    else:
        print(text)


def _plan(args: argparse.Namespace) -> "Plan":
    """The plan of a model's shape: its weights are not read where a config.json says enough."""
    from tilewright.compiler.compile import plan_of
    from tilewright.golden.llm.load import TINY, load_model
    from tilewright.sim.models import resolve_model

    is_model = args.model in TINY or Path(args.model).suffix == ".gguf"
    shape = load_model(args.model, lazy=True).config if is_model else resolve_model(args.model)
    options = options_of(args, args.target)
    return plan_of(shape, options.recipe.options(options) if options.recipe else options)


def _print(done: "CompiledModel") -> None:
    print_table(
        ("WHAT", "VALUE"),
        [
            ("model", f"{done.model}, {done.layers} layers"),
            ("block", done.block),
            ("weights", f"{done.weight_bits} bits, the head {done.head_bits}"),
            ("context", f"{done.context} tokens, {done.sequences} sequences"),
            ("image", f"{done.image_bytes:,} bytes"),
            ("constants", f"{done.constant_bytes:,} bytes of the image"),
            ("programs", f"{done.program_bytes:,} bytes reserved for the program of a step"),
            ("state", f"{done.state_bytes:,} bytes"),
            ("decode step", f"{done.decode_instructions:,} instructions"),
            ("folder", str(done.path)),
        ],
    )
