"""``tilewright compile``: a language model as a memory image and programs of an accelerator."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table, progress
from tilewright.cli.compiled_options import add_compile_options, options_of

if TYPE_CHECKING:
    from tilewright.studies.compiled import CompiledModel

NAME = "compile"
HELP = "turn a language model into a memory image and programs of Harmonia or Anda"
EXAMPLE = "tilewright compile tiny-llama --target harmonia:small --context 32 -o tiny"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="smollm2, tiny-llama, a GGUF file or a Hugging Face folder of the LLaMA family",
    )
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder to write")
    parser.add_argument(
        "--target",
        default="harmonia",
        metavar="BLOCK",
        help="the accelerator, such as anda, harmonia:small or harmonia,operand_rows=4096"
        " [harmonia]",
    )
    add_compile_options(parser)


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.compiled import compile_model

    with progress("compiling", 1) as tick:
        done = compile_model(
            args.model,
            Path(args.output),
            options_of(args, args.target),
            lambda doing: tick(doing, steps=0),
        )
    if args.json:
        print_json(done)
    else:
        _print(done)
    return 0


def _print(done: "CompiledModel") -> None:
    print_table(
        ("WHAT", "VALUE"),
        [
            ("model", f"{done.model}, {done.layers} layers"),
            ("block", done.block),
            ("weights", f"{done.weight_bits} bits, the head {done.head_bits}"),
            ("context", f"{done.context} tokens"),
            ("image", f"{done.image_bytes:,} bytes"),
            ("constants", f"{done.constant_bytes:,} bytes of them"),
            ("programs", f"{done.programs:,} in {done.program_bytes:,} bytes"),
            ("decode step", f"{done.decode_instructions:,} instructions, a loop over the layers"),
            ("folder", str(done.path)),
        ],
    )
