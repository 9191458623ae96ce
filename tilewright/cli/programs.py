"""The workloads ``anda`` and ``harmonia`` of ``tilewright simulate``: a program on a machine."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table
from tilewright.cli.workloads import add_latency, add_simulation, simulation_of

if TYPE_CHECKING:
    from tilewright.studies.runs.program import ProgramRun

__all__ = ["add_program", "run_on"]


def add_program(parser: argparse.ArgumentParser, machine: str) -> None:
    """Add the options of a program on ``machine``."""
    parser.add_argument(
        "--program", type=Path, metavar="FILE", help="assembly text [one of the machine's own]"
    )
    parser.add_argument(
        "--memory",
        type=Path,
        metavar="FILE.npz",
        help="external memory: an array 'memory' of bytes",
    )
    parser.add_argument(
        "--save", type=Path, metavar="FILE.npz", help="write the external memory after the program"
    )
    parser.add_argument(
        "--stream",
        action="store_true",
        help="let the machine fetch the program from external memory, which it always does with"
        " one that is too long for the instruction memory",
    )
    parser.add_argument(
        "--host",
        choices=("cocotb", "native"),
        default="cocotb",
        help="memory and host as a cocotb bench, or in C++ within the simulation: slower to build,"
        " for long programs [cocotb]",
    )
    add_latency(parser)
    add_simulation(parser, f"{machine}:small")


def run_on(machine: str, args: argparse.Namespace) -> int:
    """Run the program that ``args`` ask for and print its result; return the exit code."""
    from tilewright.studies.runs.program import program_on_machine

    memory, done = program_on_machine(
        machine,
        args.block,
        program=args.program,
        memory=args.memory,
        latency=args.latency,
        stream=args.stream,
        simulation=simulation_of(args),
    )
    if args.save:
        import numpy as np

        np.savez(args.save, memory=memory)
    print_json(done) if args.json else _print(done)
    return 0 if done.equal and done.halted else 1


def _print(done: "ProgramRun") -> None:
    ending = "halted" if done.halted else f"stopped with error {done.status.error}"
    verdict = "as golden does" if done.equal else "NOT as golden does"
    place = ", from external memory" if done.streamed else ""
    print(
        f"{done.program} on {done.block}{place}:"
        f" {ending} at instruction {done.status.instruction}, {verdict}\n"
    )
    golden = done.golden_counters
    print_table(
        ("COUNTER", "VALUE", "GOLDEN"),
        [
            (name, f"{value:,}", f"{golden[name]:,}" if name in golden else "-")
            for name, value in done.counters.items()
        ],
    )
    if done.saturated:
        print("\na value saturated in conversion")
