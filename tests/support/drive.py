"""Any catalogued block in Amaranth's simulator: driven, stalled, timed and compared.

The bench of the block (``tilewright.verify``) says what goes in and what must come out; the
parameter object says how the ports look and how long results take.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from amaranth import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.sim import Simulator

from tilewright.golden.params.block import BlockParams, Port
from tilewright.golden.params.resolve import BLOCKS
from tilewright.golden.payload import pack, unpack
from tilewright.hw.catalog import CATALOG, build
from tilewright.verify import bench_of, stream_bench_of
from tilewright.verify.bench import StreamBench

MOST_CYCLES = 200_000  # of a bench: far more than one takes that ends

Words = dict[str, list[int]]  # port name -> payloads as they travel on the wires


@dataclass(frozen=True)
class Trace:
    """What crossed the ports of one simulation: port name -> one entry per word, in order."""

    words: Words  # of the outputs
    given: dict[str, list[int]]  # cycle of each output word
    taken: dict[str, list[int]]  # cycle of each input word


def catalogued_units() -> list[str]:
    """Return the blocks of the test matrix; systems and large blocks have suites of their own."""
    benches = {block: bench_of(BLOCKS[block]()) for block in CATALOG}
    return [b for b, bench in benches.items() if isinstance(bench, StreamBench) and bench.in_matrix]


def simulate(
    params: BlockParams,
    *,
    cases: int,
    stall: float = 0.0,
    seed: int = 1,
    dut: "wiring.Component | Prepared | None" = None,
    one_at_a_time: bool = False,
    patient: bool = False,
) -> Trace:
    """Run ``cases`` cases of the block's bench and require the golden results, bit for bit."""
    bench = stream_bench_of(params)
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
    if bench.has_check:
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
    interval = params.timing.interval * stream_bench_of(params).result_beats(params)
    for name, cycles in trace.given.items():
        steps, span = len(cycles) - 1, cycles[-1] - cycles[0]
        assert steps > 0, f"{params.slug}.{name}: one result has no interval"
        off = abs(span - steps * interval)
        assert off < 1, f"{params.slug}.{name}: interval {Fraction(span, steps)}, not {interval}"


def run_to_end(simulator: Simulator) -> None:
    """Run the benches of ``simulator`` to their ends; one that waits for ever fails."""
    for _ in range(2 * MOST_CYCLES):  # an edge of the clock each
        if not simulator.advance():
            return
    raise TimeoutError(f"no end in {MOST_CYCLES} cycles")


class Prepared:
    """A unit in a simulator that can run again: to elaborate one takes longer than most runs."""

    def __init__(self, dut: wiring.Component):
        self.dut = dut
        self._simulator: Simulator | None = None
        self._bench: Callable[..., Awaitable[None]] | None = None

    def run(self, bench: Callable[..., Awaitable[None]]) -> None:
        """Run ``bench(ctx)`` to its end, from the state after power-up."""
        simulator, self._simulator = self._simulator, None
        if simulator is None:
            simulator = self._elaborated()
        else:
            simulator.reset()
        self._bench = bench
        run_to_end(simulator)
        self._simulator = simulator  # not reached by a run that failed: its state is unknown

    def _elaborated(self) -> Simulator:
        top = Module()
        top.domains.sync = ClockDomain()  # a combinational unit has no clock of its own
        top.submodules.dut = self.dut
        simulator = Simulator(top)
        simulator.add_clock(1e-9)
        simulator.add_testbench(self._testbench)
        return simulator

    async def _testbench(self, ctx) -> None:
        assert self._bench is not None
        await self._bench(ctx)


