"""``tilewright sweep``: many variants of a block through synthesis, and simulation if asked."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.base.clock import clock_period
from tilewright.base.console import print_json, print_table, progress, remark
from tilewright.base.cores import available_cores
from tilewright.base.errors import CommandError

if TYPE_CHECKING:
    from tilewright.studies.sweeps.frontiers import Frontier
    from tilewright.studies.sweeps.runners import Outcome
    from tilewright.studies.sweeps.work import Job

NAME = "sweep"
HELP = "run many variants of a block through synthesis and simulation"
EXAMPLE = "tilewright sweep popcount --vary width=3,5 --tech asap7"
MORE_EXAMPLES = (
    "tilewright sweep prefix_sum --vary style=ripple,sklansky --vary width=8..12 --goal fastest",
    "tilewright sweep float_mul:fp16 --vary latency=0..3 --clock 400 --simulate --out out/mul",
    "tilewright sweep queue --vary depth=2,4,8 --dask tcp://cluster:8786",
    "tilewright sweep --frontier prefix_sum",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "\n  ".join(["examples:", EXAMPLE, *MORE_EXAMPLES])
    parser.add_argument(
        "block", nargs="?", metavar="BLOCK", help="NAME[:PRESET][,FIELD=VALUE]... to vary"
    )
    parser.add_argument(
        "--vary",
        metavar="NAME=A,B,C",
        action="append",
        default=[],
        help="a field and its values, A..B for a range; again for each further field",
    )
    parser.add_argument(
        "--tech", "--technology", metavar="T", help="asap7 or sky130hd; by default both"
    )
    parser.add_argument(
        "--goal", choices=("area", "balanced", "fastest"), help="what to strive for; default area"
    )
    parser.add_argument(
        "--clock",
        metavar="CLOCK",
        type=clock_period,
        help="to meet, as 800 (ps), 0.8ns or 1250MHz: the smallest that does",
    )
    parser.add_argument(
        "--simulate", action="store_true", help="run each variant's bench on its Verilog too"
    )
    parser.add_argument(
        "--cases", metavar="N", type=int, default=200, help="of --simulate; default %(default)s"
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="write each result there as soon as it is there"
    )
    parser.add_argument("--jobs", metavar="N", type=int, help="at a time; default all cores")
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="on the workers of this Dask scheduler instead"
    )
    parser.add_argument(
        "--frontier", metavar="NAME", help="a family of designs of the report, from its records"
    )
    parser.add_argument(
        "--update-records",
        action="store_true",
        help="of --frontier: all designs again; writes synth/records/frontier",
    )


def run(args: argparse.Namespace) -> int:
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
    return _sweep(args)


def _sweep(args: argparse.Namespace) -> int:
    from tilewright.studies.sweeps.variants import expand, parse_axis
    from tilewright.studies.sweeps.work import Job

    if args.cases < 1:
        raise CommandError(f"--cases must be at least 1, not {args.cases}")
    if args.clock is not None and args.goal:
        raise CommandError("--clock chooses the goal itself: leave out --goal")
    axes = [parse_axis(text) for text in args.vary]
    variants = expand(args.block, axes)
    jobs = [
        Job(
            spec,
            technology,
            goal=args.goal or "area",
            clock=args.clock,
            simulate=args.cases if args.simulate else 0,
        )
        for spec in variants.specs
        for technology in _technologies(args.tech)
    ]
    outcomes = dict(_run_jobs(jobs, args))
    results = [outcomes[job] for job in jobs if isinstance(outcomes[job], dict)]
    failures = _failures(jobs, outcomes)
    for spec, why in variants.left_out.items():
        remark(f"left out: {spec}: {why}")
    if args.json:
        left_out = [{"spec": spec, "reason": why} for spec, why in variants.left_out.items()]
        print_json({"results": results, "left_out": left_out, "failures": failures})
    else:
        _print(results, [axis.name for axis in axes], args)
        _print_failures(failures, len(jobs))
    return 1 if failures else 0


def _technologies(chosen: str | None) -> Sequence[str]:
    from tilewright.synth.technology import TECHNOLOGIES, load_technology

    if chosen:
        load_technology(chosen)  # refuses what there is not
        return [chosen]
    return TECHNOLOGIES


def _run_jobs(jobs: "Sequence[Job]", args: argparse.Namespace) -> "Iterator[tuple[Job, Outcome]]":
    """Every job with its outcome, in the order in which they end, each written to ``--out``."""
    from tilewright.base.files import write_atomic
    from tilewright.studies.sweeps.runners import run_here, run_on_cluster
    from tilewright.synth.record import record_text

    if args.dask:
        running = run_on_cluster(jobs, args.dask)
    else:
        running = run_here(jobs, args.jobs or available_cores())
    failed = 0
    with progress("sweep", len(jobs)) as tick:
        for job, outcome in running:
            if isinstance(outcome, dict):
                if args.out:
                    write_atomic(args.out / f"{_file_name(job)}.json", record_text(outcome))
            else:
                failed += 1
            tick(f"{job.spec} {job.technology}" + (f", {failed} failed" if failed else ""))
            yield job, outcome


def _file_name(job: "Job") -> str:
    from tilewright.golden.params.resolve import resolve

    tail = f"{job.clock:g}ps" if job.clock is not None else job.goal
    return f"{resolve(job.spec).slug}.{job.technology}.{tail}"


def _failures(jobs: "Sequence[Job]", outcomes: "dict[Job, Outcome]") -> list[dict[str, str]]:
    return [
        {"spec": job.spec, "technology": job.technology, "goal": job.goal, "reason": str(why)}
        for job in jobs
        if not isinstance(why := outcomes[job], dict)
    ]


def _print(results: list[dict[str, Any]], varied: list[str], args: argparse.Namespace) -> None:
    header = [*(name.upper() for name in varied), "TECHNOLOGY", "GOAL", "AREA UM2", "CELLS"]
    header += ["REGISTERS", "DELAY PS"]
    header += ["SLACK PS"] if args.clock is not None else []
    header += ["CASES", "CYCLES"] if args.simulate else []
    rows = []
    for result in results:
        m = result["metrics"]
        row = [result["parameters"][name] for name in varied]
        row += [result["technology"], result["goal"], f"{m['area']:.2f}", m["cells"]]
        row += [m["register_bits"], f"{m['delay']:.1f}"]
        row += [f"{m['slack']:.1f}"] if args.clock is not None else []
        row += [result["simulation"][n] for n in ("cases", "cycles")] if args.simulate else []
        rows.append(row)
    print_table(header, rows)


def _print_failures(failures: list[dict[str, str]], total: int) -> None:
    if not failures:
        return
    print(f"\n{len(failures)} of {total} failed:")
    for failure in failures:
        print(f"  {failure['spec']} in {failure['technology']}: {failure['reason']}")


def _frontier(args: argparse.Namespace) -> int:
    from tilewright.golden.params.names import unknown
    from tilewright.studies.sweeps.frontiers import FRONTIERS, jobs_of

    if args.block or args.vary or args.goal or args.clock or args.simulate:
        raise CommandError("--frontier says itself what to vary, and how")
    if args.frontier not in FRONTIERS:
        raise CommandError(unknown("frontier", args.frontier, FRONTIERS))
    frontier = FRONTIERS[args.frontier]
    technologies = [t for t in _technologies(args.tech) if t in frontier.technologies]
    if not technologies:
        known = ", ".join(frontier.technologies)
        raise CommandError(f"frontier {frontier.name} is of {known}, not {args.tech}")
    jobs = [job for job in jobs_of(frontier) if job.technology in technologies]
    failures = _update(frontier, jobs, args) if args.update_records else []
    _print_frontier(frontier, technologies, args.json)
    if not args.json:
        _print_failures(failures, len(jobs))
    return 1 if failures else 0


def _update(
    frontier: "Frontier", jobs: "Sequence[Job]", args: argparse.Namespace
) -> list[dict[str, str]]:
    """New records of the technologies in which every design got through."""
    from tilewright.base.files import write_atomic
    from tilewright.studies.sweeps.frontiers import frontier_path, frontier_record
    from tilewright.synth.record import record_text

    outcomes = dict(_run_jobs(jobs, args))
    failures = _failures(jobs, outcomes)
    for technology in dict.fromkeys(job.technology for job in jobs):
        own = [outcomes[job] for job in jobs if job.technology == technology]
        if all(isinstance(outcome, dict) for outcome in own):
            record = frontier_record(frontier, technology, own)
            write_atomic(frontier_path(frontier.name, technology), record_text(record))
    return failures


def _print_frontier(frontier: "Frontier", technologies: Sequence[str], as_json: bool) -> None:
    from tilewright.golden.params.resolve import resolve
    from tilewright.studies.sweeps.frontiers import load_frontier, pareto

    papers = {resolve(spec): claim for spec, claim in frontier.papers.items()}
    rows = []
    for technology in technologies:
        designs = load_frontier(frontier.name, technology)
        if designs is None:
            raise CommandError(
                f"no record of frontier {frontier.name} in {technology}; make it with"
                f" `tilewright sweep --frontier {frontier.name} --update-records`"
            )
        best = pareto(designs)
        for design in sorted(designs, key=lambda d: d.area):
            claim = papers.get(resolve(design.spec))
            rows.append(
                {
                    "technology": technology,
                    **{n: getattr(design, n) for n in ("spec", "goal", "area", "delay")},
                    "throughput": design.throughput,
                    "pareto": design in best,
                    "paper": claim.where if claim else None,
                }
            )
    if as_json:
        print_json({"frontier": frontier.name, "unit": frontier.unit, "designs": rows})
        return
    print(f"{frontier.title}; best marked *")
    print_table(
        [
            "TECHNOLOGY",
            "DESIGN",
            "GOAL",
            "AREA UM2",
            "DELAY PS",
            frontier.unit.upper(),
            "",
            "PAPER",
        ],
        [
            [
                *(row["technology"], row["spec"], row["goal"], f"{row['area']:.2f}"),
                "" if row["delay"] is None else f"{row['delay']:.1f}",
                f"{row['throughput']:.3f}",
                "*" if row["pareto"] else "",
                row["paper"] or "",
            ]
            for row in rows
        ],
    )
