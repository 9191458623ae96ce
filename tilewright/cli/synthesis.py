"""Tasks of ``tilewright synth``, a function each: it reads its options, calls and prints."""

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError
from tilewright.base.files import write_atomic
from tilewright.cli.options import refuse
from tilewright.cli.tables import Columns, print_records
from tilewright.golden.params.deca import DecaParams
from tilewright.golden.params.resolve import resolve_as
from tilewright.studies.deca_energy import CASES, IDLE, PERIOD, deca_energy_record
from tilewright.studies.synthesis import prove_or_bench, store_deviation, store_result, store_whole
from tilewright.synth.deviation import technology_deviation
from tilewright.synth.flow import DEFAULT_GOAL, Goal, Synthesis
from tilewright.synth.jobs import (
    JobResult,
    Request,
    every_request,
    has_fresh_record,
    plan,
    run_jobs,
)
from tilewright.synth.liberty_reader import read_liberty
from tilewright.synth.record import ENERGY, record_name, store_record
from tilewright.synth.reference import REFERENCE_DESIGNS
from tilewright.synth.system import SYSTEM, system_record
from tilewright.synth.technology import TECHNOLOGIES, Technology, load_technology
from tilewright.synth.whole_timing import SYSTEM_CLOCK, clock_record
from tilewright.synth.yosys import watched

_BLOCK = {
    **{"BLOCK": "record.spec", "TECHNOLOGY": "record.technology"},
    "GOAL": "record.goal",
}


def map_blocks(args: argparse.Namespace) -> int:
    """Map one block, or all; the verb where no option names another."""
    if (args.block is None) == (not args.all):
        raise CommandError("name one BLOCK, or --all")
    if args.update_records and (args.liberty or args.clock or args.hierarchy):
        raise CommandError("records are of the project's technologies, flattened, for a goal")
    technologies = _technologies_of(args)
    if args.netlist and (args.all or len(technologies) > 1):
        raise CommandError("--netlist needs one BLOCK and one technology")
    goal = Goal(args.goal) if args.goal else None
    one = Request(args.block or "", goal or DEFAULT_GOAL, gating=args.gating)
    requests = every_request(goal) if args.all else [one]
    if not args.gating:
        requests = [request for request in requests if not request.gating]
    clock = args.clock if goal is None else None
    jobs = list(plan(requests, technologies, clock=clock, keep_hierarchy=args.hierarchy))
    if args.stale:
        jobs = [job for job in jobs if not has_fresh_record(job, with_verdict=args.prove)]
    results: list[JobResult] = []
    with progress("synthesis", len(jobs)) as tick:
        for result in run_jobs(jobs, prove_or_bench if args.prove else None):
            results.append(result)
            if args.update_records:
                store_result(result)
            tick(result.job.spec)
    if args.netlist and results:
        write_atomic(args.netlist, results[0].synthesis.verilog)
    if args.json:
        proofs = [{} if r.proof is None else {"proof": r.proof.as_dict} for r in results]
        times = [{"seconds": round(r.seconds, 2)} for r in results]
        print_json([r.record | p | t for r, p, t in zip(results, proofs, times, strict=True)])
    else:
        _print_results(results, args.clock, path=args.path, parts=args.parts or args.hierarchy)
    return 0


def _technologies_of(args: argparse.Namespace) -> list[Technology]:
    """Return the user's own library, the technology that was named, or all of the project's."""
    if args.liberty:
        if args.tech:
            raise CommandError("--tech and --liberty exclude each other")
        return [read_liberty(args.liberty, dont_use=args.dont_use)]
    if args.dont_use:
        raise CommandError("--dont-use goes with --liberty or --check-technology")
    return [load_technology(name) for name in ([args.tech] if args.tech else TECHNOLOGIES)]


def _print_results(
    results: Sequence[JobResult], clock: float | None, *, path: bool, parts: bool
) -> None:
    """Print the metrics, the proofs that there are and, if asked for, longest paths and parts."""
    _print_metrics(results, clock)
    if proved := [r for r in results if r.proof is not None]:
        print("\nNetlist against RTL")
        verdict = {"VERDICT": "proof.verdict.value", "BITS": "proof.outputs"}
        detail = {"REGISTERS": "proof.registers", "DETAIL": "proof.detail"}
        print_records(proved, _BLOCK | verdict | detail)
    for result in results:
        if path:
            _print_path(result.synthesis)
        if parts:
            _print_parts(result.synthesis)


def _print_metrics(results: Sequence[JobResult], clock: float | None) -> None:
    def slack(result: JobResult) -> str:
        assert clock is not None
        return f"{clock - result.record['metrics']['delay']['value']:.1f}"

    def path(result: JobResult) -> str:
        ends = result.record["longest_path"]
        return "{start} -> {end}".format(**ends) if ends else ""

    value = "record.metrics.%s.value%s"
    columns: Columns = {
        **_BLOCK,
        "CELLS": value % ("cells", ""),
        "AREA UM2": value % ("area", ":.2f"),
        "REGISTERS": value % ("register_bits", ""),
        "DELAY PS": value % ("delay", ":.1f"),
        **({} if clock is None else {"SLACK PS": slack}),
        **{"RUN S": "seconds:.1f", "LONGEST PATH": path},
    }
    print_records(results, columns)


