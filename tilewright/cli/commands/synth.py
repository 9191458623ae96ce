"""``tilewright synth``: a block in the cells of a technology, and what the records say."""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.base.clock import clock_period
from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError

if TYPE_CHECKING:
    from tilewright.golden.params.block import BlockParams
    from tilewright.synth.equivalence import Equivalence
    from tilewright.synth.flow import Goal, Synthesis
    from tilewright.synth.technology import Technology
    from tilewright.verify.simulators import BenchResult

NAME = "synth"
HELP = "map a block to standard cells: cells, area, longest path"
EXAMPLE = "tilewright synth popcount:odd --tech asap7"

RAN = ("cases", "cycles")  # of a bench; its seconds differ from run to run
WORKERS = 2  # Yosys runs at a time; each is one process


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "block", nargs="?", metavar="BLOCK", help="NAME[:PRESET][,FIELD=VALUE]... to map"
    )
    parser.add_argument("--tech", metavar="T", help="asap7 or sky130hd; by default both")
    parser.add_argument(
        "--liberty",
        metavar="FILE",
        type=Path,
        action="append",
        help="your own Liberty file instead, plain or gzipped; again for each further one",
    )
    parser.add_argument(
        "--dont-use",
        metavar="CELL",
        action="append",
        default=[],
        help="a cell of it, or a pattern, to leave out; again for each further one",
    )
    parser.add_argument(
        "--goal", choices=("area", "balanced", "fastest"), help="what to strive for; default area"
    )
    parser.add_argument(
        "--clock",
        metavar="CLOCK",
        type=clock_period,
        help="to meet, as 800 (ps), 0.8ns or 1250MHz: takes the smallest result that does",
    )
    parser.add_argument("--parts", action="store_true", help="show the area of each part")
    parser.add_argument(
        "--hierarchy", action="store_true", help="optimise each part alone, and show its area"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="write the records as JSON to a file"
    )
    parser.add_argument(
        "--netlist", metavar="FILE", type=Path, help="write the netlist as Verilog to a file"
    )
    parser.add_argument("--path", action="store_true", help="show every cell on the longest path")
    parser.add_argument(
        "--update-records", action="store_true", help="write the results into synth/records"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="every preset of the stream and arithmetic blocks, and what else has a record",
    )
    parser.add_argument(
        "--stale",
        action="store_true",
        help="of these, only what has no up-to-date record, or with --prove no verdict",
    )
    parser.add_argument(
        "--system",
        action="store_true",
        help="only the area of each part, every module by itself: for whole accelerators",
    )
    parser.add_argument(
        "--energy",
        action="store_true",
        help="power and energy of a DECA element at the paper's clock, in asap7: minutes",
    )
    parser.add_argument(
        "--prove",
        action="store_true",
        help="prove that each netlist is equivalent to its RTL; where ABC cannot, run its bench",
    )
    parser.add_argument(
        "--compare",
        metavar=("OLD", "NEW"),
        nargs=2,
        type=Path,
        help="compare two record files, or two folders of them, instead",
    )
    parser.add_argument(
        "--check-technology",
        metavar="FULL",
        nargs="+",
        type=Path,
        help="measure --tech against the full Liberty files it came from, instead",
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.synth.yosys import SynthesisError

    try:
        if args.compare:
            return _compare(*args.compare, as_json=args.json)
        if args.check_technology:
            return _check_technology(args)
        if args.system:
            return _system(args)
        if args.energy:
            return _energy(args)
        return _synthesise(args)
    except SynthesisError as error:
        raise CommandError(str(error)) from error


def _synthesise(args: argparse.Namespace) -> int:
    from tilewright.base.files import write_atomic
    from tilewright.synth.record import block_record, record_path, record_text

    if (args.block is None) == (not args.all):
        raise CommandError("name one BLOCK, or --all")
    if args.update_records and (args.liberty or args.clock or args.hierarchy):
        raise CommandError("records are of the project's technologies, flattened, for a goal")
    technologies = _technologies(args)
    if args.netlist and (args.all or len(technologies) > 1):
        raise CommandError("--netlist needs one BLOCK and one technology")
    jobs = list(_jobs(args, technologies))
    records, results, proofs, seconds = [], [], [], []
    with progress("synthesis", len(jobs)) as tick:
        for job, result, proof, took in _run_jobs(jobs, args):
            records.append(block_record(job.spec, job.params, job.rtlil, result))
            results.append(result)
            proofs.append(proof)
            seconds.append(took)
            if args.update_records:
                path = record_path(job.params, job.technology, job.goal)
                write_atomic(path, record_text(records[-1]))
                if proof is not None:
                    _record_proof(path.name, records[-1], proof)
            tick(job.spec)
    if args.netlist and results:
        write_atomic(args.netlist, results[0].verilog)
    if args.output:
        write_atomic(args.output, record_text(records[0] if len(records) == 1 else records))
    if args.json:
        # Times are no part of a record, which is the same on every run.
        print_json([r | {"seconds": round(s, 2)} for r, s in zip(records, seconds, strict=True)])
        return 0
    _print_records(records, args.clock, seconds)
    if args.prove:
        _print_proofs(records, proofs)
    for result in results:
        if args.path:
            _print_path(result)
        if args.parts or args.hierarchy:
            _print_parts(result)
    return 0


def _system(args: argparse.Namespace) -> int:
    from concurrent.futures import ThreadPoolExecutor

    from tilewright.base.files import write_atomic
    from tilewright.synth.record import record_text
    from tilewright.synth.system import system_path, system_record

    if args.block is None:
        raise CommandError("--system needs one BLOCK")
    technologies = _technologies(args)
    records = []
    pool = ThreadPoolExecutor(WORKERS)  # the work is in Yosys processes
    with progress("area by part", len(technologies)) as tick, pool:
        made = pool.map(lambda technology: system_record(args.block, technology), technologies)
        for technology, record in zip(technologies, made, strict=True):
            records.append(record)
            if args.update_records:
                if technology.liberty:
                    raise CommandError("records are of the project's technologies")
                path = system_path(args.block, technology)
                path.parent.mkdir(exist_ok=True)
                write_atomic(path, record_text(records[-1]))
            tick(technology.name)
    if args.json:
        print_json(records)
        return 0
    rows = [
        [r["technology"], name or "(itself)", f"{a['logic']:.0f}", f"{a['memory']:.0f}"]
        for r in records
        for name, a in r["parts"].items()
    ]
    print_table(["TECHNOLOGY", "PART", "LOGIC UM2", "MEMORY UM2"], rows)
    return 0


def _energy(args: argparse.Namespace) -> int:
    from tilewright.base.files import write_atomic
    from tilewright.golden.params.deca import DecaParams
    from tilewright.golden.params.resolve import resolve
    from tilewright.studies.deca_energy.run import CASES, IDLE, PERIOD, deca_energy_record
    from tilewright.studies.pe.energy import energy_path
    from tilewright.synth.record import record_text
    from tilewright.synth.technology import load_technology

    if args.block is None or not isinstance(params := resolve(args.block), DecaParams):
        raise CommandError("--energy needs a BLOCK that is a DECA element, such as deca:small")
    technology = load_technology(args.tech or "asap7")
    with progress("energy", len([*CASES, IDLE])) as tick:
        record = deca_energy_record(args.block, technology, tick)
    if args.update_records:
        write_atomic(energy_path(params, technology), record_text(record))
    if args.json:
        print_json(record)
        return 0
    names = ("internal", "switching", "clock", "memory", "leakage", "total", "least")
    print(f"{args.block} in {technology.name} at {1e3 / PERIOD:g} GHz; power in mW\n")
    print_table(
        ("RUN", "CYCLES A TILE", "PJ A TILE", *map(str.upper, names)),
        [
            (
                name,
                run.get("cycles_per_tile", "-"),
                run.get("pj_per_tile", "-"),
                *(f"{run['power'][part]:.3f}" for part in names),
            )
            for name, run in record["runs"].items()
        ],
    )
    return 0


def _wanted(args: argparse.Namespace) -> "list[tuple[str, Goal, str | None]]":
    """Blocks with goal and, of what ``--all`` finds in records, the only technology."""
    from tilewright.golden.params.arith import ARITH_BLOCKS
    from tilewright.golden.params.stream import STREAM_BLOCKS
    from tilewright.synth.flow import DEFAULT_GOAL, Goal
    from tilewright.synth.record import load_records

    goal = Goal(args.goal) if args.goal else DEFAULT_GOAL
    if not args.all:
        return [(args.block, goal, None)]
    blocks = (*STREAM_BLOCKS, *ARITH_BLOCKS)
    presets = [(f"{cls.block}:{preset}", goal) for cls in blocks for preset in cls.PRESETS]
    recorded = [
        (r["spec"], Goal(r["goal"]), r["technology"])
        for r in load_records().values()
        if args.goal is None and (r["spec"], Goal(r["goal"])) not in presets
    ]
    return [*((spec, goal, None) for spec, goal in presets), *recorded]


def _technologies(args: argparse.Namespace) -> "list[Technology]":
    from tilewright.synth.liberty_reader import read_liberty
    from tilewright.synth.technology import TECHNOLOGIES, load_technology

    if args.liberty:
        if args.tech:
            raise CommandError("--tech and --liberty exclude each other")
        return [read_liberty(args.liberty, dont_use=args.dont_use)]
    if args.dont_use:
        raise CommandError("--dont-use goes with --liberty or --check-technology")
    return [load_technology(name) for name in ([args.tech] if args.tech else TECHNOLOGIES)]


class Job(NamedTuple):
    """One block in one technology."""

    spec: str
    params: "BlockParams"
    rtlil: str
    technology: "Technology"
    goal: "Goal"


def _jobs(args: argparse.Namespace, technologies: "Sequence[Technology]") -> Iterator[Job]:
    from functools import cache

    from tilewright.golden.params.resolve import resolve
    from tilewright.synth.emit import to_rtlil
    from tilewright.synth.requirements import require_full_adder

    @cache
    def rtlil_of(spec: str) -> str:
        return to_rtlil(resolve(spec), memory_macros=True)

    for spec, goal, only in _wanted(args):
        params, rtlil = resolve(spec), rtlil_of(spec)
        for technology in technologies:
            if only not in (None, technology.name):
                continue
            if args.clock is None:
                require_full_adder(rtlil, technology, goal)
            job = Job(spec, params, rtlil, technology, goal)
            if not (args.stale and _has_fresh_record(job, args.prove)):
                yield job


def _has_fresh_record(job: Job, with_verdict: bool) -> bool:
    from tilewright.synth.equivalence import is_about, load_equivalence
    from tilewright.synth.record import is_fresh, record_path, sha256

    path = record_path(job.params, job.technology, job.goal)
    if not path.exists() or not is_fresh(record := _read_record(path), sha256(job.rtlil)):
        return False
    return not with_verdict or is_about(load_equivalence().get(path.name, {}), record)


def _run_jobs(
    jobs: Sequence[Job], args: argparse.Namespace
) -> "Iterator[tuple[Job, Synthesis, Equivalence | None, float]]":
    """Jobs with their results and seconds, in order, computed side by side."""
    from concurrent.futures import ThreadPoolExecutor

    from tilewright.synth.flow import synthesise, synthesise_for_clock

    def mapped(job: Job) -> "Synthesis":
        top, options = job.params.slug, {"keep_hierarchy": args.hierarchy}
        if args.clock is not None and args.goal is None:
            return synthesise_for_clock(job.rtlil, top, job.technology, args.clock, **options)
        return synthesise(job.rtlil, top, job.technology, job.goal, **options)

    def work(job: Job) -> "tuple[Synthesis, Equivalence | None, float]":
        start = perf_counter()
        result = mapped(job)
        proof = _prove(job, result) if args.prove else None
        return result, proof, perf_counter() - start

    # Threads suffice: the work is in Yosys processes, which an interrupt reaches as it reaches us.
    pool = ThreadPoolExecutor(WORKERS)
    try:
        pending = [(job, pool.submit(work, job)) for job in jobs]
        for job, future in pending:
            yield job, *future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _prove(job: Job, result: "Synthesis") -> "Equivalence":
    """The block's own bench runs on its netlist where no proof is found."""
    from dataclasses import replace

    from tilewright.synth.equivalence import Verdict, check_equivalence
    from tilewright.verify.netlist import bench_netlist
    from tilewright.verify.simulators import MissingToolError

    found = check_equivalence(job.rtlil, result.netlist)
    if found.verdict not in (Verdict.UNDECIDED, Verdict.UNMATCHED):
        return found
    try:
        bench = bench_netlist(job.spec, result)
    except MissingToolError as error:
        return replace(found, detail=f"{found.detail}; {error}".removeprefix("; "))
    if not bench.passed:
        first = (bench.failure or "no reason given").splitlines()[0]
        return replace(found, verdict=Verdict.DIFFERENT, detail=f"bench: {first}")
    return replace(found, verdict=Verdict.BENCHED, detail=f"{found.verdict.value}; {_ran(bench)}")


def _ran(bench: "BenchResult") -> str:
    """What a bench did, in the same words on every run."""
    tests = [f"{len(bench.tests)} tests"] if len(bench.tests) > 1 else []
    return ", ".join([*tests, *(f"{n} {what}" for what, n in bench.numbers.items() if what in RAN)])


def _print_records(
    records: Sequence[dict[str, Any]], clock: float | None, seconds: Sequence[float]
) -> None:
    header = ["BLOCK", "TECHNOLOGY", "GOAL", "CELLS", "AREA UM2", "REGISTERS", "DELAY PS"]
    rows = []
    for record, took in zip(records, seconds, strict=True):
        value = {name: metric["value"] for name, metric in record["metrics"].items()}
        path = record["longest_path"]
        row = [
            record["spec"],
            record["technology"],
            record["goal"],
            value["cells"],
            f"{value['area']:.2f}",
            value["register_bits"],
            f"{value['delay']:.1f}",
        ]
        if clock is not None:
            row.append(f"{clock - value['delay']:.1f}")
        row.append(f"{took:.1f}")
        rows.append([*row, f"{path['start']} -> {path['end']}" if path else ""])
    header += ["SLACK PS"] if clock is not None else []
    print_table([*header, "RUN S", "LONGEST PATH"], rows)


def _record_proof(name: str, record: dict[str, Any], proof: "Equivalence") -> None:
    from tilewright.base.files import write_atomic
    from tilewright.synth.equivalence import EQUIVALENCE_RECORD, equivalence_entry, load_equivalence
    from tilewright.synth.record import record_text

    known = load_equivalence() | {name: equivalence_entry(record, proof)}
    write_atomic(EQUIVALENCE_RECORD, record_text(dict(sorted(known.items()))))


def _print_proofs(
    records: Sequence[dict[str, Any]], proofs: "Sequence[Equivalence | None]"
) -> None:
    print("\nNetlist against RTL")
    print_table(
        ("BLOCK", "TECHNOLOGY", "GOAL", "VERDICT", "BITS", "REGISTERS", "DETAIL"),
        [
            (
                r["spec"],
                r["technology"],
                r["goal"],
                p.verdict.value,
                p.outputs,
                p.registers,
                p.detail,
            )
            for r, p in zip(records, proofs, strict=True)
            if p is not None
        ],
    )


def _print_path(result: "Synthesis") -> None:
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


def _tenths(*values: float) -> list[str]:
    return [f"{value:.1f}" for value in values]


def _print_parts(result: "Synthesis") -> None:
    total = result.netlist.area
    areas = result.area_by_part or {"": total}
    print(f"\n{result.technology.name}: area by part")
    print_table(
        ("PART", "AREA UM2", "SHARE %"),
        [
            (part or "(top)", f"{area:.2f}", f"{100 * area / total:.1f}")
            for part, area in sorted(areas.items(), key=lambda entry: -entry[1])
        ],
    )


def _compare(old: Path, new: Path, as_json: bool) -> int:
    from tilewright.synth.compare import compare_records

    rows = []
    for name, before, after in _record_pairs(old, new):
        try:
            changes = compare_records(before, after)
        except ValueError as error:
            raise CommandError(f"{name}: {error}") from None
        rows += [(name, change) for change in changes if change.verdict != "same"]
    if as_json:
        print_json([{"record": name, **vars(change)} for name, change in rows])
    elif not rows:
        print("no metric changed")
    else:
        print_table(
            ("RECORD", "METRIC", "OLD", "NEW", "UNIT", "CHANGE %", "VERDICT"),
            [
                (
                    name,
                    change.metric,
                    change.old,
                    change.new,
                    change.unit,
                    "" if change.percent is None else f"{change.percent:+.1f}",
                    change.verdict,
                )
                for name, change in rows
            ],
        )
    return 0


def _record_pairs(old: Path, new: Path) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    from tilewright.synth.record import load_records

    if old.is_dir() != new.is_dir():
        raise CommandError(f"{old} and {new}: compare two files or two folders")
    if not old.is_dir():
        yield new.name, *(_read_record(path) for path in (old, new))
        return
    before, after = load_records(old), load_records(new)
    if not before:
        raise CommandError(f"{old} has no records")
    for name in before:
        if name not in after:
            raise CommandError(f"record {name} is missing in {new}")
        yield name, before[name], after[name]


def _read_record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text())
        record["metrics"]
    except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError):
        raise CommandError(f"{path} is not a synthesis record") from None
    return record


