"""Blocks whose cells are placed, and blocks that are routed on FPGAs."""

from collections.abc import Iterable
from typing import Any

from tilewright.report.html import Markup, code, join, note, paragraph, section, table
from tilewright.report.page import Context, Page
from tilewright.synth.fpga.devices import NOT_OFFERED
from tilewright.synth.fpga.record import FPGA
from tilewright.synth.place.record import PLACED, stale_placed_records
from tilewright.synth.record import load_kind

TITLE = "Placed"
POSITION = 36

COMMAND = "tilewright place --update-records"


def build(context: Context) -> Page:
    placed, fpga = load_kind(PLACED, context.records), load_kind(FPGA, context.records)
    stale = stale_placed_records(context.records, lambda names: context.track("placed", names))
    return Page(
        summary=f"{len(placed)} blocks with their cells placed, an estimate before routing, and"
        f" {len(fpga)} routed on FPGAs.",
        body=join([_figures(placed.values()), _fpga(fpga.values())]),
        data={"placed": list(placed.values()), "fpga": list(fpga.values())},
        problems=[f"{name} is old; to renew it: {command}" for name, command in stale.items()],
    )


def _values(record: dict[str, Any]) -> dict[str, Any]:
    return {name: metric["value"] for name, metric in record["metrics"].items()}


def _figures(records: Iterable[dict[str, Any]]) -> Markup:
    rows = []
    for record in records:
        value = _values(record)
        rows.append(
            (
                *(code(record["spec"]), record["technology"], record["goal"], value["cells"]),
                *(value["die_area"], value["wire_length"]),
                *(value["delay_before"], value["delay_placed"], value["delay"]),
                f"{100 * (value['delay'] / value['delay_before'] - 1):+.0f}",
                *(value.get("energy_before", ""), value.get("energy", "")),
                *(value.get("clock_skew"), value.get("period"), value["congestion_worst"]),
            )
        )
    return section(
        "Cells in rows",
        paragraph(
            "An estimate before routing: every net has a length, no wire has a layer. Delays are"
            " without wires, with them, and after timing repair; energy is of the comparison of"
            " PEs, before placement with wires of average length, after it with each net's own and"
            " with a clock tree. The clock that holds is the repaired delay and the tree's skew."
            " What each number includes is in docs/physical.md.",
        ),
        table(
            (
                *("Block", "Technology", "Goal", "Cells", "Die, µm²", "Wires, µm"),
                *("Without wires, ps", "Placed, ps", "Repaired, ps", "Change, %"),
                *("fJ/MAC before", "fJ/MAC placed", "Clock skew, ps", "Clock that holds, ps"),
                "Worst tile, share",
            ),
            rows,
        ),
        note("Source:", code("synth/records/placed.*.json"), "made by", code(COMMAND)),
    )


def _fpga(records: Iterable[dict[str, Any]]) -> Markup:
    rows = []
    for record in records:
        value = _values(record)
        rows.append(
            (
                *(code(record["spec"]), record["device"], record["speed_grade"]["name"]),
                *(value["luts"], value["registers"], value["block_rams"], value["multipliers"]),
                value["frequency"],
            )
        )
    return section(
        "Routed on FPGAs",
        table(
            ("Block", "Device", "Grade", "LUTs", "Registers", "Block RAM", "DSP", "MHz, routed"),
            rows,
        ),
        *(
            paragraph(f"Not offered: {family}, as {reason}.")
            for family, reason in NOT_OFFERED.items()
        ),
        note(
            "Source:",
            code("synth/records/fpga.*.json"),
            "made by",
            code("tilewright fpga --update-records"),
        ),
    )