def _print_path(result: Synthesis) -> None:
    path = result.longest
    if path is None:
        return
    print(f"\n{result.technology.name}: {path.start} -> {path.end}, {path.delay:.1f} ps")
    rows = [
        (step.cell or "input", step.net, step.edge, *_tenths(step.arrival, step.slew, step.load))
        for step in path.steps
    ]
    if path.setup:
        rows.append(("setup", path.end, "", *_tenths(path.delay), "", ""))
    print_table(("CELL", "SIGNAL", "EDGE", "ARRIVAL PS", "SLEW PS", "LOAD FF"), rows)


def _print_parts(result: Synthesis) -> None:
    total = result.netlist.area
    areas = result.area_by_part or {"": total}
    largest_first = sorted(areas.items(), key=lambda entry: -entry[1])
    print(f"\n{result.technology.name}: area by part")
    print_table(
        ("PART", "AREA UM2", "SHARE %"),
        [(p or "(top)", f"{area:.2f}", f"{100 * area / total:.1f}") for p, area in largest_first],
    )


def _tenths(*values: float) -> list[str]:
    return [f"{value:.1f}" for value in values]


def map_system(args: argparse.Namespace) -> int:
    """Map every module of an accelerator by itself, for the area of each part or for the clock."""
    if args.block is None:
        raise CommandError("--system needs one BLOCK")
    others = ("goal", "parts", "hierarchy", "netlist", "path", "all", "stale", "energy", "prove")
    refuse(args, others, "does not go with --system")
    if not args.gating:
        raise CommandError("--system does not go with --no-gating")
    timed, technologies = args.clock is not None, _technologies_of(args)
    records = []
    title = "clock" if timed else "area by part"
    with progress(title, len(technologies)) as tick, watched(partial(tick, steps=0)):
        for technology in technologies:
            if timed:
                records.append(clock_record(args.block, technology, args.clock))
            else:
                records.append(system_record(args.block, technology))
            if args.update_records:
                kind = SYSTEM_CLOCK if timed else SYSTEM
                store_whole(kind, args.block, technology, records[-1])
            tick(technology.name)
    if args.json:
        print_json(records)
    else:
        (_print_clocks if timed else _print_system)(records)
    return 0


def _print_system(records: Sequence[dict[str, Any]]) -> None:
    rows = [
        [r["technology"], name or "(itself)", f"{a['logic']:.0f}", f"{a['memory']:.0f}"]
        for r in records
        for name, a in r["parts"].items()
    ]
    print_table(["TECHNOLOGY", "PART", "LOGIC UM2", "MEMORY UM2"], rows)


def _print_clocks(records: Sequence[dict[str, Any]]) -> None:
    rows = [
        [r["technology"], name or "(itself)", f"{ps:.0f}"]
        for r in records
        for name, ps in r["parts_ps"].items()
    ]
    print_table(["TECHNOLOGY", "PATHS THAT END IN", "LONGEST PS"], rows)
    for r in records:
        verdict = "meets" if r["period_ps"] <= r["wanted_ps"] else "misses"
        print(
            f"{r['technology']}, goal {r['goal']}: {r['period_ps']:.0f} ps,"
            f" {1e6 / r['period_ps']:.0f} MHz, {verdict} {r['wanted_ps']:.0f} ps;"
            f" {r['cells']:,} cells, from {r['longest_path']['start']}"
            f" to {r['longest_path']['end']}, without wires"
        )


def measure_energy(args: argparse.Namespace) -> int:
    """Measure power and energy of a DECA PE at the paper's clock."""
    if args.block is None:
        raise CommandError("--energy needs a BLOCK that is a DECA PE, such as deca:small")
    params = resolve_as(DecaParams, args.block)
    technology = load_technology(args.tech or "asap7")
    with progress("energy", len([*CASES, IDLE])) as tick:
        record = deca_energy_record(args.block, technology, tick, gating=args.gating)
    if args.update_records:
        name = record_name(params, technology.name, gating=args.gating)
        store_record(ENERGY, technology.name, name, record)
    if args.json:
        print_json(record)
    else:
        print(f"{args.block} in {technology.name} at {1e3 / PERIOD:g} GHz; power in mW\n")
        _print_energy(record)
    return 0


def _print_energy(record: dict[str, Any]) -> None:
    names = ("internal", "switching", "clock", "memory", "leakage", "total", "least")
    rows = []
    for case, run in record["runs"].items():
        per_tile = run.get("cycles_per_tile", "-"), run.get("pj_per_tile", "-")
        rows.append((case, *per_tile, *(f"{run['power'][part]:.3f}" for part in names)))
    print_table(("RUN", "CYCLES/TILE", "PJ/TILE", *map(str.upper, names)), rows)


def check_technology(args: argparse.Namespace) -> int:
    """Measure a technology's compact table against the full Liberty files it came from."""
    if not args.tech:
        raise CommandError("--check-technology needs --tech")
    with progress(args.tech, len(REFERENCE_DESIGNS)) as tick:
        result = technology_deviation(args.tech, args.check_technology, args.dont_use, tick)
    if args.update_records:
        store_deviation(args.tech, result)
    print_json(result) if args.json else _print_deviation(result)
    return 0


def _print_deviation(result: dict[str, Any]) -> None:
    header = ("DESIGN", "AREA UM2", "FULL", "RATIO", "DELAY PS", "FULL", "RATIO", "SAME NETLIST")
    rows = []
    for name, design in result["designs"].items():
        compact, full = design["compact"], design["full"]
        area = compact["area_um2"], full["area_um2"], design["area_ratio"]
        delay = compact["delay_ps"], full["delay_ps"], design["delay_ratio"]
        rows.append((name, *area, *delay, design["delay_ratio_same_netlist"]))
    print_table(header, rows)
