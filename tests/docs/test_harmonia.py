"""The page about the Harmonia accelerator: its memories and cycles."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.examples import table
from tilewright.golden.harmonia.cache import KvCache
from tilewright.golden.harmonia_machine.assembler import assemble
from tilewright.golden.harmonia_machine.cycles import convert_cycles, learn_cycles
from tilewright.golden.harmonia_machine.decode_attention import CachedHead
from tilewright.golden.harmonia_machine.grouped_attention import grouped_attention
from tilewright.golden.harmonia_machine.layer_attention import layer_attention
from tilewright.golden.harmonia_machine.streamed_attention import streamed_attention
from tilewright.golden.params.harmonia_machine import (
    HarmoniaParams,
    Memory,
)
from tilewright.sim.programs import ProgramTime, program_counters
from tilewright.synth.record import load_records

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "harmonia-system.md").read_text()


def test_memories():
    p = HarmoniaParams()
    depths = {name: getattr(p, name) for name in ("activation_rows", "halves_rows", "operand_rows")}
    rows = table(PAGE, "memories")
    assert [row[:2] for row in rows] == [[str(int(m)), m.name.lower()] for m in Memory]
    for row, memory in zip(rows, Memory, strict=True):
        assert int(row[3]) == p.row_bits(memory)
        assert depths[row[4]] == p.depth(memory)


def test_beats():
    p = HarmoniaParams()
    memories = (Memory.OPERANDS, Memory.OPERAND_SIGNS, Memory.OPERAND_EXPONENTS, Memory.SCALES)
    assert [p.beat_rows(memory) for memory in memories] == [4, 16, 64, 32]
    page = " ".join(PAGE.split())
    said = "4 rows of operands, 16 of their signs, 64 of their exponents and 32 of scales"
    assert said in page and f"{p.beat_bits / 8 * 300e6 / 1e9:.0f} GB/s" in page


def test_cycles_of_the_page():
    """The page's formulas, for one instruction each."""
    p = HarmoniaParams()
    rows, columns, group = p.rows, p.columns, p.group
    for text, want in {
        "convert activations, source=0, elements=100, destination=0": (4 + 1) * group + 4,
        "convert keys, source=0, elements=64, destination=0, low_halves=9": (2 + 1) * group + 4 + 2,
        "convert keys, source=0, elements=64, destination=0, short=1": (2 + 1) * group + 4 + 1,
        "convert values, source=0, elements=40, destination=0, low_halves=9, tokens=1": (3 + 1)
        * (columns * group // rows)
        + 4
        + 1,
    }.items():
        (x,) = assemble(text)
        assert convert_cycles(p, x) == want
    assert [learn_cycles(p, x) for x in assemble(LEARN)] == [100 + 2, 2 * 100 + 4]


LEARN = "learn source=0, elements=100, first=1\nlearn source=0, elements=100, last=1"


def columns_of(time):
    """The table's columns behind the name."""
    return time.cycles, time.gemm, time.vector, time.convert, time.load, time.store


def test_area_of_a_wide_converter():
    page = " ".join(PAGE.split())
    areas = []
    for name in ("harmonia_converter__width_4.asap7.json", "harmonia_converter.asap7.json"):
        metrics = load_records()[name]["metrics"]
        areas += [metrics[key]["value"] for key in ("area", "memory_area")]
    logic, memory, old_logic, old_memory = (f"{area:,.0f}" for area in areas)
    assert (
        f"its logic has {logic} um2 and its memory, of as many bits in wider words, {memory}"
        in page
    )
    assert f"where the published one has {old_logic} and {old_memory}" in page


def rows_of(block, program):
    """Of the table, by the beginning of the program's name."""
    return [row[2:] for row in table(PAGE, "attention") if row[0] == block and program in row[1]]


@pytest.mark.parametrize(
    ("block", "lengths"),
    [("paper", (256, 3800)), pytest.param("wide", (3800,), marks=pytest.mark.full)],
)
def test_cycles_of_attention(block, lengths):
    """The table of the page: a prompt, and a decoded token as the difference of two programs."""
    params = HarmoniaParams.preset(block)

    def counts(heads, prompt, tokens):
        nothing = np.zeros((heads, tokens, params.channels), np.uint16)
        found = grouped_attention(params, nothing, nothing[0], nothing[0], prompt=prompt)
        time = ProgramTime.of([program_counters(params, found.builder.program, 30)])
        return np.array(columns_of(time))

    prompt = counts(1, 1024, 1024)
    tokens = [counts(4, n - 2, n) - counts(4, n - 2, n - 1) for n in lengths]
    assert rows_of(block, "a prompt") == [[f"{value:,}" for value in prompt]]
    rows = rows_of(block, "a token decoded")
    assert rows == [[f"{value:,}" for value in found] for found in tokens]
    words = {"paper": "times as long as its products", "wide": "times as long. What is left"}
    assert f"{prompt[0] / prompt[1]:.1f} {words[block]}" in " ".join(PAGE.split())
    # An array that never waits takes 91,265 cycles; the wide converter keeps near to that.
    assert block != "wide" or prompt[0] <= 1.25 * 91_265


@pytest.mark.parametrize(
    ("block", "tokens"),
    [("paper", 4096), ("wide", 4096), pytest.param("paper", 131_072, marks=pytest.mark.full)],
)
def test_cycles_of_streamed_attention(block, tokens):
    params = HarmoniaParams.preset(block)
    cache = KvCache(params.cache, params.channels)
    nothing = np.zeros((tokens, params.channels), np.uint16)
    cache.append(nothing, nothing)
    found = streamed_attention(params, nothing[:4], cache)
    time = ProgramTime.of([program_counters(params, found.builder.program, 30)])
    counts = columns_of(time)
    (row,) = rows_of(block, f"a token at {tokens:,}")
    assert row == [f"{value:,}" for value in counts]
    array, page = tokens * 5 // 4, " ".join(PAGE.split())
    assert f"{array:,}" in page and f"takes {time.cycles / array:.1f} times as many" in page
    assert time.cycles <= 1.3 * array


@pytest.mark.parametrize("block", ["paper", "wide"])
def test_cycles_of_a_layers_token(block):
    """With the token appended to all caches, within 1.3 times what the array takes."""
    params = HarmoniaParams.preset(block)
    head = CachedHead.empty(params, 4095, params.channels, 4)
    program = layer_attention(params, [4096], [[head]] * 8).builder.program
    time = ProgramTime.of([program_counters(params, program, 30)])
    assert rows_of(block, "a token of a layer") == [[f"{value:,}" for value in columns_of(time)]]
    array, page = 8 * 4096 * 5 // 4, " ".join(PAGE.split())
    words = {"paper": "times as many at the published size", "wide": "times with the wide conv"}
    assert f"{array:,}" in page and f"{time.cycles / array:.2f} {words[block]}" in page
    assert time.cycles <= 1.3 * array
