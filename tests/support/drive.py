"""Any catalogued block in Amaranth's simulator, under the bench that also drives its Verilog."""

from collections.abc import Awaitable, Callable, Generator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from amaranth import ClockDomain, Module, Value
from amaranth.lib import wiring
from amaranth.sim import Simulator

from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.resolve import BLOCKS
from tilewright.hw.catalog import CATALOG, build
from tilewright.verify import bench_of, stream_bench_of
from tilewright.verify.bench import StreamBench
from tilewright.verify.stream_tests import Phase, most_words, pass_through, passes, run_phase
from tilewright.verify.streams import Harness, Part, StreamDriver, StreamMonitor

MOST_CYCLES = 200_000  # of a bench: far more than one takes that ends


def catalogued_units() -> list[str]:
    """Return the blocks of the test matrix; systems and large blocks have suites of their own."""
    benches = {block: bench_of(BLOCKS[block]()) for block in CATALOG}
    return [b for b, bench in benches.items() if isinstance(bench, StreamBench) and bench.in_matrix]


def simulate(
    params: BlockParams,
    *,
    cases: int,
    stalls: Sequence[float] = (0.0,),
    dut: "wiring.Component | Prepared | None" = None,
) -> None:
    """Run every phase of the block's bench: golden results, rules of streams, timing."""
    inputs = stream_bench_of(params).stimulus(params, np.random.default_rng(1), cases)
    unit = _prepared(params, dut)
    for phase, data in passes(params, inputs, stalls):

        async def bench(ctx: Any, phase: Phase = phase, data: Any = data) -> None:
            await run_phase(SimulatorHarness(ctx, unit.dut, params), params, phase, data, 1)

        unit.run(bench)


def drive(
    params: BlockParams,
    inputs: dict[str, list[int]],
    *,
    stall: float = 0.0,
    dut: "wiring.Component | Prepared | None" = None,
) -> tuple[StreamDriver, StreamMonitor]:
    """Send these words through a block of one input and one output, which share its timing."""
    unit, found = _prepared(params, dut), []
    most = {port.name: most_words(next(iter(inputs.values()))) for port in params.outputs}

    async def bench(ctx: Any) -> None:
        clock, phase = SimulatorHarness(ctx, unit.dut, params), Phase("", stall, stall)
        found.extend(await pass_through(clock, params, phase, inputs, most, 1))

    unit.run(bench)
    (driver,), (monitor,) = (ports.values() for ports in found)
    return driver, monitor


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


def _prepared(params: BlockParams, dut: "wiring.Component | Prepared | None") -> Prepared:
    dut = build(params) if dut is None else dut
    return dut if isinstance(dut, Prepared) else Prepared(dut)


class _Wire:
    """A signal as the parts of a bench read and set it."""

    def __init__(self, signal: Any):
        self.signal = Value.cast(signal)
        self.value = self.set = 0

    def __len__(self) -> int:
        return len(self.signal)


class SimulatorHarness(Harness):
    """Parts of a bench around a unit in Amaranth's simulator, which begins as after power-up."""

    def __init__(self, ctx: Any, dut: wiring.Component, params: BlockParams):
        self.cycle = self.quiet = 0
        self.parts: Sequence[Part] = ()
        self._ctx, self._edge = ctx, _Edge(self)
        self._inputs, self._outputs, wires = [], [], {}
        for port in (*params.inputs, *params.outputs):
            stream = getattr(dut, port.name)
            of_port = {n: _Wire(getattr(stream, n)) for n in ("valid", "payload", "ready")}
            wires |= {f"{port.name}__{name}": wire for name, wire in of_port.items()}
            *word, ready = of_port.values()
            is_input = port in params.inputs
            self._inputs += word if is_input else [ready]
            self._outputs += [ready] if is_input else word
        self.dut = SimpleNamespace(**wires)

    async def reset(self, parts: Sequence[Part] = (), *, at_once: bool = False) -> None:
        self._begin(parts, at_once)

    async def step(self) -> None:
        for wire in self._inputs:
            if wire.set != wire.value:
                self._ctx.set(wire.signal, wire.value)
                wire.set = wire.value
        _, _, *values = await self._ctx.tick().sample(*(wire.signal for wire in self._outputs))
        for wire, value in zip(self._outputs, values, strict=True):
            wire.value = value


class _Edge:
    """Awaited, the clock has gone on by a cycle."""

    def __init__(self, harness: SimulatorHarness):
        self.harness = harness

    def __await__(self) -> Generator[Any, Any, None]:
        return self.harness.step().__await__()
