"""Amaranth's simulator with one clock and one testbench."""

from collections.abc import Awaitable, Callable

from amaranth.hdl import Elaboratable
from amaranth.sim import Simulator


def run(dut: Elaboratable, bench: Callable[..., Awaitable[None]]) -> None:
    """Run ``bench(ctx)`` to its end; ``ctx.tick()`` is one cycle."""
    simulator = Simulator(dut)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
