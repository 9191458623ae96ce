"""Synthesis jobs, each a block in the cells of a technology: planning and running them."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from time import perf_counter
from typing import Any, NamedTuple

from tilewright.golden.params.arith import ARITH_BLOCKS
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.resolve import resolve
from tilewright.golden.params.stream import STREAM_BLOCKS
from tilewright.synth.emit import to_rtlil
from tilewright.synth.equivalence import Equivalence, check_equivalence
from tilewright.synth.flow import DEFAULT_GOAL, Goal, Synthesis, synthesise, synthesise_for_clock
from tilewright.synth.full_adders import find_full_adder
from tilewright.synth.record import (
    SYNTHESIS,
    block_record,
    find_record,
    is_fresh,
    load_kind,
    sha256,
)
from tilewright.synth.technology import Technology
from tilewright.synth.yosys import SynthesisError

WORKERS = 2  # Yosys runs at a time; each is one process
_ARITHMETIC = re.compile(r"^\s*cell \$(?:add|sub|neg|mul|lt|le|gt|ge) ", re.MULTILINE)


class Request(NamedTuple):
    """A block that is wanted for a goal, in every technology or in one."""

    block: str  # as ``tilewright.golden.params.resolve`` reads it
    goal: Goal = DEFAULT_GOAL
    technology: str | None = None
    gating: bool = True


@dataclass(frozen=True)
class Job:
    """One block to map to the cells of one technology."""

    spec: str
    params: BlockParams
    rtlil: str
    technology: Technology
    goal: Goal
    clock: float | None = None  # ps; the smallest result that meets it, whatever the goal
    keep_hierarchy: bool = False  # optimise each part alone
    gating: bool = True  # enables may become clock gates

    def synthesise(self) -> Synthesis:
        top = self.params.slug
        options = {"keep_hierarchy": self.keep_hierarchy, "gating": self.gating}
        if self.clock is not None:
            return synthesise_for_clock(self.rtlil, top, self.technology, self.clock, **options)
        return synthesise(self.rtlil, top, self.technology, self.goal, **options)


@dataclass(frozen=True)
class JobResult:
    """Result of a job."""

    job: Job
    synthesis: Synthesis
    proof: Equivalence | None  # where one was asked for
    seconds: float  # wall clock, which is no part of a record

    @cached_property
    def record(self) -> dict[str, Any]:
        """The record of the result, which is the same on every run."""
        return block_record(self.job.spec, self.job.params, self.job.rtlil, self.synthesis)


def every_request(goal: Goal | None = None) -> list[Request]:
    """Every preset of stream and arithmetic blocks and, without a ``goal``, all with a record."""
    blocks = (*STREAM_BLOCKS, *ARITH_BLOCKS)
    names = [f"{block.block}:{preset}" for block in blocks for preset in block.PRESETS]
    presets = [Request(name, goal or DEFAULT_GOAL) for name in names]
    if goal is not None:
        return presets
    known = {(request.block, request.goal, request.gating) for request in presets}
    recorded = (
        Request(r["spec"], Goal(r["goal"]), r["technology"], r["clock_gating"])
        for r in sorted(load_kind(SYNTHESIS).values(), key=lambda r: not r["clock_gating"])
    )
    return [*presets, *(r for r in recorded if (r.block, r.goal, r.gating) not in known)]


def plan(
    requests: Iterable[Request],
    technologies: Sequence[Technology],
    *,
    clock: float | None = None,
    keep_hierarchy: bool = False,
) -> Iterator[Job]:
    """Yield the jobs of the requests, in each of the technologies that a request allows."""

    @cache
    def rtlil_of(spec: str) -> str:
        return to_rtlil(resolve(spec), memory_macros=True)

    for spec, goal, only, gating in requests:
        params, rtlil = resolve(spec), rtlil_of(spec)
        for technology in technologies:
            if only not in (None, technology.name):
                continue
            if clock is None:
                require_full_adder(rtlil, technology, goal)
            yield Job(spec, params, rtlil, technology, goal, clock, keep_hierarchy, gating)


def require_full_adder(rtlil: str, technology: Technology, goal: Goal) -> None:
    """Refuse a library without a full adder for the goal that is about full adders.

    Gates instead would give an area that says nothing about the library.
    """
    wanted = goal is Goal.AREA and _ARITHMETIC.search(rtlil) is not None
    if wanted and technology.liberty and find_full_adder(technology) is None:
        raise SynthesisError(
            f"{technology.name}: lacks a full adder, a cell with sum and carry of three inputs;"
            " the goals balanced and fastest do without"
        )


def has_fresh_record(job: Job, *, with_verdict: bool = False) -> bool:
    """Whether the committed record of ``job`` is up to date, and has a verdict on its netlist."""
    record = find_record(job.params, job.technology.name, job.goal, gating=job.gating)
    if record is None or not is_fresh(record, sha256(job.rtlil)):
        return False
    return "proof" in record or not with_verdict


def prove(job: Job, synthesis: Synthesis) -> Equivalence:
    """Compare the netlist of ``synthesis`` with the RTL of ``job``, by proof alone."""
    return check_equivalence(job.rtlil, synthesis.netlist)


def run_jobs(
    jobs: Iterable[Job],
    prover: Callable[[Job, Synthesis], Equivalence] | None = None,
    *,
    workers: int = WORKERS,
) -> Iterator[JobResult]:
    """Yield the results of the jobs in order; ``prover`` compares each netlist with its RTL."""

    def work(job: Job) -> JobResult:
        start = perf_counter()
        synthesis = job.synthesise()
        proof = prover(job, synthesis) if prover is not None else None
        return JobResult(job, synthesis, proof, perf_counter() - start)

    # Threads suffice: the work is in Yosys processes, which an interrupt reaches too.
    pool = ThreadPoolExecutor(workers)
    try:
        pending = [pool.submit(work, job) for job in jobs]
        for future in pending:
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)
