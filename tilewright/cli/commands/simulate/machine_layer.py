"""``tilewright simulate machine.layer``: a decoder layer on an accelerator."""

import argparse
from dataclasses import replace
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
    from tilewright.studies.runs.machine_layer import MachineLayerRun

NAME = "machine.layer"
HELP = "a decoder layer of a real model on Anda or Harmonia: a prompt, then token by token"
EXAMPLE = (
    "tilewright simulate machine.layer --model tiny-llama --block anda:small --tokens 32 --steps 1"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tokens",
        type=int,
        default=104,
        metavar="N",
        help="tokens of the text, a sixteenth of them decoded one by one [104]",
    )
    parser.add_argument(
        "--steps", type=int, default=8, metavar="N", help="run the last N steps [8]"
    )
    add_layer(parser)
    add_simulation(parser, "harmonia")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.runs.machine_layer import layer_on_machine

    block, simulation = args.block or "harmonia", simulation_of(args)
    if not args.waves and args.simulator != "icarus":  # which the host in C++ does not have
        simulation = replace(simulation, host="native")
    done = layer_on_machine(
        block,
        model=args.model,
        layer=args.layer,
        tokens=args.tokens,
        steps=args.steps,
        latency=args.latency,
        simulation=simulation,
    )
    options = f"--block {block} --tokens {args.tokens} --steps {len(done.steps)}"
    options += f" --latency {args.latency}"
    record = f"{block.partition(':')[0]}_layer"
    return finish_layer(args, NAME, options, done, _print, record)


def _print(done: "MachineLayerRun", verdict: str) -> None:
    print(
        f"layer {done.layer} of {done.model}, {done.tokens} tokens"
        f" on {done.block}: memory, counters and cycles {verdict}\n"
    )
    counters = ("cycles", "lines_read", "lines_written")
    print_table(
        ("TOKEN", "TOKENS", "INSTRUCTIONS", "CYCLES", "LINES READ", "LINES WRITTEN", "EQUAL"),
        [
            (
                str(s.first),
                str(s.tokens),
                f"{s.instructions:,}",
                *(f"{s.counters[name]:,}" for name in counters),
                yes_or_no(s.equal),
            )
            for s in done.steps
        ],
    )