def drive(
    dut: wiring.Component | Prepared,
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
    prepared = dut if isinstance(dut, Prepared) else Prepared(dut)
    dut = prepared.dut
    sources = [_Source(getattr(dut, p.name), p, inputs[p.name]) for p in params.inputs]
    sinks = [_Sink(getattr(dut, p.name), f"{params.slug}.{p.name}") for p in params.outputs]
    names = [p.name for p in params.outputs]
    probes = [source.port.ready for source in sources]
    for sink in sinks:
        probes += [sink.port.valid, sink.port.payload.as_value()]
    settle = 4 + params.timing.latency + int(params.timing.interval)  # cycles to run empty
    words = sum(map(len, inputs.values())) + sum(counts.values())
    limit = 200 + int(words * (settle + 4) / (1 - stall) ** 2)

    async def bench(ctx):
        quiet = 0  # cycles since anything moved
        for cycle in range(limit):
            # One at a time, all sources start together: a join would never run empty otherwise.
            together = quiet > settle or cycle == 0
            for source in sources:
                source.offer(ctx, together if one_at_a_time else rng.random() >= stall, rng)
            for sink in sinks:
                willing = not patient or sink.waiting is not None
                sink.demand(ctx, willing and rng.random() >= stall)
            _, _, *sample = await ctx.tick().sample(*probes)
            moved = [s.observe(cycle, sample.pop(0)) for s in sources]
            moved += [s.observe(cycle, sample.pop(0), sample.pop(0)) for s in sinks]
            quiet = 0 if any(moved) else quiet + 1
            arrived = {name: len(sink.words) for name, sink in zip(names, sinks, strict=True)}
            assert all(arrived[name] <= counts[name] for name in names), (
                f"{params.slug}: cycle {cycle} gives more than the expected {counts} words"
            )
            if arrived == counts and quiet > settle and not any(s.pending for s in sources):
                return
        took = {s.name: f"{len(s.taken)} of {len(s.words)}" for s in sources}
        gave = {name: f"{arrived[name]} of {counts[name]}" for name in names}
        raise TimeoutError(f"{params.slug}: after {limit} cycles took {took}, gave {gave} words")

    prepared.run(bench)
    return Trace(
        words={name: sink.words for name, sink in zip(names, sinks, strict=True)},
        given={name: sink.given for name, sink in zip(names, sinks, strict=True)},
        taken={source.name: source.taken for source in sources},
    )


class _Source:
    """Offers the words of one input in order; an offer stands until it is taken."""

    def __init__(self, port, declared: Port, words: list[int]):
        self.port, self.name, self.bits, self.words = port, declared.name, declared.bits, words
        self.taken: list[int] = []  # cycles
        self.offering = False

    @property
    def pending(self) -> bool:
        return len(self.taken) < len(self.words)

    def offer(self, ctx, may_start: bool, rng: np.random.Generator) -> None:
        self.offering = self.pending and (self.offering or may_start)
        junk = int.from_bytes(rng.bytes(-(-self.bits // 8)), "little") % (1 << self.bits)
        word = self.words[len(self.taken)] if self.offering else junk
        ctx.set(self.port.valid, int(self.offering))
        ctx.set(self.port.payload.as_value(), word)

    def observe(self, cycle: int, ready: int) -> bool:
        """Whether a word was taken in ``cycle``."""
        moved = self.offering and bool(ready)
        if moved:
            self.taken.append(cycle)
            self.offering = False
        return moved


class _Sink:
    """Takes the words of one output and watches that offers stand."""

    def __init__(self, port, name: str):
        self.port, self.name = port, name
        self.words: list[int] = []
        self.given: list[int] = []  # cycles
        self.waiting: int | None = None  # offered, not taken
        self.ready = False

    def demand(self, ctx, ready: bool) -> None:
        self.ready = ready
        ctx.set(self.port.ready, int(ready))

    def observe(self, cycle: int, valid: int, word: int) -> bool:
        """Whether a word was given in ``cycle``."""
        if self.waiting is not None:
            assert valid, f"{self.name}: cycle {cycle} withdraws an offered word"
            assert word == self.waiting, (
                f"{self.name}: cycle {cycle} changes an offered word "
                f"from {self.waiting:#x} to {word:#x}"
            )
        self.waiting = word if valid and not self.ready else None
        if not (valid and self.ready):
            return False
        self.words.append(word)
        self.given.append(cycle)
        return True


def _require_equal(port: Port, want: list[int], got: list[int]) -> None:
    for case, (w, g) in enumerate(zip(want, got, strict=True)):
        assert w == g, f"port {port.name}, case {case}: got {g:#x}, expected {w:#x}"
