"""Amaranth's simulator with one clock and one testbench."""

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

from amaranth.hdl import Elaboratable
from amaranth.sim import Simulator

from tests.support.drive import Prepared, run_to_end


def run(dut: Elaboratable | Prepared, bench: Callable[..., Awaitable[None]]) -> None:
    """Run ``bench(ctx)`` to its end; ``ctx.tick()`` is one cycle."""
    if isinstance(dut, Prepared):
        dut.run(bench)
        return
    simulator = Simulator(dut)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    run_to_end(simulator)


@lru_cache(maxsize=2)
def prepared(unit: Callable[[Any], Elaboratable], params: Any) -> Prepared:
    """``unit(params)``, elaborated once for all runs that follow each other in this process."""
    return Prepared(unit(params))
