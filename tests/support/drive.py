"""Any catalogued block in Amaranth's simulator: driven, stalled, timed and compared.

The bench of the block (``tilewright.bench``) says what goes in and what must come out; the
parameter object says how the ports look and how long results take.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from types import ModuleType

import numpy as np
from amaranth import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.sim import Simulator

from golden.pack import pack, unpack
from golden.params.block import BlockParams, Port
from hw.catalog import CATALOG, build
from hw.unit import Unit

Words = dict[str, list[int]]  # port name -> payloads as they travel on the wires


@dataclass
class Trace:
    """What crossed the ports of one simulation: port name -> one entry per word, in order."""

    words: Words = field(default_factory=dict)  # of the outputs
    given: dict[str, list[int]] = field(default_factory=dict)  # cycle of each output word
    taken: dict[str, list[int]] = field(default_factory=dict)  # cycle of each input word


def bench_of(params: BlockParams) -> ModuleType:
    """The bench module of a block; a block without one is an error."""
    return import_module(f"tilewright.bench.{params.block}")


def catalogued_units() -> list[str]:
    """Blocks whose ports are the streams of their parameters; systems have suites of their own."""

    def component(place: str) -> type:
        module, _, name = place.partition(":")
        return getattr(import_module(module), name)

    return [block for block, place in CATALOG.items() if issubclass(component(place), Unit)]


def simulate(
    params: BlockParams,
    *,
    cases: int,
    stall: float = 0.0,
    seed: int = 1,
    dut: wiring.Component | None = None,
    one_at_a_time: bool = False,
    patient: bool = False,
) -> Trace:
    """Run ``cases`` cases of the block's bench and require the golden results, bit for bit."""
    bench = bench_of(params)
    stimulus = bench.stimulus(params, np.random.default_rng(seed), cases)
    expected = bench.expected(params, stimulus)
    want = {port.name: pack(port, expected[port.name]) for port in params.outputs}
    trace = drive(
        build(params) if dut is None else dut,
        params,
        {port.name: pack(port, stimulus[port.name]) for port in params.inputs},
        {name: len(words) for name, words in want.items()},
        stall=stall,
        seed=seed,
        one_at_a_time=one_at_a_time,
        patient=patient,
    )
    if hasattr(bench, "check"):
        got = {port.name: unpack(port, trace.words[port.name]) for port in params.outputs}
        problem = bench.check(params, stimulus, got)
        assert problem is None, problem
    else:
        for port in params.outputs:
            _require_equal(port, want[port.name], trace.words[port.name])
    return trace


def measured_latency(params: BlockParams, trace: Trace) -> int:
    """Cycles from a taken word to the first result it causes, in a ``one_at_a_time`` run.

    The same for every result, or an ``AssertionError``.
    """
    takes = sorted(cycle for cycles in trace.taken.values() for cycle in cycles)
    latencies = set()
    for cycles in trace.given.values():
        causes = [takes[np.searchsorted(takes, cycle, side="right") - 1] for cycle in cycles]
        first = {cause: cycle for cycle, cause in zip(cycles[::-1], causes[::-1], strict=True)}
        latencies |= {cycle - cause for cause, cycle in first.items()}
    assert len(latencies) == 1, f"{params.slug}: latency varies: {sorted(latencies)}"
    return latencies.pop()


def require_interval(params: BlockParams, trace: Trace) -> None:
    """Require the stated average distance of results in a run without stalls.

    A fractional interval may be off by less than one cycle over the whole run, never more.
    """
    for name, cycles in trace.given.items():
        steps, span = len(cycles) - 1, cycles[-1] - cycles[0]
        assert steps > 0, f"{params.slug}.{name}: one result has no interval"
        off = abs(span - steps * params.timing.interval)
        assert off < 1, (
            f"{params.slug}.{name}: interval {Fraction(span, steps)}, not {params.timing.interval}"
        )


