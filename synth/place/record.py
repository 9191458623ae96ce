"""Records of placed blocks: committed JSON, one file for each block, technology and goal.

A record holds no time or date. It says which RTLIL, cells and code it was made with, so it can be
told whether it still describes its block.
"""

import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.base.code import code_of
from tilewright.synth.flow import DEFAULT_GOAL
from tilewright.synth.place.picture import picture_of
from tilewright.synth.place.place import PlacedBlock
from tilewright.synth.record import (
    RECORDS,
    is_of_this_flow,
    rtlil_sha256,
    sha256,
    tool_versions,
)
from tilewright.synth.record import block_record as synthesis_record

__all__ = [
    "PLACED_RECORDS",
    "load_placed_records",
    "placed_record",
    "placed_record_path",
    "placed_table",
    "stale_placed_records",
]

PLACED_RECORDS = RECORDS / "placed"
_OWN = (
    *("analytic", "buffering", "clock_tree", "congestion", "energy", "floorplan", "layout"),
    *("legalise", "repair", "rules", "sizes", "timing", "wires", "wiring"),
)


@cache
def _place_sha256() -> str:
    """Of the code that places, comments and docstrings left out."""
    texts = (Path(__file__).with_name(f"{name}.py").read_text() for name in _OWN)
    return sha256("".join(map(code_of, texts)))


def placed_record_path(placed: PlacedBlock) -> Path:
    """Return where the record of a placed block lies."""
    goal = placed.synthesis.goal
    suffix = "" if goal is DEFAULT_GOAL else f".{goal.value}"
    technology = placed.layout.technology.name
    return PLACED_RECORDS / f"{placed.params.slug}.{technology}{suffix}.json"


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
        "cells": _metric(len(layout.netlist.instances), "cells"),
        "cell_area": _metric(round(layout.netlist.area, 3), "um2"),
        "die_area": _metric(round(layout.floorplan.area, 2), "um2"),
        "utilisation": _metric(round(layout.utilisation, 4), "share", better="higher"),
        "wire_length": _metric(round(wires.total_length, 1), "um"),
        "delay_before": _metric(round(placed.delay_before, 1), "ps"),
        "delay_placed": _metric(round(placed.delay_placed, 1), "ps"),
        "delay": _metric(round(placed.delay, 1), "ps"),
        "resized": _metric(placed.repaired.resized, "cells"),
        "buffers": _metric(placed.repaired.buffers, "cells"),
        "buffers_removed": _metric(placed.repaired.removed, "cells", better="higher"),
        "congestion_mean": _metric(round(placed.congestion.mean, 3), "share"),
        "congestion_worst": _metric(round(placed.congestion.worst, 3), "share"),
    }
    if placed.clock is not None:
        metrics |= {
            "clock_buffers": _metric(placed.clock.buffers, "cells"),
            "clock_latency": _metric(round(placed.clock.latency, 1), "ps"),
            "clock_skew": _metric(round(placed.clock.skew, 1), "ps"),
            "clock_levels": _metric(placed.clock.levels, "cells"),
            "clock_area": _metric(round(placed.clock.area, 2), "um2"),
            "period": _metric(round(placed.period, 1), "ps"),
        }
    if energies is not None:
        before, after = energies
        metrics["energy_before"] = _metric(round(before, 2), "fJ per MAC")
        metrics["energy"] = _metric(round(after, 2), "fJ per MAC")
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
        "worst_net": _worst_net(placed),
        "longest_path": [step.cell for step in layout.timing.path if step.cell],
        "picture": picture_of(placed),
    }


def _metric(value: float, unit: str, better: str = "lower") -> dict[str, Any]:
    return {"value": value, "unit": unit, "better": better}


def _worst_net(placed: PlacedBlock) -> dict[str, Any] | None:
    net, wires = placed.worst_net, placed.layout.wires
    if net is None:
        return None
    return {
        "name": placed.layout.netlist.net_names.get(net, ""),
        "length_um": round(wires.length[net], 2),
        "sinks": len(wires.trees[net]),
        "load_ff": round(placed.layout.timing.loads[net], 2),
        "wire_ps": round(max(wires.delay[net, p] for _, p, _ in wires.trees[net]), 2),
    }


def load_placed_records(folder: Path = PLACED_RECORDS) -> dict[str, dict[str, Any]]:
    """Every record of ``folder`` by file name."""
    return {path.name: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def stale_placed_records(
    folder: Path = PLACED_RECORDS, watch: Callable[[Iterable[str]], Iterable[str]] = iter
) -> dict[str, str]:
    """Records that no longer describe their block, with the command that renews each."""
    records = load_placed_records(folder)
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
        value = {name: metric["value"] for name, metric in record["metrics"].items()}
        energies = [f"{value[e]:.1f}" if e in value else "" for e in ("energy_before", "energy")]
        cells = [f"`{record['spec']}`", record["technology"], record["goal"], f"{value['cells']:,}"]
        cells += [" x ".join(f"{side:.1f}" for side in record["die_um"])]
        cells += [f"{value['wire_length'] / 1000:.1f}"]
        cells += [f"{value[name]:,.0f}" for name in ("delay_before", "delay_placed", "delay")]
        cells += [f"{value['period']:,.0f}" if "period" in value else ""]  # none without registers
        lines.append("| " + " | ".join([*cells, *energies]) + " |")
    return "\n".join(lines) + "\n"
