"""Records of laid-out blocks: committed JSON, a table for each technology."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.base.table import Table, code
from tilewright.synth.flow import DEFAULT_GOAL
from tilewright.synth.layout.layout import Layout
from tilewright.synth.layout.library import TABLE
from tilewright.synth.record import (
    RECORDS,
    block_record,
    code_sha256,
    is_of_this_flow,
    load_kind,
    metric,
    rtlil_sha256,
    tool_versions,
)

LAYOUT = "layout"  # the kind of record


@cache
def layout_sha256() -> str:
    """Digest of the code that lays out and measures, and of its technologies."""
    modules = ("inside", "layout", "library", "energy")
    return code_sha256(Path(__file__).parent, modules, TABLE.read_text())


def layout_record(layout: Layout, energies: tuple[float, float] | None = None) -> dict[str, Any]:
    """The record of a laid-out block; ``energies`` are fJ per MAC before and after layout."""
    made = block_record(layout.spec, layout.params, layout.rtlil, layout.synthesis)
    shared = ("block", "spec", "parameters", "technology", "corner", "goal", "rtlil_sha256")
    last, figures = layout.last, layout.last.figures
    metrics = {
        "cells": metric(int(figures["cells"]), "cells"),
        "cell_area": metric(round(figures["cell_area"], 3), "um2"),
        "die_area": metric(round(figures["width"] * figures["height"], 2), "um2"),
        "utilisation": metric(round(figures["utilisation"], 4), "share", better="higher"),
        "period_before": metric(round(layout.period_before, 1), "ps"),
    }
    for step in layout.steps:
        metrics[f"period_{step}"] = metric(round(layout.period(step), 1), "ps")
    if last.wire_by_layer:
        metrics["wire_length"] = metric(round(sum(last.wire_by_layer.values()), 1), "um")
    if "skew" in figures:
        metrics["clock_latency"] = metric(round(figures["latency"], 1), "ps")
        metrics["clock_skew"] = metric(round(figures["skew"], 1), "ps")
        metrics["hold_slack"] = metric(round(figures["hold_slack"], 1), "ps", better="higher")
    if last.violations is not None:
        metrics["violations"] = metric(last.violations, "places")
        metrics["antenna_violations"] = metric(int(figures["antenna_violations"]), "nets")
        metrics["vias"] = metric(last.vias or 0, "vias")
    if energies is not None:
        before, after = energies
        metrics["energy_before"] = metric(round(before, 2), "fJ per MAC")
        metrics["energy"] = metric(round(after, 2), "fJ per MAC")
    return {
        **{key: made[key] for key in shared},
        "step": last.name,
        "clock_ps": layout.clock,
        "asked_utilisation": layout.utilisation,
        "liberty_sha256": made["liberty_sha256"],
        "flow_sha256": made["flow_sha256"],
        "layout_sha256": layout_sha256(),
        "tools": tool_versions(),
        "openroad": layout.engine,
        "metrics": metrics,
    }


def period_of(record: dict[str, Any]) -> float:
    """Least clock period (ps) after a record's last step."""
    value: float = record["metrics"][f"period_{record['step']}"]["value"]
    return value


def stale_layout_records(folder: Path = RECORDS) -> dict[str, str]:
    """Records that no longer describe their block, with the command that renews each."""
    records = load_kind(LAYOUT, folder).items()
    return {name: _renewal(record) for name, record in records if not _fresh(record)}


def _fresh(record: dict[str, Any]) -> bool:
    return (
        record["layout_sha256"] == layout_sha256()
        and is_of_this_flow(record, record["technology"])
        and record["rtlil_sha256"] == rtlil_sha256(record["spec"])
    )


def _renewal(record: dict[str, Any]) -> str:
    goal = "" if record["goal"] == DEFAULT_GOAL.value else f" --goal {record['goal']}"
    options = f"--tech {record['technology']} --to {record['step']}{goal}"
    return f"tilewright layout {record['spec']} {options} --update-records"


_COLUMNS = {  # heading -> metric, digits
    "cells": ("cells", 0),
    "die um2": ("die_area", 1),
    "filled": ("utilisation", 2),
    "wires um": ("wire_length", 0),
    "no wires ps": ("period_before", 1),
    "placed ps": ("period_placed", 1),
    "clock tree ps": ("period_cts", 1),
    "global ps": ("period_global", 1),
    "routed ps": ("period_routed", 1),
    "skew ps": ("clock_skew", 1),
    "violations": ("violations", 0),
    "fJ/MAC": ("energy_before", 1),
    "laid out fJ/MAC": ("energy", 1),
}


def layout_table(records: Iterable[dict[str, Any]]) -> Table:
    """A row for each block, technology and goal."""

    def row(record: dict[str, Any]) -> list[Any]:
        found = (record["metrics"].get(name) for name, _ in _COLUMNS.values())
        figures = [
            "" if metric is None else f"{metric['value']:.{digits}f}"
            for metric, (_, digits) in zip(found, _COLUMNS.values(), strict=True)
        ]
        return [code(record["spec"]), record["technology"], record["goal"], *figures]

    return Table(("block", "tech", "goal", *_COLUMNS), [row(record) for record in records])
