"""The committed records of placed blocks: fresh, consistent, listed where they belong."""

from pathlib import Path

import pytest

from tests.cli.test_cli import run
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
