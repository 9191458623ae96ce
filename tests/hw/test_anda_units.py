"""Compressor, APU and MXU as emitted Verilog: golden bits, every M, stalls, exact cycles."""

import re

import numpy as np
import pytest
from amaranth.back import rtlil

from tests.support.benches import run_changed_block, run_on_both, run_passing
from tests.support.gates import Gates, from_planes, to_planes
from tests.support.mutate import mutant, plant, planted, read_errors
from tilewright.golden.arith import add
from tilewright.golden.params.anda import ANDA_BLOCKS, AndaApuParams, AndaMxuParams, AndaNumerics
from tilewright.golden.params.formats import BF16, FP32
from tilewright.hw.arith.accumulate import HIGHEST, LOWEST, Accumulate

CASES = 24  # every M, then a few
STALLS = (0.0, 0.4)
SMALL = (
    "anda_compressor:small",
    "anda_compressor_lane:small",
    "anda_compressor_lane:odd",
    "anda_apu:small",
    "anda_apu:fp32",
    "anda_apu:int3",
    "anda_mxu:small",
    "anda_mxu:oblong",
    "anda_mxu:fp32",
)
MORE = (
    *("anda_compressor:small", "anda_mxu:small"),
    *("anda_compressor_lane:small", "anda_apu:fp32", "anda_apu:int3"),
    "anda_apu:small,registered=true,weight_buffers=1,isolated=true",
    # So many rows that a tile waits until the one before has left.
    "anda_mxu:small,rows=12,columns=1,group=2,weight_bits=2,pipelined=true",
)
PAPER = {
    "anda_compressor_lane": 300,
    "anda_compressor": 60,
    "anda_apu": 300,
    "anda_apu:bare": 300,
    "anda_apu:registered": 300,
    "anda_mxu": 30,
    "anda_mxu:pipelined": 30,
}


@pytest.mark.parametrize("spec", MORE)
def test_small_block_equals_golden(spec):
    cases = CASES // 3 if "rows=12" in spec else CASES
    result = run_passing(spec, "icarus", cases=cases, stalls=STALLS)
    assert result.numbers["cases"] == cases


def test_both_simulators_take_the_same_cycles():
    run_on_both("anda_apu:small", cases=CASES, stalls=STALLS)


@pytest.mark.full
@pytest.mark.parametrize("spec", SMALL)
@pytest.mark.parametrize(("simulator", "cases"), [("verilator", 300), ("icarus", 40)])
def test_small_block_on_long_runs(spec, simulator, cases):
    run_passing(spec, simulator, cases=cases, stalls=(0.0, 0.3, 0.8))


@pytest.mark.full
@pytest.mark.parametrize("spec", PAPER)
def test_published_size_equals_golden(spec):
    run_passing(spec, cases=PAPER[spec], stalls=(0.0, 0.3))


def accumulator_operands(rng, cases):
    """Sums and products within the bounds, near each other and not; 0, infinity and NaN too."""
    fields = rng.integers(LOWEST, HIGHEST + 1, (2, cases))
    fields[1] = np.where(
        rng.random(cases) < 0.8, fields[0] + rng.integers(-27, 28, cases), fields[1]
    )
    fields = np.clip(fields, LOWEST, HIGHEST)
    fractions = rng.integers(0, 1 << 23, (2, cases))
    fractions[rng.random((2, cases)) < 0.2] &= 3  # many bits agree, sums end in ties
    fractions[1] = np.where(rng.random(cases) < 0.2, fractions[0], fractions[1])
    numbers = rng.integers(0, 2, (2, cases)) << 31 | fields << 23 | fractions
    special = rng.choice([0, 0x7F800000, 0xFF800000, 0x7FC00000, 0x80000000], (2, cases))
    operands = np.where(rng.random((2, cases)) < 0.05, special, numbers)
    operands[0][operands[0] == 0x80000000] = 0  # a sum that starts at +0 never is -0
    return operands


def accumulated(unit, restart, total, product):
    gates = Gates(rtlil.convert(unit, name="accumulate", emit_src=False), "accumulate")
    inputs = {"restart": (restart, 1), "total": (total, 32), "product": (product, 32)}
    planes = {name: to_planes(values, bits) for name, (values, bits) in inputs.items()}
    return from_planes(gates.run(planes)["y"], len(total))


def test_accumulator_is_an_adder_within_its_bounds():
    rng = np.random.default_rng(5)
    total, product = accumulator_operands(rng, 400_000)
    restart = rng.random(total.size) < 0.1
    got = accumulated(Accumulate(), restart, total, product)
    assert np.array_equal(got, add(FP32, FP32, FP32, np.where(restart, 0, total), product))


