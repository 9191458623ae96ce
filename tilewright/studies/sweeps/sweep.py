"""Sweeps: many variants of one block through synthesis, and through simulation if asked.

Variants run in processes of this machine or on the workers of a Dask scheduler. Yosys and
simulators are cached by content, so a sweep that was interrupted continues about where it stopped.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import tilewright
from tilewright.base.cache import content_key
from tilewright.base.console import progress
from tilewright.base.cores import available_cores
from tilewright.base.errors import CheckError, CommandError
from tilewright.base.files import write_atomic
from tilewright.golden.params.resolve import UnknownNameError, resolve
from tilewright.studies.pe.energy import measure_run
from tilewright.studies.pe.workload import pe_bench
from tilewright.studies.runs.simulation import DEFAULT
from tilewright.synth.emit import to_rtlil
from tilewright.synth.flow import Goal, synthesise, synthesise_for_clock
from tilewright.synth.modules import area_by_modules
from tilewright.synth.record import block_record, sha256
from tilewright.synth.technology import TECHNOLOGIES, load_technology
from tilewright.verify import cocotb_tests
from tilewright.verify.simulators import default_simulator


@dataclass(frozen=True)
class Job:
    """One variant, and what is to be found out about it."""

    spec: str
    technology: str
    goal: str = "area"
    clock: float | None = None  # ps; takes the first goal that meets it
    by_modules: bool = False  # area alone, module by module, for the largest blocks
    simulate: int = 0  # cases; 0 is none
    energy: bool = False  # of a PE's multiply-add on real data
    variant: str = ""  # of the PE; its usual one


@dataclass(frozen=True, kw_only=True)
class Result:
    """A variant that got through synthesis, and through simulation if that was asked for."""

    spec: str
    technology: str
    goal: str
    parameters: Mapping[str, Any]  # of the block: whole numbers, truth values and names
    metrics: Mapping[str, Mapping[str, Any]]  # value and unit of each
    rtlil_sha256: str
    longest_path: Mapping[str, Any] | None = None  # start, end and cells in order
    simulation: Mapping[str, Any] | None = None  # simulator, cases and cycles of a passed bench


@dataclass(frozen=True)
class Failure:
    """A variant that did not get through; ``reason`` is one line."""

    spec: str
    technology: str
    goal: str
    reason: str


Outcome = Result | Failure


@dataclass(frozen=True)
class Axis:
    """A field and the values it takes."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class LeftOut:
    """A combination of values that the block's parameters refuse, and why."""

    spec: str
    reason: str


CONNECT_SECONDS = 20  # for a scheduler to answer, and for its first worker
MOST_VALUES = 100_000  # of a range: more than any sweep ends with
LONGEST = 18  # digits of a number


def parse_axis(text: str) -> Axis:
    """``name=a,b,c``; ``a..b`` among the values stands for all whole numbers of that range."""
    name, equals, values = text.partition("=")
    parts = values.split(",")
    if not name.isidentifier() or not equals or not all(parts):
        raise CommandError(f"--vary takes NAME=VALUE,VALUE,..., not {text!r}")
    found = [value for part in parts for value in _range(part)]
    if len(set(found)) < len(found):
        raise CommandError(f"--vary {name}: a value is given twice in {values!r}")
    return Axis(name, tuple(found))


def _range(text: str) -> list[str]:
    low, dots, high = text.partition("..")
    if not dots:
        return [text]
    if not (low.isdecimal() and high.isdecimal() and int(low) <= int(high)):
        raise CommandError(f"a range is LOW..HIGH of whole numbers, not {text!r}")
    if len(high) > LONGEST or int(high) - int(low) >= MOST_VALUES:
        raise CommandError(f"a range has at most {MOST_VALUES} values, unlike {text[:40]!r}")
    return [str(k) for k in range(int(low), int(high) + 1)]


