"""Blocks on FPGAs written into ``synth/records/fpga``."""

from collections.abc import Callable, Iterable

from tilewright.base.files import write_atomic
from tilewright.synth.fpga.record import (
    FPGA_RECORDS,
    fpga_record,
    fpga_record_path,
    load_fpga_records,
)
from tilewright.synth.fpga.route import Placement, place_and_route
from tilewright.synth.record import record_text

__all__ = ["renew_records", "store_placement"]


def store_placement(found: Placement) -> None:
    """Write the record of a placed block."""
    FPGA_RECORDS.mkdir(exist_ok=True)
    write_atomic(fpga_record_path(found.params, found.device), record_text(fpga_record(found)))


def renew_records(names: Iterable[str], watch: Callable[[str], None]) -> None:
    """Place and route the blocks of the records ``names`` again; ``watch`` is told what is done."""
    records = load_fpga_records()
    for record in map(records.__getitem__, names):
        goal = record["target_mhz"]
        found = place_and_route(record["spec"], record["device"], target_mhz=goal, watch=watch)
        store_placement(found)
