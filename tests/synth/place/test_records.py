"""The committed records of placed blocks: fresh, consistent, listed where they belong."""

from pathlib import Path

from tilewright.base.records import updated_table
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


def test_the_table_has_every_record():
    lines = placed_table(ALL.values()).splitlines()
    assert len(lines) == len(ALL) + 2
    assert "<!-- generated: placed -->" in PAGE.read_text()


def test_another_placer_makes_a_record_stale(tmp_path):
    name, record = next(iter(ALL.items()))
    with updated_table(table_path(PLACED, record["technology"], tmp_path)) as table:
        table[name] = record | {"place_sha256": "0"}
    (command,) = stale_placed_records(tmp_path).values()
    assert command.startswith(f"tilewright place {record['spec']} --tech {record['technology']}")
