"""Common parts of the workloads of ``tilewright simulate``: options, and how they end."""

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_json, print_table, show
from tilewright.base.table import Table
from tilewright.cli.options import MEMORY, adder
from tilewright.golden.machine.moves import LATENCY

if TYPE_CHECKING:
    from tilewright.studies.runs.program import ProgramRun
    from tilewright.studies.runs.simulation import Simulation


def add_simulation(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the options of every workload; without ``--block`` it runs on ``default``."""
    add = adder(parser)
    add("--block BLOCK", f"block to run the workload on [{default}]")
    text = "simulator to use [Verilator if installed, else Icarus Verilog]"
    add("--simulator verilator|icarus", text)
    add("--seed S", "random seed", 1)
    add("--waves FILE", "write all signals to FILE.vcd")


def simulation_of(args: argparse.Namespace) -> "Simulation":
    """Return what the options of :func:`add_simulation` ask for."""
    from tilewright.studies.runs.simulation import Simulation

    return Simulation(args.simulator, args.seed, args.waves, getattr(args, "host", "cocotb"))


UPDATE = ("--update-record", "write the outcome to the record that the report shows")


@dataclass(frozen=True)
class Outcome:
    """The result of a workload."""

    data: Any  # as JSON
    table: Table  # for people
    heading: str = ""  # above it
    equal: bool = True  # whether everything equals golden's
    record: dict[str, Any] = field(default_factory=dict)  # what is written down, with its command
    options: str = ""  # of that command


def finish(args: argparse.Namespace, name: str, done: Outcome, record: str = "") -> int:
    """Print the outcome and write it down if asked to; return the exit code.

    The ``record`` is called as the workload ``name``, unless said otherwise.
    """
    if getattr(args, "update_record", False):
        from tilewright.studies.measured import write_measured

        command = f"tilewright simulate {name} {done.options}--update-record"
        write_measured(record or name.replace(".", "_"), {"command": command} | done.record)
    if args.json:
        print_json(done.data)
    else:
        if done.heading:
            print(f"{done.heading}\n")
        show(done.table)
    return 0 if done.equal else 1


def add_program(parser: argparse.ArgumentParser, machine: str) -> None:
    """Add the options of a program on ``machine``."""
    add = adder(parser)
    add("--program FILE", "assembly text [one of the machine's own]")
    add("--memory FILE.npz", "external memory: an array 'memory' of bytes", type=Path)
    add("--save FILE.npz", "write the external memory after the program", type=Path)
    add(
        "--stream",
        "let the machine fetch the program from external memory, which it always does with"
        " one that is too long for the instruction memory",
    )
    add(
        "--host cocotb|native",
        "memory and host as a cocotb bench, or in C++ within the simulation: slower to build,"
        " for long programs",
        "cocotb",
    )
    add("--dram M", MEMORY)
    add("--latency N", f"latency of the flat memory in cycles [{LATENCY}]")
    add_simulation(parser, f"{machine}:small")


def run_program(machine: str, args: argparse.Namespace) -> int:
    """Run the program that ``args`` ask for and print its result; return the exit code."""
    from tilewright.studies.runs.program import program_on_machine

    memory, done = program_on_machine(
        machine,
        args.block,
        program=args.program,
        memory=args.memory,
        latency=args.latency,
        dram=args.dram,
        stream=args.stream,
        simulation=simulation_of(args),
    )
    if args.save:
        import numpy as np

        np.savez(args.save, memory=memory)
    print_json(done) if args.json else _print_program(done)
    return 0 if done.equal and done.halted else 1


def _print_program(done: "ProgramRun") -> None:
    ending = "halted" if done.halted else f"stopped with error {done.status['error']}"
    verdict = "as golden does" if done.equal else "NOT as golden does"
    place = ", from external memory" if done.streamed else ""
    print(
        f"{done.program} on {done.block}{place}:"
        f" {ending} at instruction {done.status['instruction']}, {verdict}\n"
    )
    golden = {name: f"{value:,}" for name, value in done.golden_counters.items()}
    rows = [(name, f"{n:,}", golden.get(name, "-")) for name, n in done.counters.items()]
    print_table(("COUNTER", "VALUE", "GOLDEN"), rows)
    if done.saturated:
        print("\na value saturated in conversion")
