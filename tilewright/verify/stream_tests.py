"""The cocotb test of every block that only has streams: golden results, stream rules, timing.

Timing is the stated latency and interval, or every cycle of the bench's cycle model.
"""

import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cocotb
import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.block import BlockParams, Field, Port
from tilewright.golden.payload import pack, unpack
from tilewright.verify import job, stream_bench_of
from tilewright.verify.bench import PortColumns, checked_columns
from tilewright.verify.streams import Harness, StreamDriver, StreamMonitor

ALONE_CASES = 12  # cases that pass through one at a time, to measure the latency
SHOWN = 8  # differing elements in a message
SLOW = 0.95  # a consumer that is ready this rarely makes results wait for groups on end
SETTLE = 40  # cycles past the last word of a block with a cycle model: no other may follow


@dataclass(frozen=True)
class Phase:
    """One pass of cases through the block."""

    name: str
    stall: float = 0.0  # how often each input waits,
    slow: float = 0.0  # and each output
    alone: bool = False  # the next case enters when nothing moves any more
    patient: bool = False  # the consumer is ready only for a word that waits

    @property
    def steady(self) -> bool:
        return not (self.stall or self.slow or self.alone or self.patient)


@dataclass
class Data:
    """Cases of a block: inputs as columns, and the words of inputs and expected outputs."""

    inputs: PortColumns
    sent: dict[str, list[int]]
    wanted: dict[str, list[int]]


def prepare(params: BlockParams, inputs: PortColumns) -> Data:
    """Compute the results of ``inputs``, and pack both sides into words."""
    inputs = checked_columns(params, params.inputs, inputs)
    expected = stream_bench_of(params).expected(params, inputs)
    outputs = checked_columns(params, params.outputs, expected)
    sent = {port.name: pack(port, inputs[port.name]) for port in params.inputs}
    wanted = {port.name: pack(port, outputs[port.name]) for port in params.outputs}
    return Data(inputs, sent, wanted)


@cocotb.test
async def equals_golden(dut: Any) -> None:
    asked, clock = job.load(), Harness(dut)
    params = asked.params
    bench = stream_bench_of(params)
    if asked.exhaustive:
        inputs = bench.exhaustive(params)
    else:
        inputs = bench.stimulus(params, np.random.default_rng(asked.seed), asked.cases)
    cycles, seconds = 0, 0.0
    cases = asked.cases
    if not bench.timed:
        cases = len(next(iter(next(iter(inputs.values())).values())))
    for phase, data in passes(params, inputs, asked.stalls):
        start = time.perf_counter()
        try:
            await run_phase(clock, params, phase, data, asked.seed)
        except AssertionError as problem:
            raise AssertionError(f"{params.slug}, {phase.name}: {problem}") from None
        finally:
            cycles += clock.cycle
            seconds += time.perf_counter() - start
            job.report(cases=cases, cycles=cycles, seconds=seconds)


def passes(
    params: BlockParams, inputs: PortColumns, stalls: Sequence[float]
) -> Iterator[tuple[Phase, Data]]:
    """Every phase of a run with its cases."""
    whole, patient = prepare(params, inputs), Phase("ready after valid", patient=True)
    stalled = [(Phase(f"stall {stall:g}", stall, stall), whole) for stall in stalls]
    if stream_bench_of(params).timed:  # whose words belong together
        yield from [*stalled, (patient, whole), (Phase("slow consumer", slow=SLOW), whole)]
        return
    heads = {
        port: {name: values[:ALONE_CASES] for name, values in columns.items()}
        for port, columns in inputs.items()
    }
    few = prepare(params, heads)
    yield from [(Phase("one at a time", alone=True), few), (patient, few), *stalled]


async def run_phase(
    clock: Harness, params: BlockParams, phase: Phase, data: Data, seed: int
) -> None:
    """Pass the cases through and compare."""
    bench = stream_bench_of(params)
    most = {name: most_words(words) for name, words in data.wanted.items()}
    drivers, monitors = await pass_through(clock, params, phase, data.sent, most, seed)
    for port in params.outputs:
        problem = difference(params, data, port, monitors[port.name].words)
        assert problem is None, problem
    if phase.alone:
        require_latency(params, drivers, monitors)
    elif phase.steady and bench.timed:
        timed = [driver for name, driver in drivers.items() if name not in bench.first]
        require_cycles(bench.cycles(params, data.inputs), timed, monitors)
    elif phase.steady:
        require_interval(params, monitors)


