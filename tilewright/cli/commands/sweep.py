"""``tilewright sweep``: many variants of a block through synthesis, and simulation if asked."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_json, remark
from tilewright.base.errors import CommandError
from tilewright.cli.options import BLOCK, adder, refuse
from tilewright.cli.tables import Columns, print_records

if TYPE_CHECKING:
    from tilewright.studies.sweeps.frontiers import Frontier
    from tilewright.studies.sweeps.sweep import Failure, Sweep

NAME = "sweep"
PES = "pes"  # no family of one block
HELP = "run many variants of a block through synthesis and simulation"
EXAMPLE = "tilewright sweep popcount --vary width=3,5 --tech asap7"
MORE_EXAMPLES = (
    "tilewright sweep prefix_sum --vary style=ripple,sklansky --vary width=8..12 --goal fastest",
    "tilewright sweep float_mul:fp16 --vary latency=0..3 --clock 400 --simulate --out out/mul",
    "tilewright sweep queue --vary depth=2,4,8 --dask tcp://cluster:8786",
    "tilewright sweep --frontier prefix_sum",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("block BLOCK", f"{BLOCK} to vary", nargs="?")
    add("--vary NAME=A,B,C...", "a field and its values, A..B for a range")
    add("--tech T", "asap7 or sky130hd [both]")
    add("--goal area|balanced|fastest", "goal of synthesis [area]")
    add("--clock CLOCK", "clock to meet, as 800 (ps), 0.8ns or 1250MHz, with the smallest netlist")
    add("--simulate", "run each variant's bench on its Verilog too")
    add("--energy", "measure the energy of a PE's multiply-add on a language model's data")
    add("--cases N", "cases of each simulation", 200)
    add("--out DIR", "folder for each result, as soon as it is known")
    add("--jobs N", "variants at a time [all cores]")
    add("--dask ADDRESS", "run on the workers of this Dask scheduler instead")
    add("--frontier NAME", "show a family of designs, from its records; pes: arrangements of PEs")
    add("--update-records", "with --frontier, compute all designs again and write synth/records")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.sweeps.sweep import known_technologies, parse_axis, run_sweep

    if args.jobs is not None and args.jobs < 1:
        raise CommandError(f"--jobs must be at least 1, not {args.jobs}")
    if args.jobs is not None and args.dask:
        raise CommandError("--jobs is about this machine, not about --dask")
    if args.frontier:
        return _frontier(args)
    if args.update_records:
        raise CommandError("--update-records goes with --frontier")
    if args.block is None or not args.vary:
        raise CommandError("name one BLOCK and at least one --vary, or a --frontier")
    if args.cases < 1:
        raise CommandError(f"--cases must be at least 1, not {args.cases}")
    axes = [parse_axis(text) for text in args.vary]
    found = run_sweep(
        args.block,
        axes,
        technologies=known_technologies(args.tech),
        goal=args.goal,
        clock_ps=args.clock,
        simulate_cases=args.cases if args.simulate else 0,
        energy=args.energy,
        workers=args.jobs,
        cluster=args.dask,
        out=args.out,
    )
    _print_sweep(found, [axis.name for axis in axes], as_json=args.json)
    return 1 if found.failures else 0


def _frontier(args: argparse.Namespace) -> int:
    from tilewright.studies.sweeps.frontiers import find_frontier, frontier_points, update_frontier
    from tilewright.studies.sweeps.sweep import known_technologies

    if args.block or args.vary or args.goal or args.clock or args.simulate or args.energy:
        raise CommandError("--frontier says itself what to vary, and how")
    if args.frontier == PES:
        return _pes(args)
    frontier = find_frontier(args.frontier)
    technologies = [t for t in known_technologies(args.tech) if t in frontier.technologies]
    if not technologies:
        known = ", ".join(frontier.technologies)
        raise CommandError(f"frontier {frontier.name} is of {known}, not {args.tech}")
    failures: Sequence[Failure] = ()
    if args.update_records:
        failures = update_frontier(
            frontier, technologies, workers=args.jobs, cluster=args.dask, out=args.out
        )
    _print_frontier(frontier, frontier_points(frontier, technologies), failures, as_json=args.json)
    return 1 if failures else 0


def _pes(args: argparse.Namespace) -> int:
    """Print the arrangement that one search takes for every PE, made again with new records."""
    from tilewright.studies.pe.points import renew_points, taken_points

    refuse(args, ("tech", "out"), f"does not go with --frontier {PES}")
    if args.update_records:
        renew_points(args.jobs, args.dask)
    taken = [point for _, point in sorted(taken_points().items())]
    columns: Columns = {
        **{"PE": "pe", "OPERANDS": lambda point: "inside" if point.inside else "outside"},
        **{"TAKEN": "spec", "AREA UM2": "area_um2:.1f", "FJ/MAC": "fj_per_mac:.1f"},
    }
    print_json(taken) if args.json else print_records(taken, columns)
    return 0


def _print_sweep(found: "Sweep", varied: Sequence[str], *, as_json: bool) -> None:
    """One row for each variant, with a column for each field that was varied."""
    for variant in found.left_out:
        remark(f"left out: {variant.spec}: {variant.reason}")
    if as_json:
        print_json(found)
        return
    columns = {name.upper(): f"parameters.{name}" for name in varied}
    columns |= {"TECHNOLOGY": "technology", "GOAL": "goal"}
    columns |= {"AREA UM2": "metrics.area.value:.2f", "CELLS": "metrics.cells.value"}
    columns |= {"REGISTERS": "metrics.register_bits.value"}
    columns |= {"DELAY PS": "metrics.delay.value:.1f"}
    if any("slack" in result.metrics for result in found.results):
        columns["SLACK PS"] = "metrics.slack.value:.1f"
    if any("energy" in result.metrics for result in found.results):
        columns["FJ/MAC"] = "metrics.energy.value:.1f"
    if any(result.simulation for result in found.results):
        columns |= {"CASES": "simulation.cases", "CYCLES": "simulation.cycles"}
    print_records(found.results, columns)
    _print_failures(found.failures, len(found.results) + len(found.failures))


def _print_frontier(
    frontier: "Frontier",
    points: Sequence[dict[str, Any]],
    failures: "Sequence[Failure]",
    *,
    as_json: bool,
) -> None:
    """One row for each design, the best of each technology marked."""
    if as_json:
        print_json({"frontier": frontier.name, "designs": points, "failures": failures})
        return
    print(f"{frontier.title}; best marked *")
    columns: Columns = {
        **{"TECHNOLOGY": "technology", "DESIGN": "spec", "GOAL": "goal"},
        **{"AREA UM2": "area_um2:.2f", "DELAY PS": "delay_ps:.1f"},
        frontier.unit.upper(): "throughput:.3f",
        "": lambda point: "*" if point["pareto"] else "",
        "PAPER": "paper",
    }
    print_records(points, columns)
    technologies = {point["technology"] for point in points}
    _print_failures(failures, len(frontier.specs) * len(frontier.goals) * len(technologies))


def _print_failures(failures: "Sequence[Failure]", total: int) -> None:
    if failures:
        print(f"\n{len(failures)} of {total} failed:")
    for failure in failures:
        print(f"  {failure.spec} in {failure.technology}: {failure.reason}")
