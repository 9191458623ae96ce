"""DECA in cells: the paper's clock is met, memories are macros."""

import pytest

from tests.support.claims import claim
from tilewright.golden.params.deca import LUT_ENTRIES, TILE_BYTES, DecaParams
from tilewright.synth.record import load_records

DECA = {name: record for name, record in load_records().items() if record["block"] == "deca"}
FASTEST = DECA["deca.asap7.fastest"]
WITH_TEPL = load_records()["deca_tepl.asap7.fastest"]
PAPER = DecaParams.preset("paper")


def metric(record, name):
    return record["metrics"][name]["value"]


@pytest.mark.parametrize("record", [FASTEST, WITH_TEPL], ids=lambda record: record["block"])
def test_the_clock_of_the_paper_is_met(record):
    """2.5 GHz, every path: from inputs, between registers, to outputs."""
    period = 1000 / claim("deca.clock")  # ps
    assert record["parameters"] == PAPER.as_dict()
    assert metric(record, "delay") <= period
    kinds = [name for name in record["metrics"] if name.startswith("delay_")]
    assert len(kinds) == 4
    assert max(metric(record, name) for name in kinds) == metric(record, "delay")
    assert record["longest_path"]["cells"] > 0


@pytest.mark.parametrize("name", DECA)
def test_memories_are_macros(name):
    """SQQ lines with their error bit, TOut, every sub-table; nothing of them became registers."""
    record = DECA[name]
    lines = PAPER.loaders * PAPER.sqq_lines * (PAPER.line_bits + 1)
    tiles = PAPER.loaders * 8 * TILE_BYTES
    tables = PAPER.luts * LUT_ENTRIES * 16
    assert metric(record, "memory_bits") == lines + tiles + tables
    macros = sum(memory["count"] for memory in record["memories"].values())
    assert macros == PAPER.loaders * 2 + 4 * PAPER.luts
    assert 0 < metric(record, "memory_area") < metric(record, "area")
