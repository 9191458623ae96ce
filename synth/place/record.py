"""Records of placed blocks: committed JSON, a table for each technology.

A record holds no time or date. It says which RTLIL, cells and code it was made with, so it can be
told whether it still describes its block.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tilewright.synth.flow import DEFAULT_GOAL
from tilewright.synth.place.place import PlacedBlock
from tilewright.synth.record import (
    RECORDS,
    code_sha256,
    is_of_this_flow,
    load_kind,
    metric,
    rtlil_sha256,
    tool_versions,
)
from tilewright.synth.record import block_record as synthesis_record

PLACED = "placed"  # the kind of record
_OWN = (
    *("analytic", "clock_tree", "floorplan", "layout", "place", "repair", "rules", "timing"),
    "wires",
)


def _place_sha256() -> str:
    return code_sha256(Path(__file__).parent, _OWN)


def placed_record(
    placed: PlacedBlock, energies: tuple[float, float] | None = None
) -> dict[str, Any]:
    """What is known of a placed block, its figures rounded to what they can mean.

    ``energies`` are fJ per multiply-add before and after placement, for PEs.
    """
    made = synthesis_record(placed.spec, placed.params, placed.rtlil, placed.synthesis)
    kept = ("block", "spec", "parameters", "technology", "corner", "goal", "rtlil_sha256")
    layout, wires = placed.layout, placed.layout.wires
    metrics = {
        "cells": metric(len(layout.netlist.instances), "cells"),
        "cell_area": metric(round(layout.netlist.area, 3), "um2"),
        "die_area": metric(round(layout.floorplan.area, 2), "um2"),
        "utilisation": metric(round(layout.utilisation, 4), "share", better="higher"),
        "wire_length": metric(round(wires.total_length, 1), "um"),
        "delay_before": metric(round(placed.delay_before, 1), "ps"),
        "delay_placed": metric(round(placed.delay_placed, 1), "ps"),
        "delay": metric(round(placed.delay, 1), "ps"),
        "resized": metric(placed.repaired.resized, "cells"),
        "buffers": metric(placed.repaired.buffers, "cells"),
        "buffers_removed": metric(placed.repaired.removed, "cells", better="higher"),
        "congestion_mean": metric(round(placed.congestion.mean, 3), "share"),
        "congestion_worst": metric(round(placed.congestion.worst, 3), "share"),
    }
    if placed.clock is not None:
        metrics |= {
            "clock_buffers": metric(placed.clock.buffers, "cells"),
            "clock_latency": metric(round(placed.clock.latency, 1), "ps"),
            "clock_skew": metric(round(placed.clock.skew, 1), "ps"),
            "clock_levels": metric(placed.clock.levels, "cells"),
            "clock_area": metric(round(placed.clock.area, 2), "um2"),
            "period": metric(round(placed.period, 1), "ps"),
        }
    if energies is not None:
        before, after = energies
        metrics["energy_before"] = metric(round(before, 2), "fJ per MAC")
        metrics["energy"] = metric(round(after, 2), "fJ per MAC")
    return {
        **{key: made[key] for key in kept},
        "asked_utilisation": placed.asked_utilisation,
        "liberty_sha256": made["liberty_sha256"],
        "flow_sha256": made["flow_sha256"],
        "place_sha256": _place_sha256(),
        "tools": tool_versions(),
        "kind": "estimate before routing",
        "metrics": metrics,
        "die_um": [round(layout.floorplan.width, 2), round(layout.floorplan.height, 2)],
    }


def stale_placed_records(
    folder: Path = RECORDS, watch: Callable[[Iterable[str]], Iterable[str]] = iter
) -> dict[str, str]:
    """Records that no longer describe their block, with the command that renews each."""
    records = load_kind(PLACED, folder)
    return {name: _renewal(records[name]) for name in watch(records) if not _fresh(records[name])}


def _fresh(record: dict[str, Any]) -> bool:
    return (
        record["place_sha256"] == _place_sha256()
        and is_of_this_flow(record, record["technology"])
        and record["rtlil_sha256"] == rtlil_sha256(record["spec"])
    )


def _renewal(record: dict[str, Any]) -> str:
    goal = "" if record["goal"] == DEFAULT_GOAL.value else f" --goal {record['goal']}"
    return f"tilewright place {record['spec']} --tech {record['technology']}{goal} --update-records"


_HEADER = (
    *("block", "technology", "goal", "cells", "die, um", "wires, mm", "delay without wires, ps"),
    *("placed, ps", "repaired, ps", "clock that holds, ps", "fJ/MAC before", "placed"),
)


def placed_table(records: Iterable[dict[str, Any]]) -> str:
    """The records as the table of docs/physical.md."""
    lines = ["| " + " | ".join(_HEADER) + " |", "|" + "---|" * len(_HEADER)]
    for record in records:
        value = {name: entry["value"] for name, entry in record["metrics"].items()}
        energies = [f"{value[e]:.1f}" if e in value else "" for e in ("energy_before", "energy")]
        cells = [f"`{record['spec']}`", record["technology"], record["goal"], f"{value['cells']:,}"]
        cells += [" x ".join(f"{side:.1f}" for side in record["die_um"])]
        cells += [f"{value['wire_length'] / 1000:.1f}"]
        cells += [f"{value[name]:,.0f}" for name in ("delay_before", "delay_placed", "delay")]
        cells += [f"{value['period']:,.0f}" if "period" in value else ""]  # none without registers
        lines.append("| " + " | ".join([*cells, *energies]) + " |")
    return "\n".join(lines) + "\n"
