"""``tilewright simulate anda.layer``: the linear modules of a decoder layer on Anda."""

import argparse
from typing import TYPE_CHECKING

from tilewright.base.console import print_table
from tilewright.cli.workloads import (
    add_layer,
    add_simulation,
    finish_layer,
    simulation_of,
    yes_or_no,
)

if TYPE_CHECKING:
    from tilewright.studies.runs.anda_layer import AndaLayerRun

NAME = "anda.layer"
HELP = "the linear modules of a real decoder layer on Anda"
EXAMPLE = "tilewright simulate anda.layer --model tiny-llama --block anda:small"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mantissas",
        metavar="QKV,O,U,D",
        help="mantissa lengths of the modules [those that the committed search found for 1%%]",
    )
    add_layer(parser)
    add_simulation(parser, "anda")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.runs.anda_layer import layer_on_anda, searched_mantissas

    mantissas = args.mantissas or searched_mantissas()
    done = layer_on_anda(
        args.block or "anda",
        model=args.model,
        layer=args.layer,
        mantissas=mantissas,
        latency=args.latency,
        simulation=simulation_of(args),
    )
    options = f"--mantissas {mantissas} --latency {args.latency}"
    return finish_layer(args, NAME, options, done, _print)


def _print(done: "AndaLayerRun", verdict: str) -> None:
    print(
        f"layer {done.layer} of {done.model}, {done.tokens} tokens"
        f" on {done.block}: memory, GEMMs and cycles {verdict}\n"
    )
    print_table(
        ("MODULE", "M", "INPUTS", "OUTPUTS", "CYCLES", "OF GEMM", "LINES READ", "EQUAL"),
        [
            (
                f"A_{m.module}",
                str(m.mantissa),
                *(f"{n:,}" for n in (m.inputs, m.outputs, m.cycles, m.gemm_cycles, m.lines_read)),
                yes_or_no(m.equal),
            )
            for m in done.modules
        ],
    )
