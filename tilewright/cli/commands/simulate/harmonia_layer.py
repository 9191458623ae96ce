"""``tilewright simulate harmonia.layer``: the attention of a decoder layer on Harmonia."""

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
    from tilewright.studies.runs.harmonia_layer import HarmoniaLayerRun

NAME = "harmonia.layer"
HELP = "the attention of a real decoder layer on Harmonia"
EXAMPLE = (
    "tilewright simulate harmonia.layer --model tiny-llama --block harmonia:small --tokens 32"
    " --heads 1"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tokens", type=int, default=104, metavar="N", help="of the text, a quarter decoded [104]"
    )
    parser.add_argument("--heads", type=int, metavar="N", help="only the first N heads [all]")
    add_layer(parser)
    add_simulation(parser, "harmonia")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.runs.harmonia_layer import layer_on_harmonia

    done = layer_on_harmonia(
        args.block or "harmonia",
        model=args.model,
        layer=args.layer,
        tokens=args.tokens,
        heads=args.heads,
        latency=args.latency,
        simulation=simulation_of(args),
    )
    options = f"--tokens {args.tokens} --heads {len(done.heads)} --latency {args.latency}"
    return finish_layer(args, NAME, options, done, _print)


def _print(done: "HarmoniaLayerRun", verdict: str) -> None:
    print(
        f"attention of layer {done.layer} of {done.model}, {done.tokens} tokens"
        f" on {done.block}: memory, results and cycles {verdict}\n"
    )
    counters = ("cycles", "lines_read", "lines_written")
    print_table(
        ("HEAD", "INSTRUCTIONS", "CYCLES", "LINES READ", "LINES WRITTEN", "EQUAL"),
        [
            (
                str(h.head),
                f"{h.instructions:,}",
                *(f"{h.counters[name]:,}" for name in counters),
                yes_or_no(h.equal),
            )
            for h in done.heads
        ],
    )