def expand(block: str, axes: Sequence[Axis]) -> tuple[tuple[str, ...], tuple[LeftOut, ...]]:
    """Every combination that the block's parameters accept, and those that they refuse.

    A name that does not exist is refused, and so is a value that no combination accepts; a
    combination that is refused although its values occur in others is left out.
    """
    resolve(block)
    names = [axis.name for axis in axes]
    if len(set(names)) < len(names):
        raise CommandError(f"--vary names {max(names, key=names.count)} more than once")
    specs, left_out, used = [], {}, set()
    for values in product(*(axis.values for axis in axes)):
        settings = list(zip(names, values, strict=True))
        spec = ",".join([block, *(f"{name}={value}" for name, value in settings)])
        try:
            resolve(spec)
        except UnknownNameError:
            raise
        except ValueError as error:
            left_out[spec] = str(error)
        else:
            specs.append(spec)
            used.update(settings)
    for axis in axes:
        for value in axis.values:
            if (axis.name, value) not in used:
                reason = next(
                    why for spec, why in left_out.items() if f",{axis.name}={value}" in f"{spec},"
                )
                raise CommandError(f"--vary {axis.name}={value}: {reason}")
    return tuple(specs), tuple(LeftOut(spec, why) for spec, why in left_out.items())


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
    ``clock_ps``. The rest is as of :class:`Job` and :func:`run_jobs`.
    """
    if clock_ps is not None and goal is not None:
        raise CommandError("--clock chooses the goal itself: leave out --goal")
    specs, left_out = expand(block, axes)
    jobs = [
        Job(
            spec,
            technology,
            goal=goal or "area",
            clock=clock_ps,
            simulate=simulate_cases,
            energy=energy,
        )
        for spec in specs
        for technology in technologies
    ]
    outcomes = run_jobs(jobs, workers=workers, cluster=cluster, out=out)
    return Sweep(
        results=results_of(jobs, outcomes), left_out=left_out, failures=failures_of(jobs, outcomes)
    )


def run_jobs(
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    cluster: str | None = None,
    out: Path | None = None,
    watch: Callable[[Job, Outcome], None] | None = None,
) -> dict[Job, Outcome]:
    """Run jobs in ``workers`` processes, one for each core by default, or on a ``cluster``.

    ``cluster`` is the address of a Dask scheduler, whose workers must have these sources. Each
    result is written to the folder ``out`` as soon as it is there, and each outcome told ``watch``.
    """
    outcomes: dict[Job, Outcome] = {}
    failed = 0
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    with progress("sweep", len(jobs)) as tick:
        for job, outcome in _run(jobs, workers or available_cores(), cluster):
            outcomes[job] = outcome
            if watch is not None:
                watch(job, outcome)
            if isinstance(outcome, Failure):
                failed += 1
            elif out is not None:
                text = json.dumps(asdict(outcome), indent=2) + "\n"
                tail = f"{job.clock:g}ps" if job.clock is not None else job.goal
                name = f"{resolve(job.spec).slug}.{job.technology}.{tail}.json"
                write_atomic(out / name, text)
            tick(f"{job.spec} {job.technology}" + (f", {failed} failed" if failed else ""))
    return outcomes


def _run(jobs: Sequence[Job], workers: int, cluster: str | None) -> Iterator[tuple[Job, Outcome]]:
    if cluster is None and min(workers, len(jobs)) <= 1:
        yield from ((job, work_out(job)) for job in jobs)
        return
    with _processes(min(workers, len(jobs))) if cluster is None else _on_dask(cluster) as pool:
        futures = {pool.submit(work_out, job): job for job in jobs}
        for future in as_completed(futures):
            job = futures[future]
            try:
                yield job, future.result()
            except BrokenProcessPool:
                yield job, _failure(job, "its process, or that of another variant, has died")
            except Exception as error:  # of the cluster: a worker was lost
                yield job, _failure(job, str(error) or repr(error))


@contextmanager
def _processes(workers: int) -> Iterator[Executor]:
    pool = ProcessPoolExecutor(workers, get_context("spawn"))  # not forked, as there are threads
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _on_dask(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError:
        raise CommandError("--dask needs Dask: pip install 'tilewright[dask]'") from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise CommandError(f"no Dask scheduler answers at {address}: {reason}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            raise CommandError(f"the Dask scheduler at {address} has no workers") from None
        for worker, key in client.run(sources_key).items():
            if key != sources_key():
                raise CommandError(f"worker {worker} has other sources than this machine")
        yield client.get_executor(pure=False)


@cache
def sources_key() -> str:
    """A digest of the package's sources."""
    files = sorted(Path(tilewright.__file__).parent.glob("**/*.py"))
    return content_key(text for path in files for text in (path.name, path.read_text()))