async def pass_through(
    clock: Harness,
    params: BlockParams,
    phase: Phase,
    sent: dict[str, list[int]],
    most: dict[str, int],
    seed: int,
) -> tuple[dict[str, StreamDriver], dict[str, StreamMonitor]]:
    """Send all words, until no more words arrive; ``most`` words at each output."""
    bench = stream_bench_of(params)
    settle = SETTLE
    if not bench.timed:
        settle = 4 + params.timing.latency + int(params.timing.interval)
    drivers = {
        port.name: StreamDriver(clock.dut, port.name, stall=phase.stall, seed=seed)
        for port in params.inputs
    }
    options: dict[str, Any] = {"stall": phase.slow, "seed": seed, "patient": phase.patient}
    monitors = {
        port.name: StreamMonitor(clock.dut, port.name, most=most[port.name], **options)
        for port in params.outputs
    }
    for number, words in enumerate(_batches(sent, bench.first, phase.alone)):
        for name, of_port in words.items():
            drivers[name].send(of_port)
        if number == 0:
            await clock.reset([*drivers.values(), *monitors.values()], at_once=not phase.alone)
        clock.quiet = 0
        # Some cycles past the last word: nothing more may arrive. First words are only taken.
        least = 0 if words.keys() == set(bench.first) else settle + 1
        await clock.run(
            lambda: (
                clock.quiet >= least  # noqa: B023
                and all(driver.idle for driver in drivers.values())
                and not any(monitor.waiting for monitor in monitors.values())
            )
        )
    return drivers, monitors


def most_words(wanted: list[int]) -> int:
    """So many that the block will not stop; some too many are for the comparison to show."""
    return 4 * len(wanted) + 64


def _batches(
    sent: dict[str, list[int]], first: tuple[str, ...], alone: bool
) -> Iterator[dict[str, list[int]]]:
    if first:
        yield {name: sent[name] for name in first}
    if not alone:
        yield {name: words for name, words in sent.items() if name not in first}
        return
    for k in range(max(map(len, sent.values()))):
        yield {name: words[k : k + 1] for name, words in sent.items()}


def difference(params: BlockParams, data: Data, port: Port, got: list[int]) -> str | None:
    """The first wrong word of an output: in hex, field by field, with the inputs of that case."""
    wanted = data.wanted[port.name]
    pairs = enumerate(zip(got, wanted, strict=False))
    case = next((k for k, (have, want) in pairs if have != want), None)
    if case is None:
        if len(got) == len(wanted):
            return None
        return f"port {port.name} gave {len(got)} words, expected {len(wanted)}"
    digits = -(-port.bits // 4)
    lines = [
        f"port {port.name}, case {case}:"
        f" got 0x{got[case]:0{digits}x}, expected 0x{wanted[case]:0{digits}x}"
    ]
    have, want = unpack(port, [got[case]]), unpack(port, [wanted[case]])
    for field in port.fields:
        got_of, wanted_of = (np.atleast_1d(x[field.name][0]) for x in (have, want))
        for k in np.flatnonzero(got_of != wanted_of):
            name = field.name if field.count is None else f"{field.name}[{k}]"
            shown = _hex(field, got_of[k]), _hex(field, wanted_of[k])
            lines.append(f"  {name}: got {shown[0]}, expected {shown[1]}")
    if len(lines) > 1 + SHOWN:
        lines[1 + SHOWN :] = [f"  and {len(lines) - 1 - SHOWN} more elements"]
    # Where one word in makes one word out, the case has inputs of its own.
    for source in params.inputs:
        if len(data.sent[source.name]) == len(wanted):
            row = {f.name: data.inputs[source.name][f.name][case] for f in source.fields}
            lines += [f"  {source.name}.{f.name} = {_show(f, row[f.name])}" for f in source.fields]
    return "\n".join(lines)


def _show(field: Field, value: Any) -> str:
    if field.count is None:
        return _hex(field, value)
    return " ".join(_hex(field, element) for element in value) + " (element 0 first)"


def _hex(field: Field, value: int) -> str:
    return f"0x{int(value) & ((1 << field.bits) - 1):0{-(-field.bits // 4)}x}"


def require_latency(
    params: BlockParams, drivers: dict[str, StreamDriver], monitors: dict[str, StreamMonitor]
) -> None:
    """Require the stated cycles from the last word taken to the first word it causes."""
    takes = sorted(cycle for driver in drivers.values() for cycle in driver.taken)
    for name, monitor in monitors.items():
        first: dict[int, int] = {}  # cycle of the cause -> cycle of its first result
        for cycle in monitor.given:
            first.setdefault(takes[bisect_right(takes, cycle) - 1], cycle)
        for cause, cycle in first.items():
            assert cycle - cause == params.timing.latency, (
                f"port {name} answered after {cycle - cause} cycles,"
                f" stated latency {params.timing.latency}"
            )


def require_interval(params: BlockParams, monitors: dict[str, StreamMonitor]) -> None:
    """Require the stated distance of results; a fractional one rounds to either side."""
    interval = params.timing.interval * stream_bench_of(params).result_beats(params)
    for name, monitor in monitors.items():
        for k, cycle in enumerate(monitor.given):
            span = cycle - monitor.given[0]
            assert abs(span - k * interval) < 1, (
                f"port {name} gave result {k} after {span} cycles,"
                f" stated interval {interval} (so {float(k * interval):g})"
            )


def require_cycles(
    wanted: NDArray[np.int64], drivers: list[StreamDriver], monitors: dict[str, StreamMonitor]
) -> None:
    """Require each result in the cycle that the cycle model gives."""
    start = drivers[0].taken[0]
    given = next(iter(monitors.values())).given
    for k, (cycle, want) in enumerate(zip(given, wanted.tolist(), strict=True)):
        assert cycle - start == want, (
            f"result {k} came in cycle {cycle - start}, the model says {want}"
        )
