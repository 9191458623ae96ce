"""The committed records of placed blocks: fresh, consistent, listed where they belong."""

from pathlib import Path

import pytest

from tests.cli.test_cli import run
from tilewright.base.records import updated_table
from tilewright.golden.params.resolve import resolve
from tilewright.studies.pe.energy import PES
from tilewright.synth.place.record import (
    PLACED,
    placed_table,
    stale_placed_records,
)
from tilewright.synth.record import load_kind, table_path

ALL = load_kind(PLACED)
PAGE = Path(__file__).parents[3] / "docs" / "physical.md"


def test_no_record_is_stale():
    assert not stale_placed_records(), "renew with `tilewright place --update-records`"


@pytest.mark.parametrize("name", ALL)
def test_a_record_stands_for_its_block(name):
    record = ALL[name]
    assert name.startswith(f"{resolve(record['spec']).slug}.{record['technology']}")
    value = {metric: entry["value"] for metric, entry in record["metrics"].items()}
    assert value["delay_before"] < value["delay_placed"]
    assert value["delay"] <= value["delay_placed"]
    assert 0.65 < value["utilisation"] <= 0.92
    width, height = record["die_um"]
    assert width * height == pytest.approx(value["die_area"], rel=0.01)
    assert value["congestion_mean"] < value["congestion_worst"]


def test_the_table_has_every_record():
    lines = placed_table(ALL.values()).splitlines()
    assert len(lines) == len(ALL) + 2
    assert "<!-- generated: placed -->" in PAGE.read_text()


PARTS = (
    *("deca", "anda_compressor_lane", "anda_mxu,rows=4,columns=4", "anda_vector:default,group=64"),
    *("harmonia_array,rows=4,columns=2", "harmonia_converter:paper", "harmonia_offset:paper"),
    "int8_quantiser:paper",
)


def test_all_elements_and_parts_are_placed():
    placed = {(record["spec"], record["technology"]) for record in ALL.values()}
    assert {
        (spec, technology) for spec in PES.values() for technology in ("asap7", "sky130hd")
    } <= placed
    assert {(spec, "asap7") for spec in PARTS} <= placed


def test_another_placer_makes_a_record_stale(tmp_path):
    name, record = next(iter(ALL.items()))
    with updated_table(table_path(PLACED, record["technology"], tmp_path)) as table:
        table[name] = record | {"place_sha256": "0"}
    (command,) = stale_placed_records(tmp_path).values()
    assert command.startswith(f"tilewright place {record['spec']} --tech {record['technology']}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--goal", "area"), "--goal goes with a BLOCK to place"),
        (("popcount:odd", "--utilisation", "1.5"), "utilisation must be above 0 and at most 0.95"),
        (("--tech", "tsmc5"), "unknown technology 'tsmc5'"),
        (("popcount:odd", "--csv", "--json"), "--json is no CSV"),
    ],
)
def test_refusals(capsys, words, message):
    code, _, said = run(capsys, "place", *words)
    assert (code, said.removeprefix("tilewright: ").startswith(message)) == (2, True), said
