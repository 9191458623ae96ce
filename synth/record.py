"""Records: what synthesis found out about one block in one technology, as committed JSON.

A record holds no time or date, so the same sources and tools write the same bytes; ``rtlil_sha256``
tells whether it still describes the block. Every metric knows its unit and its better direction.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from golden.params.block import BlockParams
from golden.params.resolve import resolve
from synth.emit import to_rtlil
from synth.flow import DEFAULT_GOAL, Goal, Synthesis
from synth.liberty import to_liberty
from synth.technology import Technology, load_technology
from synth.timing import TimingPath

__all__ = [
    "RECORDS",
    "block_record",
    "is_fresh",
    "load_records",
    "record_path",
    "record_text",
    "sha256",
    "stale_records",
    "tool_versions",
]

RECORDS = Path(__file__).parent / "records"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def tool_versions() -> dict[str, str]:
    """Every tool that a figure depends on."""
    return {name: version(name) for name in ("amaranth", "pyosys")}


def record_path(params: BlockParams, technology: Technology, goal: Goal = DEFAULT_GOAL) -> Path:
    suffix = "" if goal is DEFAULT_GOAL else f".{goal.value}"
    return RECORDS / f"{params.slug}.{technology.name}{suffix}.json"


def record_text(record: dict[str, Any]) -> str:
    return json.dumps(record, indent=2) + "\n"


def block_record(spec: str, params: BlockParams, rtlil: str, result: Synthesis) -> dict[str, Any]:
    """What is known about the block ``spec``, its metrics rounded to what they can mean."""
    technology, netlist = result.technology, result.netlist
    return {
        "block": params.block,
        "spec": spec,
        "parameters": params.as_dict(),
        "technology": technology.name,
        "corner": technology.corner,
        "goal": result.goal.value,
        "rtlil_sha256": sha256(rtlil),
        "liberty_sha256": None if technology.liberty else sha256(to_liberty(technology)),
        "tools": tool_versions(),
        "metrics": _metrics(result),
        "longest_path": _path(result),
        "cells_by_kind": netlist.cell_counts,
        "area_by_part": {part: round(area, 5) for part, area in result.area_by_part.items()},
    }


def _metrics(result: Synthesis) -> dict[str, dict[str, Any]]:
    netlist = result.netlist
    metrics = {
        "area": _metric(round(netlist.area, 5), "um2"),
        "cells": _metric(len(netlist.instances), "cells"),
        "register_bits": _metric(netlist.register_bits, "bits"),
        "memory_area": _metric(round(netlist.memory_area, 5), "um2"),
        "memory_bits": _metric(netlist.memory_bits, "bits"),
        "leakage": _metric(round(netlist.leakage, 4), "nW"),
        "delay": _metric(round(result.delay, 1), "ps"),
    }
    for kind, path in result.paths.items():
        metrics[f"delay_{kind}"] = _metric(round(path.delay, 1), "ps")
    return metrics


def _metric(value: float, unit: str, better: str = "lower") -> dict[str, Any]:
    return {"value": value, "unit": unit, "better": better}


def _path(result: Synthesis) -> dict[str, Any] | None:
    path: TimingPath | None = result.longest
    if path is None:
        return None
    return {
        "start": path.start,
        "end": path.end,
        "cells": [step.cell for step in path.steps if step.cell],
    }


def load_records(folder: Path = RECORDS) -> dict[str, dict[str, Any]]:
    """Every block record of ``folder`` by file name."""
    loaded = {path.name: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    return {name: record for name, record in loaded.items() if "rtlil_sha256" in record}


def is_fresh(record: dict[str, Any], rtlil_sha256: str) -> bool:
    """Whether block, cells and tools are still those the record was made with."""
    return (record["rtlil_sha256"], record["liberty_sha256"], record["tools"]) == (
        rtlil_sha256,
        _liberty_sha256(record["technology"]),
        tool_versions(),
    )


def stale_records(
    folder: Path = RECORDS, watch: Callable[[Iterable[str]], Iterable[str]] = iter
) -> dict[str, str]:
    """Records that no longer describe their block, with the command that renews each.

    ``watch`` sees the names of the records as they are looked at, for who wants to show progress.
    """
    records = load_records(folder)
    return {
        name: _renewal(records[name])
        for name in watch(records)
        if not is_fresh(records[name], _rtlil_sha256(records[name]["spec"]))
    }


# Sources do not change under a running process, and a large block takes seconds to write.
@cache
def _rtlil_sha256(spec: str) -> str:
    return sha256(to_rtlil(resolve(spec), memory_macros=True))


@cache
def _liberty_sha256(technology: str) -> str:
    return sha256(to_liberty(load_technology(technology)))


def _renewal(record: dict[str, Any]) -> str:
    goal = record["goal"]
    option = "" if goal == DEFAULT_GOAL.value else f" --goal {goal}"
    technology = record["technology"]
    return f"tilewright synth {record['spec']} --tech {technology}{option} --update-records"
