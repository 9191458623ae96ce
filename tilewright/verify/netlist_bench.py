"""A mapped netlist under the parts of a bench, without a simulator: for counting toggles.

The parts see a ``dut`` with the wires of every port and a clock, as cocotb shows them; a clock edge
is one step of :class:`tilewright.synth.activity.Simulator`. Programs of a bench run to their end in
:func:`run_program`.
"""

from collections.abc import Coroutine, Generator, Sequence
from types import SimpleNamespace
from typing import Any

from tilewright.synth.activity import RESET_CYCLES, Activity, Simulator
from tilewright.synth.netlist import Netlist
from tilewright.verify.streams import Harness, Part


class Wire:
    """A port of the netlist, as the parts of a bench read and set it."""

    def __init__(self, name: str, bits: int):
        self._name, self.bits, self.value = name, bits, 0

    def __len__(self) -> int:
        return self.bits


class NetlistBench(Harness):
    """Clock and reset of a netlist; toggles count from :meth:`count` until :meth:`counted`.

    A payload that is not valid stays as it was: the random bits that a bench puts there would cost
    energy that a real neighbour would not.
    """

    def __init__(self, netlist: Netlist):
        self.cycle = self.quiet = 0
        self.parts: Sequence[Part] = ()
        self._inputs = {name: Wire(name, len(nets)) for name, nets in netlist.inputs.items()}
        self._outputs = {name: Wire(name, len(nets)) for name, nets in netlist.outputs.items()}
        self.dut = SimpleNamespace(**self._inputs, **self._outputs)
        self._edge: Any = _Edge(self)  # awaited as cocotb's triggers are
        self._simulator = Simulator(netlist)
        self._ignored = self._counters = self._simulator.counters()
        self._cycles = 0  # since counters are on
        self._shown = {name: (0, [0] * wire.bits) for name, wire in self._inputs.items()}

    async def reset(self, parts: Sequence[Part] = (), *, at_once: bool = False) -> None:
        self.dut.rst.value = 1
        for _ in range(RESET_CYCLES):
            self.step()
        self.dut.rst.value = 0
        self._begin(parts, at_once)
        if not at_once:
            self.step()

    def step(self) -> None:
        """One cycle with the inputs as they are."""
        values = {name: self._bits(name, wire) for name, wire in self._inputs.items()}
        for name, bits in self._simulator.step(values, self._counters).items():
            self._outputs[name].value = sum(bit << k for k, bit in enumerate(bits))
        self._cycles += 1

    def _bits(self, name: str, wire: Wire) -> Sequence[int]:
        value, bits = self._shown[name]
        port = name.removesuffix("__payload")
        unused = port != name and not self._inputs[f"{port}__valid"].value
        if wire.value != value and not unused:
            bits = [wire.value >> k & 1 for k in range(wire.bits)]
            self._shown[name] = wire.value, bits
        return bits

    def count(self) -> None:
        """Count toggles from the next cycle on."""
        self._counters, self._cycles = self._simulator.counters(), 0

    def counted(self) -> Activity:
        """Return the counted activity and stop counting."""
        activity = self._simulator.activity(self._counters, self._cycles)
        self._counters = self._ignored
        return activity


class _Edge:
    """Awaitable that advances the clock a cycle."""

    def __init__(self, bench: NetlistBench):
        self.bench = bench

    def __await__(self) -> Generator[None, None, None]:
        self.bench.step()
        yield from ()


def run_program(program: Coroutine[Any, Any, Any]) -> Any:
    """Run ``program``, which waits for nothing but clock edges; returns its result."""
    try:
        program.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("the program waits for something other than the clock")
