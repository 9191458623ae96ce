"""Blocks on FPGAs written into ``synth/records``."""

from collections.abc import Callable, Iterable

from tilewright.synth.fpga.record import (
    FPGA,
    fpga_name,
    fpga_record,
    load_fpga_records,
)
from tilewright.synth.fpga.route import Placement, place_and_route
from tilewright.synth.record import store_record

__all__ = ["renew_records", "store_placement"]


def store_placement(found: Placement) -> None:
    """Write the record of a placed block."""
    name = fpga_name(found.params, found.device)
    store_record(FPGA, found.device.name, name, fpga_record(found))


def renew_records(names: Iterable[str], watch: Callable[[str], None]) -> None:
    """Place and route the blocks of the records ``names`` again; ``watch`` is told what is done."""
    records = load_fpga_records()
    for record in map(records.__getitem__, names):
        goal = record["target_mhz"]
        found = place_and_route(record["spec"], record["device"], target_mhz=goal, watch=watch)
        store_placement(found)
