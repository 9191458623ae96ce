"""Blocks on FPGAs written into ``synth/records``."""

from collections.abc import Callable, Iterable

from tilewright.synth.fpga.record import FPGA, fpga_record
from tilewright.synth.fpga.route import Placement, place_and_route
from tilewright.synth.record import load_kind, record_name, store_record

__all__ = ["renew_records", "store_placement"]


def store_placement(found: Placement) -> None:
    """Write the record of a placed block."""
    device = found.device.name
    store_record(FPGA, device, record_name(found.params, device), fpga_record(found))


def renew_records(names: Iterable[str], watch: Callable[[str], None]) -> None:
    """Place and route the blocks of the records ``names`` again; ``watch`` is told what is done."""
    records = load_kind(FPGA)
    for record in map(records.__getitem__, names):
        goal = record["target_mhz"]
        found = place_and_route(record["spec"], record["device"], target_mhz=goal, watch=watch)
        store_placement(found)
