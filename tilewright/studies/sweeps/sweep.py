"""A sweep: many variants of one block through synthesis, and through simulation if asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.base.console import progress
from tilewright.base.cores import available_cores
from tilewright.base.errors import CommandError
from tilewright.base.files import write_atomic
from tilewright.golden.params.resolve import resolve
from tilewright.studies.sweeps.frontiers import (
    FRONTIER,
    Frontier,
    frontier_record,
    jobs_of,
)
from tilewright.studies.sweeps.results import Failure, LeftOut, Result
from tilewright.studies.sweeps.runners import Outcome, run_here, run_on_cluster
from tilewright.studies.sweeps.variants import Axis, expand
from tilewright.studies.sweeps.work import Job, result_text
from tilewright.synth.record import store_record
from tilewright.synth.technology import TECHNOLOGIES, load_technology

__all__ = [
    *("Sweep", "failures_of", "known_technologies", "results_of", "run_jobs", "run_sweep"),
    "update_frontier",
]


@dataclass(frozen=True)
class Sweep:
    """Every variant of a sweep: what was found, what the parameters refuse, what failed."""

    results: tuple[Result, ...]
    left_out: tuple[LeftOut, ...]
    failures: tuple[Failure, ...]


def run_sweep(
    block: str,
    axes: Sequence[Axis],
    *,
    technologies: Sequence[str] = TECHNOLOGIES,
    goal: str | None = None,
    clock_ps: float | None = None,
    simulate_cases: int = 0,
    energy: bool = False,
    workers: int | None = None,
    cluster: str | None = None,
    out: Path | None = None,
) -> Sweep:
    """Synthesise every combination of values on ``axes`` that ``block`` accepts.

    Each is mapped for ``goal`` (area by default), or to the smallest netlist that meets a clock of
    ``clock_ps``. With ``simulate_cases``, its bench runs that many cases on its Verilog; with
    ``energy``, a PE's netlist computes dot products of a language model, and its energy for a
    multiply-add is known. The rest is as of :func:`run_jobs`.
    """
    if clock_ps is not None and goal is not None:
        raise CommandError("--clock chooses the goal itself: leave out --goal")
    variants = expand(block, axes)
    jobs = [
        Job(
            spec,
            technology,
            goal=goal or "area",
            clock=clock_ps,
            simulate=simulate_cases,
            energy=energy,
        )
        for spec in variants.specs
        for technology in technologies
    ]
    outcomes = run_jobs(jobs, workers=workers, cluster=cluster, out=out)
    return Sweep(
        results=results_of(jobs, outcomes),
        left_out=tuple(LeftOut(spec, why) for spec, why in variants.left_out.items()),
        failures=failures_of(jobs, outcomes),
    )


def update_frontier(
    frontier: Frontier,
    technologies: Sequence[str],
    *,
    workers: int | None = None,
    cluster: str | None = None,
    out: Path | None = None,
) -> tuple[Failure, ...]:
    """Work out all designs of a frontier again and return those that failed.

    A technology's record is written only if every design of it got through.
    """
    jobs = [job for job in jobs_of(frontier) if job.technology in technologies]
    outcomes = run_jobs(jobs, workers=workers, cluster=cluster, out=out)
    for technology in technologies:
        own = [job for job in jobs if job.technology == technology]
        results = results_of(own, outcomes)
        if len(results) == len(own):
            record = frontier_record(frontier, technology, results)
            store_record(FRONTIER, technology, frontier.name, record)
    return failures_of(jobs, outcomes)


def run_jobs(
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    cluster: str | None = None,
    out: Path | None = None,
) -> dict[Job, Outcome]:
    """Run jobs side by side; results of earlier runs on the same sources are taken as they are.

    They run in ``workers`` processes of this machine (one for each core by default), or on the
    workers of the Dask scheduler at the address ``cluster``. Each result is written to the folder
    ``out`` as soon as it is there.
    """
    if cluster is not None:
        running = run_on_cluster(jobs, cluster)
    else:
        running = run_here(jobs, workers or available_cores())
    outcomes: dict[Job, Outcome] = {}
    failed = 0
    with progress("sweep", len(jobs)) as tick:
        for job, outcome in running:
            outcomes[job] = outcome
            if not isinstance(outcome, Result):
                failed += 1
            elif out is not None:
                write_atomic(out / f"{_file_name(job)}.json", result_text(outcome))
            tick(f"{job.spec} {job.technology}" + (f", {failed} failed" if failed else ""))
    return outcomes


def known_technologies(chosen: str | None) -> tuple[str, ...]:
    """The technology ``chosen``, which must exist, or all of them."""
    if chosen is None:
        return tuple(TECHNOLOGIES)
    load_technology(chosen)
    return (chosen,)


def _file_name(job: Job) -> str:
    tail = f"{job.clock:g}ps" if job.clock is not None else job.goal
    return f"{resolve(job.spec).slug}.{job.technology}.{tail}"


def results_of(jobs: Sequence[Job], outcomes: dict[Job, Outcome]) -> tuple[Result, ...]:
    """Return the results among the outcomes, in the order of ``jobs``."""
    found = (outcomes[job] for job in jobs)
    return tuple(outcome for outcome in found if isinstance(outcome, Result))


def failures_of(jobs: Sequence[Job], outcomes: dict[Job, Outcome]) -> tuple[Failure, ...]:
    """Return the failures among the outcomes, in the order of ``jobs``."""
    return tuple(
        Failure(job.spec, job.technology, job.goal, str(outcome))
        for job in jobs
        if not isinstance(outcome := outcomes[job], Result)
    )
