"""DECA's tables: the paper's figures in their places, the records' beside them."""

import pytest

from tests.support.claims import claim
from tilewright.claims import load_claims
from tilewright.golden.params.deca import DecaParams, TileConfig
from tilewright.site import deca
from tilewright.studies.measured import load_measured
from tilewright.verify.coverage import Coverage


def test_cycles_have_the_record_and_the_paper():
    shown = deca.cycles()
    record = load_measured("deca_cycles")["blocks"]
    assert shown.column("RTL") == [row["measured"] for rows in record.values() for row in rows]
    half = next(
        row
        for row in deca.cycle_rows()
        if row["block"] == "deca:paper" and row["density"] == 0.5 and row["paper"]
    )
    assert half["paper"] == claim("deca.cycles_per_tile.w32l8")["50"]
    assert deca.cycles_by_density().count("<svg") == 1


@pytest.mark.parametrize(
    ("preset", "config", "density", "figure"),
    [
        ("paper", TileConfig(code_bits=8), 1.0, ("w32l8", "100")),
        ("small", TileConfig(sparse=True), 0.05, ("w8l4", "5")),
        ("large", TileConfig(sparse=True), 0.3, ("w64l64", "30")),
        ("paper", TileConfig(code_bits=7), 1.0, ("dense", "7")),
        ("small", TileConfig(code_bits=7), 1.0, None),
        ("paper", TileConfig(int8=True), 1.0, None),
        ("paper", TileConfig(sparse=True), 0.25, None),
    ],
)
def test_cycles_of_the_paper(preset, config, density, figure):
    shown = deca.paper_cycles(load_claims("deca"), DecaParams.preset(preset), config, density)
    assert shown == (figure and claim(f"deca.cycles_per_tile.{figure[0]}")[figure[1]])


def test_bytes_per_tile_are_the_papers():
    for size in deca.tile_sizes():
        assert abs(size.compressed - size.formula) < 1  # whole bytes, rounded up
        assert size.paper in (None, pytest.approx(size.formula))


def test_area_is_divided_as_the_paper_does():
    areas = {
        "loader0.load_unit": 1000.0,
        "loader1.data_queue": 4000.0,
        "loader1.window": 500.0,
        "tout0": 2000.0,
        "pipeline.lut": 1500.0,
        "pipeline": 900.0,
        "": 100.0,
    }
    found = deca.area_by_paper_part({"area_by_part": areas})
    assert found == {"buffers": 7000.0, "lut": 1500.0, "rest": 1500.0}
    assert deca.area_by_paper_part({"area_by_part": {}}) is None
    for row in deca.area().rows:
        assert row[-1] == {**claim("deca.area.share"), "all": 100.0}[row[1]]


def test_power_is_divided_as_the_paper_does():
    shown = {row[0]: row for row in deca.power_by_paper_part().rows}
    parts = [row for part, row in shown.items() if part != "all"]
    assert shown["all"][3] == pytest.approx(sum(row[3] for row in parts))
    assert sum(row[4] for row in parts) == pytest.approx(100)


def test_holes_of_coverage_are_named(monkeypatch):
    model = Coverage({"format": ["8 bit", "4 bit"], "squash": ["rows are read", "undisturbed"]})
    for squash, tiles in (("undisturbed", 31), ("rows are read", 17)):
        for _ in range(tiles):
            model.hit(format="8 bit", squash=squash)
    record = {"blocks": {"deca:paper": model.as_dict()}}
    monkeypatch.setattr(deca, "load_measured", lambda name: record)
    ((_, combinations, covered, tiles, _, result),) = deca.coverage().rows
    assert (combinations, covered, tiles) == (4, 2, 48) and "2 holes" in result
