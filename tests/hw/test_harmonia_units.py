"""Converter, offset generator and array as emitted Verilog: golden bits, stalls, exact cycles."""

import re
from collections import Counter

import pytest
from amaranth.sim import Simulator

from tests.support.benches import run_changed_block, run_on_both, run_passing
from tests.support.mutate import plant, planted, read_errors
from tilewright.golden.params.harmonia import HarmoniaOffsetParams
from tilewright.hw.harmonia.offset import OffsetGenerator

SMALL = {
    "int8_quantiser:small": 100,
    "harmonia_converter:small": 200,
    "harmonia_converter:small_wide": 200,
    "harmonia_converter:small_both": 200,
    "harmonia_offset:small": 200,
    "harmonia_offset:wide": 200,
    "harmonia_offset:pipelined": 200,
    "harmonia_array:small": 150,
    "harmonia_array:small,stages=3,bounded=true,merged=true": 150,
    "harmonia_pe:small,fold=2,registered=true,isolated=true,stages=3,bounded=true": 300,
    "harmonia_pe:single,group=4,registered=true,isolated=true,merged=true": 300,
}
PAPER = {
    "int8_quantiser:paper": 2000,
    "harmonia_converter:paper": 2000,
    "harmonia_converter:wide": 2000,
    "harmonia_offset:paper": 3000,
    "harmonia_array:paper": 200,
    "harmonia_array:paced": 200,
}


@pytest.mark.parametrize("spec", SMALL)
def test_small_block_equals_golden(spec):
    result = run_passing(spec, "icarus", cases=SMALL[spec], stalls=(0.0, 0.4))
    assert result.numbers["cases"] == SMALL[spec]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(s, marks=() if s == "harmonia_offset:small" else pytest.mark.full)
        for s in SMALL
    ],
)
def test_both_simulators_take_the_same_cycles(spec):
    run_on_both(spec, cases=SMALL[spec] // 4, stalls=(0.0, 0.4))


@pytest.mark.full
@pytest.mark.parametrize("spec", PAPER)
def test_published_size_equals_golden(spec):
    run_passing(spec, cases=PAPER[spec], stalls=(0.0, 0.3, 0.8))


@pytest.mark.full
@pytest.mark.parametrize("fold", [1, 2, 4])
def test_element_of_every_fold(fold):
    run_passing(f"harmonia_pe,fold={fold}", cases=3000, stalls=(0.0, 0.3, 0.8))


# Block and component; an expression of its source, and what replaces it.
ERRORS = read_errors(
    """
converter, passes not compared: harmonia_converter:small harmonia.converter:Converter
- Mux(fresh, of_rows, larger(largest[column], of_rows))
+ of_rows
converter, short mantissa from below: harmonia_converter:small harmonia.converter:Converter
- mantissa[OPERAND_BITS:]
+ mantissa[:OPERAND_BITS]
converter, one block at a time: harmonia_converter:small harmonia.converter:Converter
- self.i.ready.eq(~self.full.bit_select(half, 1))
+ self.i.ready.eq(~self.full.any())
converter, one exponent for two columns: harmonia_converter:small_both harmonia.converter:Converter
- exponents[k // p.rows]
+ exponents[0]
converter, second column not compared: harmonia_converter:small_both harmonia.converter:Converter
- column | k if k else column
+ column
quantiser, rounded down: int8_quantiser:small harmonia.int8_quantiser:Int8Quantiser
- (shifted + 1) >> 1
+ shifted >> 1
offset, later of equal values: harmonia_offset:small harmonia.offset:OffsetGenerator
- Mux(b[:-1] > a[:-1], b, a)
+ Mux(b[:-1] >= a[:-1], b, a)
offset, half rounded down: harmonia_offset:small harmonia.offset:OffsetGenerator
- + (magnitude[0] & magnitude[1])
+
offset, earlier list kept: harmonia_offset:small harmonia.offset:OffsetGenerator
- empty | (value[:-1] > held.value[:-1])
+ value[:-1] > held.value[:-1]
element, facts never loaded: harmonia_pe:small,fold=2,registered=true,isolated=true,\
stages=3,bounded=true harmonia.pe:HarmoniaPE
- arriving == p.fold - 1
+ arriving == p.fold
element, magnitude without its sign: harmonia_pe:single,group=4,registered=true,isolated=true,\
merged=true arith.adder_tree:merged_sum
- magnitude ^ sign.replicate(bits)
+ magnitude
array, no credit: harmonia_array:small harmonia.array:HarmoniaArray
- (clear != 0) | (room < p.columns)
+ clear != 0
array, columns collide: harmonia_array:small harmonia.array:HarmoniaArray
- clear.eq(p.columns - 1)
+ clear.eq(p.columns - 2)
"""
)


@pytest.mark.parametrize(("spec", "component", "old", "new"), planted(ERRORS))
def test_planted_error_is_caught(spec, component, old, new, monkeypatch):
    plant(monkeypatch, component, old, new)
    result = run_changed_block(spec, "icarus", cases=SMALL[spec], stalls=(0.0, 0.8))
    assert not result.passed


def test_the_learning_part_rests_outside_the_window(tmp_path):
    """Nothing of it changes while values pass: what the paper gets from a gated clock."""
    params = HarmoniaOffsetParams.preset("small")
    dut = OffsetGenerator(params)
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.i.valid, 1)
        for k in range(40):
            ctx.set(dut.i.p.channel, k % params.channels)
            for row in range(params.rows):
                ctx.set(dut.i.p.values[row], (k * 7919 + row * 104729) & 0x7BFF)
            await ctx.tick()

    simulator.add_testbench(bench)
    with simulator.write_vcd(str(tmp_path / "waves.vcd")):
        simulator.run()
    changes = changes_by_name((tmp_path / "waves.vcd").read_text())
    assert changes["o__payload"] > 10  # values did pass
    learning = ["of_rows", "fresh", "pending", "scanned", "reading", "arrived", "write_data"]
    assert {name: changes[name] for name in learning} == dict.fromkeys(learning, 0)


def changes_by_name(vcd):
    """How often each signal changed after time 0."""
    names = dict(re.findall(r"^\$var \w+ \d+ (\S+) (\S+)", vcd, re.MULTILINE))
    _, _, body = vcd.partition("$enddefinitions")
    _, _, later = body.partition("\n#0\n")
    _, _, later = later.partition("\n#")
    moved = re.findall(r"^(?:[01x]|b[01x]+ |s\S* )(\S+)$", later, re.MULTILINE)
    return Counter({name: 0 for name in names.values()}) + Counter(names.get(k) for k in moved)
