"""``tilewright simulate``: the emitted Verilog of a block against its golden model.

The modules of this package are the workloads, whole computations that run on a simulated block.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table, remark
from tilewright.cli.discovery import command_names

if TYPE_CHECKING:
    from tilewright.studies.runs.bench import BlockRun

NAME = "simulate"
HELP = "simulate a block's Verilog with random stalls and compare with its golden model"
EXAMPLE = "tilewright simulate float_mul:fp16,latency=2 --cases 500"
METAVAR = "WORKLOAD"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    workloads = ", ".join(command_names(NAME))
    parser.add_argument(
        "block",
        metavar="BLOCK",
        help=f"NAME[:PRESET][,FIELD=VALUE]... to simulate, or a workload: {workloads}",
    )
    parser.add_argument(
        "--simulator",
        choices=("verilator", "icarus", "both"),
        help="simulator to use [Verilator if installed, else Icarus Verilog]",
    )
    parser.add_argument("--cases", type=int, default=1000, metavar="N", help="random cases [1000]")
    parser.add_argument(
        "--exhaustive", action="store_true", help="every case that the bench can list, not N"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="random seed [1]")
    parser.add_argument(
        "--stall",
        type=float,
        metavar="P",
        help="probability that a side waits, per cycle; default: one pass each with 0, 0.3 and 0.8",
    )
    parser.add_argument("--waves", type=Path, metavar="FILE.vcd", help="write all signals to it")


def run(args: argparse.Namespace) -> int:
    if "." in args.block.partition(",")[0]:  # no block has a point in its name
        from tilewright.golden.params.names import unknown

        raise ValueError(unknown("workload", args.block, command_names(NAME)))
    from tilewright.studies.runs.bench import bench_block
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
    print_json(done.as_dict()) if args.json else _print(done)
    if args.waves:
        remark(f"waves in {args.waves}")
    return 0 if done.passed else 1


def _print(done: "BlockRun") -> None:
    from tilewright.studies.runs.bench import cycles_per_second
    from tilewright.verify.coverage import Coverage

    print(done.name)
    rows = []
    for result in done.results:
        numbers = result.numbers.get("cases"), result.numbers.get("cycles")
        shown = (*numbers, cycles_per_second(result))
        rows.append(
            (
                result.simulator.title,
                "passed" if result.passed else "failed",
                *(f"{n:,}" if n is not None else "-" for n in shown),
            )
        )
    print_table(("SIMULATOR", "RESULT", "CASES", "CYCLES", "CYCLES/S"), rows)
    for result in done.results:
        if "coverage" in result.numbers:
            print(f"coverage: {Coverage.from_dict(result.numbers['coverage']).summary}")
        if result.failure is not None:
            print(f"\n{result.simulator.title}: {result.failure}")
