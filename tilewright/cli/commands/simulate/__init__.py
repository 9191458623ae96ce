"""``tilewright simulate``: the emitted Verilog of a block against its golden model.

The modules of this package, and ``COMMANDS``, are the workloads, whole computations that run on a
simulated block.
"""

import argparse
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_json, print_table, remark
from tilewright.cli.deca_workloads import WORKLOADS
from tilewright.cli.discovery import command_names
from tilewright.cli.options import BLOCK, adder

if TYPE_CHECKING:
    from tilewright.verify.simulators import BenchResult

NAME = "simulate"
HELP = "simulate a block's Verilog with random stalls and compare with its golden model"
EXAMPLE = "tilewright simulate float_mul:fp16,latency=2 --cases 500"
METAVAR = "WORKLOAD"
COMMANDS = {workload.NAME: workload for workload in WORKLOADS}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    workloads = ", ".join(command_names(NAME))
    add("block BLOCK", f"{BLOCK} to simulate, or a workload: {workloads}")
    text = "simulator to use [Verilator if installed, else Icarus Verilog]"
    add("--simulator verilator|icarus", text)
    add("--cases N", "random cases", 1000)
    add("--exhaustive", "every case that the bench can list, not N")
    add("--seed S", "random seed", 1)
    text = "probability that a side waits, per cycle [one pass each with 0, 0.3 and 0.8]"
    add("--stall P", text, type=float)
    add("--waves FILE", "write all signals to FILE.vcd")


def run(args: argparse.Namespace) -> int:
    if "." in args.block.partition(",")[0]:  # no block has a point in its name
        from tilewright.golden.params.names import unknown

        raise ValueError(unknown("workload", args.block, command_names(NAME)))
    from tilewright.golden.params.resolve import resolve
    from tilewright.studies.runs.simulation import bench_block
    from tilewright.verify.job import DEFAULT_STALLS

    done = bench_block(
        args.block,
        simulator=args.simulator,
        cases=args.cases,
        seed=args.seed,
        stalls=DEFAULT_STALLS if args.stall is None else (args.stall,),
        exhaustive=args.exhaustive,
        waves=args.waves,
    )
    name = resolve(args.block).slug
    print_json(_as_dict(done, args, name)) if args.json else _print(done, name)
    if args.waves:
        remark(f"waves in {args.waves}")
    return 0 if done.passed else 1


def _as_dict(done: "BenchResult", args: argparse.Namespace, name: str) -> dict[str, Any]:
    return {
        "block": args.block,
        "name": name,
        "seed": args.seed,
        "simulator": done.simulator.name,
        "version": done.simulator.version,
        "passed": done.passed,
        "cases": done.numbers.get("cases"),
        "cycles": done.numbers.get("cycles"),
        "cycles_per_second": done.cycles_per_second,
        "tests": [{"name": t.name, "failure": t.message} for t in done.tests],
        "coverage": done.numbers.get("coverage"),
    }


def _print(done: "BenchResult", name: str) -> None:
    from tilewright.verify.coverage import Coverage

    print(name)
    counts = done.numbers.get("cases"), done.numbers.get("cycles"), done.cycles_per_second
    shown = (f"{n:,}" if n is not None else "-" for n in counts)
    row = (done.simulator.title, "passed" if done.passed else "failed", *shown)
    print_table(("SIMULATOR", "RESULT", "CASES", "CYCLES", "CYCLES/S"), [row])
    if "coverage" in done.numbers:
        print(f"coverage: {Coverage.from_dict(done.numbers['coverage']).summary}")
    if done.failure is not None:
        print(f"\n{done.simulator.title}: {done.failure}")
