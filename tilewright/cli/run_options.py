"""Options of ``tilewright run``."""

import argparse
from pathlib import Path

from tilewright.cli.compiled_options import add_compile_options
from tilewright.cli.cpu_run import add_cpu_options
from tilewright.golden.machine.moves import LATENCY

__all__ = ["add_arguments"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add prompts, accelerator, and outputs."""
    parser.add_argument(
        "model",
        metavar="DIR|MODEL",
        help="a folder that tilewright compile has written, or a model, which is compiled first",
    )
    parser.add_argument(
        "--on",
        metavar="BLOCK",
        help="harmonia, anda, or deca: a CPU whose weight tiles a DECA decompresses [harmonia, or"
        " what DIR was compiled for]",
    )
    prompts = parser.add_mutually_exclusive_group(required=True)
    prompts.add_argument(
        "--prompt",
        action="append",
        metavar="TEXT",
        help="beginning of the text; given more than once, the sequences are decoded together",
    )
    prompts.add_argument(
        "--prompts", type=Path, metavar="FILE", help="the same from a file, one prompt a line"
    )
    parser.add_argument(
        "--tokens", type=int, default=16, metavar="N", help="tokens to generate [16]"
    )
    parser.add_argument(
        "--temperature",
        type=float,
        default=0.0,
        metavar="T",
        help="sampling temperature [0: the likeliest token]",
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed of sampling [0]")
    parser.add_argument(
        "--latency",
        type=int,
        metavar="N",
        help=f"latency of the accelerator's memory in cycles [{LATENCY}]",
    )
    parser.add_argument(
        "--rtl",
        action="store_true",
        help="run every program on the simulated Verilog too, or on a CPU the first tiles of every"
        " matrix of a layer; any difference is an error",
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
        help="save the run here after every token; continue from the file if it exists",
    )
    parser.add_argument(
        "--memory-error",
        type=int,
        metavar="N",
        help="inject a memory error in the middle of generated token N",
    )
    add_compile_options(parser)
    add_cpu_options(parser)
