"""``tilewright simulate machine.layer``: a decoder layer on an accelerator."""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.cli.options import adder
from tilewright.cli.tables import Columns, print_records
from tilewright.cli.workloads import (
    add_layer,
    add_simulation,
    finish_layer,
    simulation_of,
)

if TYPE_CHECKING:
    from tilewright.studies.runs.machine_layer import MachineLayerRun

NAME = "machine.layer"
HELP = "a decoder layer of a real model on Anda or Harmonia: a prompt, then token by token"
EXAMPLE = (
    "tilewright simulate machine.layer --model tiny-llama --block anda:small --tokens 32 --steps 1"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("--tokens N", "tokens of the text, a sixteenth of them decoded one by one", 104)
    add("--steps N", "run the last N steps", 8)
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
    columns: Columns = {
        **{"TOKEN": "first", "TOKENS": "tokens", "INSTRUCTIONS": "instructions:,"},
        **{"CYCLES": "counters.cycles:,", "LINES READ": "counters.lines_read:,"},
        "LINES WRITTEN": "counters.lines_written:,",
        "EQUAL": lambda step: step.equal,
    }
    print_records(done.steps, columns)
