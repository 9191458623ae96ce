"""The pages about the Harmonia accelerator: its memories and cycles."""

from pathlib import Path

import pytest

from tests.support.attention import attention_time
from tests.support.examples import table
from tilewright.compiler.sizes import Step
from tilewright.golden.harmonia_machine.cycles import convert_cycles, learn_cycles
from tilewright.golden.harmonia_machine.isa import assemble
from tilewright.golden.params.harmonia_machine import HarmoniaParams, Memory
from tilewright.synth.record import load_records

DOCS = Path(__file__).parents[2] / "docs"
PAGE, TIMING = ((DOCS / f"harmonia-{name}.md").read_text() for name in ("system", "timing"))


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
    page = " ".join(TIMING.split())
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
    """The table's columns after the name."""
    return time.cycles, time.gemm, time.vector, time.convert, time.load, time.store


def test_area_of_a_wide_converter():
    page = " ".join(TIMING.split())
    areas = []
    for name in ("harmonia_converter__width_4.asap7", "harmonia_converter.asap7"):
        metrics = load_records()[name]["metrics"]
        areas += [metrics[key]["value"] for key in ("area", "memory_area")]
    logic, memory, old_logic, old_memory = (f"{area:,.0f}" for area in areas)
    assert (
        f"its logic has {logic} um2 and its memory, of as many bits in wider words, {memory}"
        in page
    )
    assert f"where the published one has {old_logic} and {old_memory}" in page


STEPS = {  # heads, those of keys, step
    "16 tokens of a prompt at 1,008, 1 head": (1, 1, Step.prompt(1008, 16)),
    "a token at 256, 4 heads": (4, 1, Step.prompt(255, 1)),
    "a token at 4,096, 4 heads": (4, 1, Step.prompt(4095, 1)),
    "a token at 4,096, 8 x 4 heads": (32, 8, Step.prompt(4095, 1)),
}


@pytest.mark.parametrize("block", ["paper", "wide"])
def test_cycles_of_attention(block):
    rows = [row for row in table(TIMING, "attention") if row[0] == block]
    assert [row[1] for row in rows] == list(STEPS)
    for row, (heads, kv_heads, step) in zip(rows, STEPS.values(), strict=True):
        time = attention_time(f"harmonia:{block}", heads, kv_heads, 128, step, 30)
        assert row[2:] == [f"{value:,}" for value in columns_of(time)]
