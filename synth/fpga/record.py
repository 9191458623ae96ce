"""Records of blocks on FPGAs: committed JSON, a table for each device."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tilewright.base.table import Table, code
from tilewright.synth.fpga.devices import DEVICES
from tilewright.synth.fpga.harness import TAKEN, TOP
from tilewright.synth.fpga.route import TARGET_MHZ, Placement, map_block, place_and_route
from tilewright.synth.record import (
    RECORDS,
    code_sha256,
    load_kind,
    metric,
    record_name,
    rtlil_sha256,
    sha256,
    store_record,
    tool_versions,
)
from tilewright.synth.yosys import SynthesisError

FPGA = "fpga"  # the kind of record
_FLOW = ("devices", "harness", "route")
_COUNTS = {  # heading -> metric
    "LUTs": "luts",
    "carry": "carries",
    "registers": "registers",
    "block RAM": "block_rams",
    "LUT RAM": "lut_rams",
    "DSP": "multipliers",
}


def _flow_sha256() -> str:
    return code_sha256(Path(__file__).parent, _FLOW)


def fpga_record(found: Placement) -> dict[str, Any]:
    """The record of a placed block; refused where Yosys removed outputs of the block."""
    if lost := _lost_outputs(found):
        raise SynthesisError(
            f"{found.spec}: {lost} bits of its outputs are read from memory in the same cycle, and"
            " Yosys removes those; put a register_slice behind it"
        )
    family, path = found.device.family, found.report.path
    return {
        "block": found.params.block,
        "spec": found.spec,
        "parameters": found.params.as_dict(),
        "device": found.device.name,
        "speed_grade": {"name": found.speed_grade},
        "seed": found.seed,
        "target_mhz": found.target_mhz,
        "rtlil_sha256": sha256(found.rtlil),
        "flow_sha256": _flow_sha256(),
        "tools": {**tool_versions(), family.module: family.nextpnr_version},
        "metrics": {
            "luts": metric(found.luts, "cells"),
            "carries": metric(found.carries, "cells"),
            "registers": metric(found.registers, "bits"),
            "block_rams": metric(found.block_rams, "blocks"),
            "lut_rams": metric(found.lut_rams, "cells"),
            "multipliers": metric(found.multipliers, "cells"),
            "utilisation": metric(round(found.utilisation, 4), "share"),
            "frequency": metric(round(found.mhz, 2), "MHz", better="higher"),
        },
        "harness_registers": found.harness_registers,
        "longest_path": {
            "start": path.start,
            "end": path.end,
            "logic_ns": round(path.logic_ns, 2),
            "routing_ns": round(path.routing_ns, 2),
            "cells": [step.cell for step in path.steps],
        },
        "cells_by_kind": found.cells,
        "uses_by_kind": {kind: vars(use) for kind, use in found.report.uses.items()},
    }


def _lost_outputs(found: Placement) -> int:
    """Bits of the block's outputs that Yosys removed from its mapped netlist.

    Where an output is a memory's read data, Yosys merges the harness's register into the memory and
    removes both: the rest is no measure of the block.
    """
    netlist = json.loads(map_block(found.rtlil, found.params.slug, found.device))
    taken: list[Any] = netlist["modules"][TOP]["netnames"].get(TAKEN, {"bits": []})["bits"]
    return taken.count("x")


def stale_fpga_records(folder: Path = RECORDS) -> dict[str, str]:
    """Records that no longer describe their block, with the command that renews each."""
    records = load_kind(FPGA, folder).items()
    return {name: _renewal(record) for name, record in records if not _fresh(record)}


def _fresh(record: dict[str, Any]) -> bool:
    family = DEVICES[record["device"]].family
    installed = {family.module: family.nextpnr_version} if family.nextpnr_version else {}
    tools = {**tool_versions(), **installed}
    return (
        record["flow_sha256"] == _flow_sha256()
        and all(record["tools"].get(name) == version for name, version in tools.items())
        and record["rtlil_sha256"] == rtlil_sha256(record["spec"], memory_macros=False)
    )


def _renewal(record: dict[str, Any]) -> str:
    clock = "" if record["target_mhz"] == TARGET_MHZ else f" --clock {record['target_mhz']:g}MHz"
    return f"tilewright fpga {record['spec']} --device {record['device']}{clock} --update-records"


def fpga_table(records: Iterable[dict[str, Any]]) -> Table:
    """A row for each record, with both ends of its longest path."""

    def row(record: dict[str, Any]) -> list[Any]:
        value = {name: entry["value"] for name, entry in record["metrics"].items()}
        path = f"{record['longest_path']['start']} -> {record['longest_path']['end']}"
        shares = f"{100 * value['utilisation']:.1f}", f"{value['frequency']:.1f}"
        first = code(record["spec"]), record["device"], record["speed_grade"]["name"]
        return [*first, *(value[name] for name in _COUNTS.values()), *shares, path]

    header = ("block", "device", "grade", *_COUNTS, "device %", "MHz", "longest path")
    return Table(header, [row(record) for record in records])


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
