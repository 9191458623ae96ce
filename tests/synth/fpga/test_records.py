"""The committed records of blocks on FPGAs: fresh, consistent, and of every family."""

from pathlib import Path

from tilewright.base.records import updated_table
from tilewright.synth.fpga.devices import DEVICES
from tilewright.synth.fpga.record import FPGA, fpga_table, stale_fpga_records
from tilewright.synth.record import load_kind, table_path

ALL = load_kind(FPGA)
PAGE = Path(__file__).parents[3] / "docs" / "fpga.md"


def test_no_record_is_stale():
    assert not stale_fpga_records(), "renew with `tilewright fpga --update-records`"


def test_every_family_has_a_record():
    families = {DEVICES[record["device"]].family.package for record in ALL.values()}
    assert families == {device.family.package for device in DEVICES.values()}


def test_the_table_has_every_record():
    rows = fpga_table(ALL.values()).rows
    assert [row[:2] for row in rows] == [[r["spec"], r["device"]] for r in ALL.values()]
    assert "<!-- generated: fpga -->" in PAGE.read_text()


def test_another_flow_makes_a_record_stale(tmp_path):
    name, record = next(iter(ALL.items()))
    with updated_table(table_path(FPGA, record["device"], tmp_path)) as table:
        table[name] = record | {"flow_sha256": "0"}
    command = f"tilewright fpga {record['spec']} --device {record['device']} --update-records"
    assert stale_fpga_records(tmp_path) == {name: command}