def _check_technology(args: argparse.Namespace) -> int:
    from tilewright.base.files import write_atomic
    from tilewright.synth.deviation import DEVIATION_RECORD, technology_deviation
    from tilewright.synth.record import record_text
    from tilewright.synth.reference import REFERENCE_DESIGNS

    if not args.tech:
        raise CommandError("--check-technology needs --tech")
    with progress(args.tech, len(REFERENCE_DESIGNS)) as tick:
        result = technology_deviation(args.tech, args.check_technology, args.dont_use, tick)
    if args.update_records:
        known = json.loads(DEVIATION_RECORD.read_text()) if DEVIATION_RECORD.exists() else {}
        known[args.tech] = result
        write_atomic(DEVIATION_RECORD, record_text(dict(sorted(known.items()))))
    if args.json:
        print_json(result)
        return 0
    print_table(
        ("DESIGN", "AREA UM2", "FULL", "RATIO", "DELAY PS", "FULL", "RATIO", "SAME NETLIST"),
        [
            (
                name,
                design["compact"]["area_um2"],
                design["full"]["area_um2"],
                design["area_ratio"],
                design["compact"]["delay_ps"],
                design["full"]["delay_ps"],
                design["delay_ratio"],
                design["delay_ratio_same_netlist"],
            )
            for name, design in result["designs"].items()
        ],
    )
    return 0