@pytest.mark.parametrize(
    ("old", "new"),
    planted(
        [
            ("(self.restart & ~b.hidden)", "Const(0)"),  # 0 + -0
            ("| (a.infinite & b.infinite & opposite)", ""),
            ("carry = opposite & ~sticky", "carry = opposite"),
            ("significand[: surplus - 1].any() | sticky", "sticky"),
        ]
    ),
)
def test_planted_error_of_the_accumulator_shows(old, new):
    rng = np.random.default_rng(5)
    total, product = accumulator_operands(rng, 20_000)
    restart = rng.random(total.size) < 0.1
    got = accumulated(mutant(Accumulate, old, new)(), restart, total, product)
    assert not np.array_equal(got, add(FP32, FP32, FP32, np.where(restart, 0, total), product))


# Block and component; an expression of its source, and what replaces it.
ERRORS = read_errors(
    """
compressor, shift before arrival: anda_compressor_lane:small anda.aligner:Aligner
- self.step & arrived
+ self.step
compressor, level too fast: anda_compressor_lane:small anda.aligner:Aligner
- self.step & ~self.first & level.any()
+ self.step & level.any()
compressor, flag of one element: anda_compressor:small anda.compressor_lane:Lane
- Cat(f.special for f in fields).any()
+ fields[0].special
compressor, a gap between groups: anda_compressor_lane:small anda.packager:Packager
- ~self.valid | (self.step & self.last)
+ ~self.valid
dot product, signs not subtracted: anda_apu:small anda.plane_dot:PlaneDot
- columns[k].append(bit & ~self.sign_beat)
+ columns[k].append(Const(0, 1))
dot product, sums of groups mixed: anda_apu:small anda.plane_dot:PlaneDot
- group_sum & ~self.fresh.replicate(len(group_sum))
+ group_sum
normalise, exponent off by one: anda_apu:small anda.normalise:Normalise
- offset = width + fmt.bias
+ offset = width + 1 + fmt.bias
APU, accumulator not restarted: anda_apu:small anda.apu:ApuDatapath
- accumulate.restart.eq(self.restart)
+ accumulate.restart.eq(0)
APU, one cycle lost per group: anda_apu:small anda.sequencer:Sequencer
- (~self.complete | self.multiply)
+ ~self.complete
APU, result overwritten: anda_apu:small anda.sequencer:Sequencer
- self._scaled(m, product) & (~self.finished | self.room)
+ product
MXU, scales too early: anda_mxu:small anda.weight_dispatcher:WeightDispatcher
- self.scales.eq(last_scales)
+ self.scales.eq(present_scales)
MXU, weights not double-buffered: anda_mxu:small anda.weight_dispatcher:WeightDispatcher
- self.i.ready.eq(~complete | moves)
+ self.i.ready.eq(~complete)
MXU, drain does not overlap: anda_mxu:small anda.output_dispatcher:OutputDispatcher
- ~self.o.valid | (gives & self.o.p.last)
+ ~self.o.valid
"""
)


@pytest.mark.parametrize(("spec", "component", "old", "new"), planted(ERRORS))
def test_planted_error_is_caught(spec, component, old, new, monkeypatch):
    plant(monkeypatch, component, old, new)
    result = run_changed_block(spec, "icarus", cases=CASES, stalls=(0.0,))
    assert not result.passed


@pytest.mark.parametrize(
    ("cls", "changes", "message"),
    [
        (AndaNumerics, {"group": 65}, "group must be 2..64, not 65"),
        (AndaNumerics, {"weight_bits": 9}, "weight_bits must be 2..8, not 9"),
        (AndaNumerics, {"partial": BF16}, "partial must be one of fp16, fp32, not bf16"),
        (AndaApuParams, {"group": 1}, "group must be 2..64, not 1"),
        (AndaMxuParams, {"rows": 0}, "rows must be 1..64, not 0"),
        (AndaMxuParams, {"columns": 65}, "columns must be 1..64, not 65"),
        (
            AndaMxuParams,
            {"planes_per_beat": 3},
            "planes_per_beat must divide the 4 weight bits, not be 3",
        ),
        (ANDA_BLOCKS[0], {"lanes": 0}, "lanes must be 1..64, not 0"),
        (ANDA_BLOCKS[1], {"group": 100}, "group must be 2..64, not 100"),
    ],
)
def test_parameters_are_checked(cls, changes, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        cls(**changes)