def drive(
    dut: wiring.Component,
    params: BlockParams,
    inputs: Words,
    counts: dict[str, int],
    *,
    stall: float = 0.0,
    seed: int = 1,
    one_at_a_time: bool = False,
    patient: bool = False,
) -> Trace:
    """Send ``inputs`` and collect ``counts`` words per output.

    Each cycle a source with no offer pending starts one, and a sink is ready, with probability
    1 - ``stall``. A payload that is not valid is random. ``one_at_a_time`` lets the unit run
    empty before the inputs offer their next word. ``patient`` sinks are ready only for a word
    that has waited, so a unit whose valid waits for ready gets nowhere. Required on the way: an
    offered word stays until taken, and nothing comes out beyond ``counts``.
    """
    rng = np.random.default_rng(seed)
    trace = Trace(
        words={name: [] for name in counts},
        given={name: [] for name in counts},
        taken={name: [] for name in inputs},
    )
    sources = [_Source(getattr(dut, p.name), p, inputs[p.name]) for p in params.inputs]
    sinks = [getattr(dut, p.name) for p in params.outputs]
    probes = [s.port.ready for s in sources]
    for sink in sinks:
        probes += [sink.valid, sink.payload.as_value()]
    words = max(len(w) for w in inputs.values())
    settle = 4 + params.timing.latency + int(params.timing.interval)  # cycles to run empty
    limit = 200 + int((words + sum(counts.values())) * (settle + 4) / (1 - stall) ** 2)

    async def bench(ctx):
        waiting: dict[str, int] = {}  # output -> the word it offered and could not give
        quiet = 0  # cycles since anything moved
        for cycle in range(limit):
            for source in sources:
                may_start = rng.random() >= stall
                if one_at_a_time:
                    # All sources start together, or a join would never run empty.
                    may_start = quiet > settle or cycle == 0
                source.offer(ctx, may_start, rng)
            ready = rng.random(len(sinks)) >= stall
            if patient:
                ready &= [port.name in waiting for port in params.outputs]
            for sink, r in zip(sinks, ready, strict=True):
                ctx.set(sink.ready, int(r))
            _, _, *sample = await ctx.tick().sample(*probes)
            quiet += 1
            for source, accepted in zip(sources, sample, strict=False):
                if source.offering and accepted:
                    source.advance()
                    trace.taken[source.name].append(cycle)
                    quiet = 0
            outcomes = zip(sample[len(sources) :: 2], sample[len(sources) + 1 :: 2], strict=True)
            for port, r, (valid, word) in zip(params.outputs, ready, outcomes, strict=True):
                name = port.name
                if name in waiting:
                    assert valid, f"{params.slug}.{name}: cycle {cycle} withdraws an offered word"
                    assert word == waiting[name], (
                        f"{params.slug}.{name}: cycle {cycle} changes an offered word "
                        f"from {waiting[name]:#x} to {word:#x}"
                    )
                waiting.pop(name, None)
                if valid and r:
                    trace.words[name].append(word)
                    trace.given[name].append(cycle)
                    quiet = 0
                elif valid:
                    waiting[name] = word
            arrived = {name: len(words) for name, words in trace.words.items()}
            assert all(arrived[name] <= count for name, count in counts.items()), (
                f"{params.slug}: cycle {cycle} gives more than the expected {counts} words"
            )
            if arrived == counts and quiet > settle and not any(s.pending for s in sources):
                return
        progress = {name: f"{len(trace.words[name])} of {count}" for name, count in counts.items()}
        taken = {s.name: f"{s.sent} of {len(s.words)}" for s in sources}
        raise TimeoutError(
            f"{params.slug}: after {limit} cycles took {taken}, gave {progress} words"
        )

    top = Module()
    top.domains.sync = ClockDomain()  # a combinational unit has no clock of its own
    top.submodules.dut = dut
    simulator = Simulator(top)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    return trace


class _Source:
    """Offers the words of one input in order; an offer stands until it is taken."""

    def __init__(self, port, declared: Port, words: list[int]):
        self.port, self.name, self.bits, self.words = port, declared.name, declared.bits, words
        self.sent, self.offering = 0, False

    @property
    def pending(self) -> bool:
        return self.sent < len(self.words)

    def offer(self, ctx, may_start: bool, rng: np.random.Generator) -> None:
        self.offering = self.pending and (self.offering or may_start)
        junk = int.from_bytes(rng.bytes(-(-self.bits // 8)), "little") % (1 << self.bits)
        ctx.set(self.port.valid, int(self.offering))
        ctx.set(self.port.payload.as_value(), self.words[self.sent] if self.offering else junk)

    def advance(self) -> None:
        self.sent, self.offering = self.sent + 1, False


def _require_equal(port: Port, want: list[int], got: list[int]) -> None:
    for case, (w, g) in enumerate(zip(want, got, strict=True)):
        assert w == g, f"port {port.name}, case {case}: got {g:#x}, expected {w:#x}"
