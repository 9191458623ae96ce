"""``tilewright simulate deca.layer``: the weights of a decoder layer through DECA."""

import argparse
from typing import TYPE_CHECKING

from tilewright.base.console import print_table
from tilewright.cli.workloads import (
    DECA_LATENCY,
    add_layer,
    add_simulation,
    finish_layer,
    simulation_of,
    yes_or_no,
)

if TYPE_CHECKING:
    from tilewright.studies.runs.deca_layer import DecaLayerRun

NAME = "deca.layer"
HELP = "the weights of a real decoder layer on DECA"
EXAMPLE = "tilewright simulate deca.layer --model tiny-llama --block deca:small --schemes bf8@0.5"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--schemes",
        default="mxfp4,bf8@0.5",
        metavar="NAME[@DENSITY],...",
        help="weight formats, as for tilewright pack; each stores all weights [mxfp4,bf8@0.5]",
    )
    add_layer(parser, DECA_LATENCY)
    add_simulation(parser, "deca")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.runs.deca_gemm import DecaMemory
    from tilewright.studies.runs.deca_layer import WeightScheme, layer_on_deca

    done = layer_on_deca(
        args.block or "deca",
        model=args.model,
        layer=args.layer,
        schemes=[WeightScheme.parse(text) for text in args.schemes.split(",")],
        memory=DecaMemory(args.latency),
        simulation=simulation_of(args),
    )
    return finish_layer(args, NAME, f"--schemes {args.schemes}", done, _print)


def _print(done: "DecaLayerRun", verdict: str) -> None:
    print(f"layer {done.layer} of {done.model} on {done.block}: GEMMs {verdict}\n")
    print_table(
        (
            "MATRIX",
            "SHAPE",
            "SCHEME",
            "DENSITY",
            "TILES",
            "BYTES",
            "CYCLES",
            "CYCLES/TILE",
            "EQUAL",
        ),
        [
            (
                m.matrix,
                "x".join(map(str, m.shape[:2])),
                m.scheme,
                "-" if m.density is None else f"{m.density:g}",
                *(f"{number:,}" for number in (m.tiles, m.bytes, m.cycles)),
                f"{m.cycles_per_tile:.2f}",
                yes_or_no(m.equal),
            )
            for m in done.matrices
        ],
    )
