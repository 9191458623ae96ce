"""``tilewright simulate``: the emitted Verilog of a block against its golden model."""

import argparse
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_json, print_table, progress, remark
from tilewright.studies.runs import WORKLOADS, add_options, refuse_options_of_others

if TYPE_CHECKING:
    from tilewright.verify.simulators import BenchResult

NAME = "simulate"
HELP = "simulate a block's Verilog with random stalls and compare with its golden model"
EXAMPLE = "tilewright simulate float_mul:fp16,latency=2 --cases 500"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "block",
        metavar="BLOCK",
        help=f"NAME[:PRESET][,FIELD=VALUE]... to simulate, or a workload: {', '.join(WORKLOADS)}",
    )
    parser.add_argument(
        "--simulator",
        choices=("verilator", "icarus", "both"),
        help="Verilator where there is one, else Icarus Verilog, unless told here",
    )
    parser.add_argument("--cases", type=int, default=1000, metavar="N", help="default %(default)s")
    parser.add_argument(
        "--exhaustive", action="store_true", help="every case that the bench can list, not N"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="default %(default)s")
    parser.add_argument(
        "--stall",
        type=float,
        metavar="P",
        help="probability that a side waits, per cycle; default: one pass each with 0, 0.3 and 0.8",
    )
    parser.add_argument(
        "--waves", type=Path, metavar="FILE", help="write all signals to FILE.fst or FILE.vcd"
    )
    parser.add_argument("--block", dest="on", metavar="BLOCK", help="that a workload runs on")
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    refuse_options_of_others(args)
    if args.block in WORKLOADS:
        return import_module(WORKLOADS[args.block]).run(args)
    if "." in args.block.partition(",")[0]:  # no block has a point in its name
        from tilewright.golden.params.names import unknown

        raise ValueError(unknown("workload", args.block, WORKLOADS))
    return _run_bench(args)


def _run_bench(args: argparse.Namespace) -> int:
    from tilewright.golden.params.resolve import resolve
    from tilewright.verify import bench_of, cocotb_tests
    from tilewright.verify.job import DEFAULT_STALLS, Job
    from tilewright.verify.simulators import build_simulation, default_simulator, run_bench
    from tilewright.verify.simulators.run import wave_format
    from tilewright.verify.simulators.verilator import fst_headers
    from tilewright.verify.simulators.verilog import block_verilog

    params = resolve(args.block)
    tests = cocotb_tests(params)
    if args.exhaustive and not bench_of(params).exhaustible:
        raise ValueError(f"the bench of {params.block} has no exhaustive cases")
    stalls = DEFAULT_STALLS if args.stall is None else (args.stall,)
    job = Job(args.block, args.cases, args.seed, stalls, args.exhaustive)
    simulators = _simulators(args.simulator or default_simulator())
    if args.waves and len(simulators) > 1:
        raise ValueError("--waves takes one simulator, not both")
    waves = wave_format(simulators[0], args.waves) if args.waves else None
    # Long runs repay the compiler's time.
    optimize = "-O2" if args.cases > 50_000 else "-O0"
    results = []
    with progress(f"simulate {params.slug}", 2 * len(simulators)) as tick:
        tick("Verilog", steps=0)
        verilog = block_verilog(args.block)
        for simulator in simulators:
            tick(f"build for {simulator.title}", steps=0)
            build_simulation(verilog, params.slug, simulator, waves=waves, optimize=optimize)
            tick(f"run on {simulator.title}")
            results.append(
                run_bench(
                    verilog,
                    params.slug,
                    tests,
                    simulator=simulator,
                    job=job.as_dict(),
                    waves=args.waves,
                    optimize=optimize,
                )
            )
            tick()
    if args.json:
        runs = [_plain(result) for result in results]
        print_json({"block": args.block, "name": params.slug, "seed": args.seed, "runs": runs})
    else:
        _print(params.slug, results)
    if args.waves:
        written = results[0].waves
        needed = " and ".join(fst_headers(simulators[0]))
        reason = "" if written == args.waves else f" (FST needs the headers {needed})"
        remark(f"waves in {written}{reason}")
    return 0 if all(result.passed for result in results) else 1


def _simulators(choice: str) -> list:
    from tilewright.verify.simulators import require_simulator
    from tilewright.verify.simulators.find import SIMULATORS

    return [require_simulator(name) for name in (SIMULATORS if choice == "both" else [choice])]


def _plain(result: "BenchResult") -> dict[str, Any]:
    return {
        "simulator": result.simulator.name,
        "version": result.simulator.version,
        "passed": result.passed,
        "cases": result.numbers.get("cases"),
        "cycles": result.numbers.get("cycles"),
        "cycles_per_second": _rate(result),
        "tests": [{"name": t.name, "failure": t.message} for t in result.tests],
        "coverage": result.numbers.get("coverage"),
    }


def _rate(result: "BenchResult") -> int | None:
    cycles, seconds = result.numbers.get("cycles"), result.numbers.get("seconds")
    return round(cycles / seconds) if cycles and seconds else None


def _print(name: str, results: list["BenchResult"]) -> None:
    print(name)
    print_table(
        ("SIMULATOR", "RESULT", "CASES", "CYCLES", "CYCLES/S"),
        [
            (
                result.simulator.title,
                "passed" if result.passed else "failed",
                *(f"{n:,}" if n is not None else "-" for n in _numbers(result)),
            )
            for result in results
        ],
    )
    for result in results:
        if "coverage" in result.numbers:
            from tilewright.verify.coverage import Coverage

            print(f"coverage: {Coverage.from_dict(result.numbers['coverage']).summary}")
        if result.failure is not None:
            print(f"\n{result.simulator.title}: {result.failure}")


def _numbers(result: "BenchResult") -> list[int | None]:
    return [result.numbers.get("cases"), result.numbers.get("cycles"), _rate(result)]
