"""``tilewright synth BLOCK``: blocks in the cells of technologies."""

import argparse

from tilewright.base.console import print_json, progress
from tilewright.base.errors import CommandError
from tilewright.base.files import write_atomic
from tilewright.base.records import write_record
from tilewright.cli.synthesis.results import print_results
from tilewright.cli.synthesis.technologies import technologies_of
from tilewright.studies.synthesis import prove_or_bench, store_result
from tilewright.synth.flow import DEFAULT_GOAL, Goal
from tilewright.synth.jobs import (
    JobResult,
    Request,
    every_request,
    has_fresh_record,
    plan,
    run_jobs,
)

__all__ = ["map_blocks"]


def map_blocks(args: argparse.Namespace) -> int:
    """Map one block, or all; the verb where no option names another."""
    if (args.block is None) == (not args.all):
        raise CommandError("name one BLOCK, or --all")
    if args.update_records and (args.liberty or args.clock or args.hierarchy):
        raise CommandError("records are of the project's technologies, flattened, for a goal")
    technologies = technologies_of(args)
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
    records = [result.record for result in results]
    if args.output:
        write_record(args.output, records[0] if len(records) == 1 else records)
    if args.json:
        proofs = [{} if r.proof is None else {"proof": r.proof.as_dict} for r in results]
        times = [{"seconds": round(r.seconds, 2)} for r in results]
        print_json([r.record | p | t for r, p, t in zip(results, proofs, times, strict=True)])
    else:
        print_results(results, args.clock, path=args.path, parts=args.parts or args.hierarchy)
    return 0
