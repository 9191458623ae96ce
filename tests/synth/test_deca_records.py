"""DECA in cells: the paper's clock is met, parts are the whole, the page says what was found."""

from pathlib import Path

import pytest

from tests.support.claims import claim
from tilewright.golden.params.deca import LUT_ENTRIES, TILE_BYTES, DecaParams
from tilewright.report.deca import PAPER_PARTS
from tilewright.report.hardware import area_by_group
from tilewright.synth.record import load_records

DECA = {name: record for name, record in load_records().items() if record["block"] == "deca"}
FASTEST = DECA["deca.asap7.fastest.json"]
PAPER = DecaParams.preset("paper")
DOCS = Path(__file__).parents[2] / "docs"


def metric(record, name):
    return record["metrics"][name]["value"]


def test_the_papers_element_has_records():
    assert {"deca.asap7.json", "deca.asap7.fastest.json"} <= DECA.keys()
    assert all(record["parameters"] == PAPER.as_dict() for record in DECA.values())


def test_the_clock_of_the_paper_is_met():
    """2.5 GHz, every path: from inputs, between registers, to outputs."""
    period = 1000 / claim("deca.clock")  # ps
    assert metric(FASTEST, "delay") <= period
    kinds = [name for name in FASTEST["metrics"] if name.startswith("delay_")]
    assert len(kinds) == 4
    assert max(metric(FASTEST, name) for name in kinds) == metric(FASTEST, "delay")
    assert FASTEST["longest_path"]["cells"]


@pytest.mark.parametrize("name", DECA)
def test_parts_are_the_whole(name):
    record = DECA[name]
    areas = record["area_by_part"]
    assert sum(areas.values()) == pytest.approx(metric(record, "area"), abs=1e-3)
    parts = {f"loader{k}.{part}" for k in (0, 1) for part in ("load_unit", "data_queue", "window")}
    assert parts | {"pipeline.lut", "pipeline.scaler", "prefetcher.data", "registers"} <= set(areas)


@pytest.mark.parametrize("name", DECA)
def test_memories_are_macros(name):
    """SQQ lines with their error bit, TOut, every sub-table; nothing of them became registers."""
    record = DECA[name]
    lines = PAPER.loaders * PAPER.sqq_lines * (PAPER.line_bits + 1)
    tiles = PAPER.loaders * 8 * TILE_BYTES
    tables = PAPER.luts * LUT_ENTRIES * 16
    assert metric(record, "memory_bits") == lines + tiles + tables
    macros = {kind: n for kind, n in record["cells_by_kind"].items() if kind.startswith("sram_")}
    assert sum(macros.values()) == PAPER.loaders * 2 + 4 * PAPER.luts
    assert 0 < metric(record, "memory_area") < metric(record, "area")


def area_table():
    """The table of docs/synthesis.md: our area beside the paper's, by the paper's groups."""
    ours = area_by_group(FASTEST, PAPER_PARTS, "rest")
    total, share = claim("deca.area.per_pe"), claim("deca.area.share")
    for group, area in ours.items():
        percent = 100 * area / sum(ours.values())
        theirs = total * share[group] / 100
        yield f"| {group} | {area:,.0f} | {percent:.0f} | {theirs:,.0f} | {share[group]} |"
    yield f"| all | {sum(ours.values()):,.0f} | 100 | {total:,.0f} | 100 |"


def test_the_page_shows_the_record():
    page = (DOCS / "synthesis.md").read_text()
    for line in area_table():
        assert line in page, f"docs/synthesis.md lacks the line {line}"
    path = FASTEST["longest_path"]
    sentence = (
        f"{metric(FASTEST, 'delay')} ps from `{path['start']}` to `{path['end']}`,"
        f" {len(path['cells'])} cells"
    )
    assert sentence in " ".join(page.split()), f"docs/synthesis.md lacks {sentence!r}"
