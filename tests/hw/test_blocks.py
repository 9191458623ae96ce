"""Every unit of the catalogue in Amaranth's simulator, under the bench that drives its Verilog."""

import pytest

from tests.support.drive import Prepared, catalogued_units, simulate
from tilewright.golden.params.arith import ARITH_BLOCKS
from tilewright.golden.params.resolve import BLOCKS, resolve
from tilewright.hw.catalog import build

# Seconds each; the accelerators in tests/verify/test_accelerators.py have such vector units.
LONG = [f"anda_vector:{name}" for name in ("attends", "fused", "paced", "paced_fused")]
# Small and registered elements have other arrangements in every run: tests/hw/test_pe.py.
SHARED = ("pe_fp_fp", "pe_fp_int", "pe_ifpu", "pe_figna", "pe_figna_c")
LONG += [f"{element}:{name}" for element in SHARED for name in ("small", "registered")]
# The first preset of each block is in every run as Verilog: tests/verify/test_blocks.py.
FIRST = {f"{block}:{next(iter(BLOCKS[block].PRESETS))}" for block in catalogued_units()}
PRESETS = [
    pytest.param(name, marks=pytest.mark.full if name in FIRST.union(LONG) else ())
    for block in catalogued_units()
    for name in (f"{block}:{preset}" for preset in BLOCKS[block].PRESETS)
]


@pytest.mark.parametrize("stalls", [(0.0, 0.3), pytest.param((0.8,), marks=pytest.mark.full)])
@pytest.mark.parametrize("name", PRESETS)
def test_unit_equals_golden(name, stalls):
    """In the cycles that its parameters state, where nothing stalls."""
    simulate(resolve(name), cases=40 if 0.0 in stalls else 30, stalls=stalls)


@pytest.mark.parametrize(
    "latency", [*(pytest.param(n, marks=pytest.mark.full) for n in (1, 2, 3)), 7]
)
@pytest.mark.parametrize("block", [cls.block for cls in ARITH_BLOCKS])
def test_any_latency_gives_the_same_results(block, latency):
    simulate(BLOCKS[block].preset(latency=latency), cases=40)


def test_a_unit_runs_again_as_if_it_were_new():
    """From power-up, whatever it did before; also after a run that failed."""
    params = resolve("queue:tiny")
    prepared = Prepared(build(params))

    async def stopped(ctx):
        ctx.set(prepared.dut.i.valid, 1)
        await ctx.tick()
        raise KeyError

    for _ in range(2):
        simulate(params, cases=30, dut=prepared)
        with pytest.raises(KeyError):
            prepared.run(stopped)
