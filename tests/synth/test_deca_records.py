"""DECA in cells: the paper's clock is met, parts are the whole, the page says what was found."""

from pathlib import Path

import pytest

from tests.support.claims import claim
from tilewright.golden.params.deca import LUT_ENTRIES, TILE_BYTES, DecaParams
from tilewright.site.deca import area_by_paper_part
from tilewright.synth.record import load_records

DECA = {name: record for name, record in load_records().items() if record["block"] == "deca"}
FASTEST = DECA["deca.asap7.fastest"]
WITH_TEPL = load_records()["deca_tepl.asap7.fastest"]
PAPER = DecaParams.preset("paper")
DOCS = Path(__file__).parents[2] / "docs"


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


def area_table():
    """The table of docs/synthesis.md: our area beside the paper's, by the paper's groups."""
    ours = area_by_paper_part(FASTEST)
    total, share = claim("deca.area.per_pe"), claim("deca.area.share")
    for group, area in ours.items():
        percent = 100 * area / sum(ours.values())
        theirs = total * share[group] / 100
        yield f"| {group} | {area:,.0f} | {percent:.0f} | {theirs:,.0f} | {share[group]} |"
    yield f"| all | {sum(ours.values()):,.0f} | 100 | {total:,.0f} | 100 |"


GROUPS = {
    "loaders": ("pe.loader0", "pe.loader1"),
    "pipeline": ("pe.pipeline",),
    "tile outputs": ("pe.tout0", "pe.tout1"),
    "prefetcher": ("pe.prefetcher",),
    "TEPL unit": ("tepl",),
    "registers": ("pe.registers",),
}


def area_with_tepl():
    """The table of docs/synthesis.md: area of ``deca_tepl`` by part."""
    areas, whole = WITH_TEPL["area_by_part"], metric(WITH_TEPL, "area")
    shown = {
        group: sum(area for part, area in areas.items() if f"{part}.".startswith(prefixes))
        for group, names in GROUPS.items()
        for prefixes in [tuple(f"{name}." for name in names)]
    }
    shown["rest"] = whole - sum(shown.values())
    for group, area in (*shown.items(), ("all", whole)):
        yield f"| {group} | {area:,.0f} | {100 * area / whole:.1f} |"


def test_the_page_shows_the_tepl_unit_inside():
    page = (DOCS / "synthesis.md").read_text()
    for line in area_with_tepl():
        assert line in page, f"docs/synthesis.md lacks the line {line}"
    path = WITH_TEPL["longest_path"]
    sentence = f"{metric(WITH_TEPL, 'delay')} ps from `{path['start']}` to `{path['end']}`"
    assert sentence in " ".join(page.split()), f"docs/synthesis.md lacks {sentence!r}"


def test_the_page_shows_the_record():
    page = (DOCS / "synthesis.md").read_text()
    for line in area_table():
        assert line in page, f"docs/synthesis.md lacks the line {line}"
    path = FASTEST["longest_path"]
    sentence = (
        f"{metric(FASTEST, 'delay')} ps from `{path['start']}` to `{path['end']}`,"
        f" {path['cells']} cells"
    )
    assert sentence in " ".join(page.split()), f"docs/synthesis.md lacks {sentence!r}"