def work_out(job: Job) -> Outcome:
    """Map a variant, and simulate it if that is asked for; its failure stops no other variant."""
    try:
        return _result(job)
    except CheckError as error:
        return _failure(job, f"simulation: {error}")
    except Exception as error:
        return _failure(job, str(error) or repr(error))


def _failure(job: Job, reason: str) -> Failure:
    return Failure(job.spec, job.technology, job.goal, reason.splitlines()[0])


def _result(job: Job) -> Result:
    params, technology = resolve(job.spec), load_technology(job.technology)
    rtlil = to_rtlil(params, memory_macros=True)
    goal, path = "area by modules", None
    if job.by_modules:
        area = area_by_modules(rtlil, params.slug, technology)
        metrics = {
            "area": {"value": round(area.total, 3), "unit": "um2"},
            "memory_area": {"value": round(area.memory, 3), "unit": "um2"},
        }
    else:
        if job.clock is None:
            netlist = synthesise(rtlil, params.slug, technology, Goal(job.goal))
        else:
            netlist = synthesise_for_clock(rtlil, params.slug, technology, job.clock)
        record = block_record(job.spec, params, rtlil, netlist)
        goal, path = netlist.goal.value, record["longest_path"]
        metrics = {
            n: {"value": m["value"], "unit": m["unit"]} for n, m in record["metrics"].items()
        }
        if job.clock is not None:
            metrics["slack"] = {"value": round(job.clock - netlist.delay, 1), "unit": "ps"}
        if job.energy:
            variant = job.variant or pe_bench(params).usual_variant
            found = measure_run(params, netlist, "real", variant)
            metrics["energy"] = {"value": found["total"], "unit": "fJ"}
    simulation = None
    if job.simulate:  # a failure of the bench is the variant's
        numbers = DEFAULT.run(job.spec, cocotb_tests(params), cases=job.simulate)
        counted = {name: numbers.get(name) for name in ("cases", "cycles")}
        simulation = {"simulator": default_simulator(), **counted}
    return Result(
        spec=job.spec,
        technology=job.technology,
        goal=goal,
        parameters=params.as_dict(),
        metrics=metrics,
        rtlil_sha256=sha256(rtlil),
        longest_path=path,
        simulation=simulation,
    )


def known_technologies(chosen: str | None) -> tuple[str, ...]:
    """The technology ``chosen``, which must exist, or all of them."""
    if chosen is None:
        return tuple(TECHNOLOGIES)
    load_technology(chosen)
    return (chosen,)


def results_of(jobs: Sequence[Job], outcomes: dict[Job, Outcome]) -> tuple[Result, ...]:
    """Return the results among the outcomes, in the order of ``jobs``."""
    return tuple(found for job in jobs if isinstance(found := outcomes[job], Result))


def failures_of(jobs: Sequence[Job], outcomes: dict[Job, Outcome]) -> tuple[Failure, ...]:
    """Return the failures among the outcomes, in the order of ``jobs``."""
    return tuple(found for job in jobs if isinstance(found := outcomes[job], Failure))
