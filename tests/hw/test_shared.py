"""Equal components: one module in the emitted design, one each in simulation."""

from amaranth import Module, Signal
from amaranth.back import rtlil
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from tilewright.hw.shared import Shared, SharedModules

PORTS = wiring.Signature({"x": In(4), "y": Out(4)})


class Delay(wiring.Component):
    def __init__(self, *, resets: bool):
        self.resets = resets
        super().__init__(PORTS)

    def elaborate(self, platform):
        m = Module()
        held = Signal(4, reset_less=not self.resets)
        m.d.sync += held.eq(self.x)
        m.d.comb += self.y.eq(held)
        return m


class Invert(wiring.Component):
    def __init__(self):
        super().__init__(PORTS)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.y.eq(~self.x)
        return m


class Chain(wiring.Component):
    """Three delays and an inverter."""

    x: In(4)
    y: Out(4)

    def elaborate(self, platform):
        m = Module()
        value = self.x
        kinds = [("delay", lambda: Delay(resets=True))] * 2
        kinds += [("plain", lambda: Delay(resets=False)), ("invert", Invert)]
        for k, (name, make) in enumerate(kinds):
            m.submodules[f"part_{k}"] = part = Shared(name, PORTS, make)
            m.d.comb += part.x.eq(value)
            value = part.y
        m.d.comb += self.y.eq(value)
        return m


def test_each_kind_is_emitted_once():
    platform = SharedModules()
    top = rtlil.convert(Chain(), name="top", platform=platform, emit_src=False)
    assert list(platform.modules) == ["delay", "plain", "invert"]
    assert top.count("cell \\delay ") == 2
    # The inverter has neither.
    assert top.count("connect \\clk ") == top.count("connect \\rst ") == 3


def test_simulation_has_a_component_each():
    dut = Chain()
    seen = []

    async def bench(ctx):
        for value in (1, 2, 3, 4, 5):
            ctx.set(dut.x, value)
            await ctx.tick()
            seen.append(ctx.get(dut.y))

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert seen[2:] == [15 - 1, 15 - 2, 15 - 3]
