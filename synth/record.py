"""Records: what synthesis found out about one block in one technology, as committed JSON.

A record holds no time or date, so the same sources and tools write the same bytes. Hashes of the
RTLIL, of the cells and of the flow tell whether it is still what synthesis would give. Every metric
knows its unit and its better direction.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tilewright.base.cache import content_key, get_or_make, sources_of
from tilewright.base.code import code_of
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.resolve import registered_modules, resolve
from tilewright.synth.emit import to_rtlil
from tilewright.synth.flow import DEFAULT_GOAL, Goal, Synthesis
from tilewright.synth.liberty import to_liberty
from tilewright.synth.memory import memory_entries
from tilewright.synth.technology import Technology, load_technology
from tilewright.synth.timing import TimingPath

__all__ = [
    "DIGESTS",
    "RECORDS",
    "UNGATED",
    "block_record",
    "energy_sha256",
    "flow_sha256",
    "is_fresh",
    "is_of_this_flow",
    "load_records",
    "read_record",
    "record_path",
    "record_text",
    "rtl_sources",
    "rtlil_name",
    "rtlil_sha256",
    "sha256",
    "stale_records",
    "tool_versions",
]

RECORDS = Path(__file__).parent / "records"
UNGATED = RECORDS / "ungated"  # those of netlists without clock gates, beside the usual ones
DIGESTS = RECORDS / "digests" / "rtlil.json"  # of the RTLIL of all blocks that have a record


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# What turns RTLIL into figures, apart from the tools: mapping, memories, parts and timing; and
# figures into energy.
_FLOW = ("flow", "clock_gates", "full_adders", "memory", "parts", "timing")
_ENERGY = ("activity", "energy")


@cache
def flow_sha256(technology: str) -> str:
    """Of the flow's code, comments and docstrings left out, of clock gates and of memories."""
    table = load_technology(technology)
    return _sha256_of_code(_FLOW, (table.memory, [table.cells[c] for c in table.clock_gates]))


@cache
def energy_sha256(technology: str) -> str:
    """Of the code that measures energy, and of the energies in the technology's table."""
    table = load_technology(technology)
    cells = [(c.name, c.energy, c.input_energy, c.clock_energy) for c in table.cells.values()]
    return _sha256_of_code(_ENERGY, (cells, table.wire_capacitance))


def _sha256_of_code(modules: Iterable[str], data: object) -> str:
    code = [code_of(Path(__file__).with_name(f"{module}.py").read_text()) for module in modules]
    return sha256("".join([*code, repr(data)]))


def tool_versions() -> dict[str, str]:
    """Every tool that a figure depends on."""
    return {name: version(name) for name in ("amaranth", "pyosys")}


def record_path(
    params: BlockParams,
    technology: Technology,
    goal: Goal = DEFAULT_GOAL,
    *,
    gating: bool = True,
) -> Path:
    suffix = "" if goal is DEFAULT_GOAL else f".{goal.value}"
    return (RECORDS if gating else UNGATED) / f"{params.slug}.{technology.name}{suffix}.json"


def record_text(record: dict[str, Any] | list[dict[str, Any]]) -> str:
    """Return a record, or several, as the text of a JSON file."""
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
        "clock_gating": result.gating,
        "rtlil_sha256": sha256(rtlil),
        "liberty_sha256": None if technology.liberty else sha256(to_liberty(technology)),
        "flow_sha256": None if technology.liberty else flow_sha256(technology.name),
        "netlist_sha256": sha256(result.verilog),
        "tools": tool_versions(),
        "metrics": _metrics(result),
        "longest_path": _path(result),
        "cells_by_kind": netlist.cell_counts,
        "area_by_part": {part: round(area, 5) for part, area in result.area_by_part.items()},
        "memories": memory_entries(netlist.cell_counts, technology),
    }


def _metrics(result: Synthesis) -> dict[str, dict[str, Any]]:
    netlist = result.netlist
    metrics = {
        "area": _metric(round(netlist.area, 5), "um2"),
        "cells": _metric(len(netlist.instances), "cells"),
        "register_bits": _metric(netlist.register_bits, "bits"),
        "gated_bits": _metric(netlist.gated_bits, "bits", better="higher"),
        "clock_gates": _metric(len(netlist.clock_gates), "cells"),
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


def read_record(path: Path) -> dict[str, Any]:
    """Return the record in the file ``path``, which is refused if it holds no metrics."""
    try:
        record: dict[str, Any] = json.loads(path.read_text())
        record["metrics"]
    except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError):
        raise ValueError(f"{path} is not a synthesis record") from None
    return record


def is_fresh(record: dict[str, Any], rtlil_sha256: str) -> bool:
    """Whether block, cells, flow and tools are still those the record was made with."""
    technology = record["technology"]
    return record["rtlil_sha256"] == rtlil_sha256 and is_of_this_flow(record, technology)


def is_of_this_flow(record: dict[str, Any], technology: str) -> bool:
    """Whether a record of any kind was made with these cells, this flow and these tools."""
    made_with = {
        "liberty_sha256": _liberty_sha256(technology),
        "flow_sha256": flow_sha256(technology),
        "tools": tool_versions(),
    }
    return all(record.get(key) == value for key, value in made_with.items())


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
        if not is_fresh(records[name], rtlil_sha256(records[name]["spec"]))
    }


# Sources do not change under a running process, and a large block takes seconds to write.
@cache
def rtlil_sha256(spec: str, *, memory_macros: bool = True) -> str:
    """The digest of a block's RTLIL.

    To elaborate all blocks that have records takes minutes, so the digests are committed beside the
    sources that they are of. A block without one, or of other sources, is elaborated; the outcome
    is cached by all sources that decide it.
    """

    def make() -> str:
        return sha256(to_rtlil(resolve(spec), memory_macros=memory_macros))

    committed = _committed_digests().get(rtlil_name(spec, memory_macros=memory_macros))
    if committed is not None:
        return committed
    kind = "digest of RTLIL" + ("" if memory_macros else " with its memories")
    digest: str = get_or_make((kind, spec, rtl_sources()), make)
    return digest


def rtlil_name(spec: str, *, memory_macros: bool) -> str:
    """What the RTLIL of a block is called in ``DIGESTS``."""
    return spec if memory_macros else f"{spec} with its memories"


@cache
def _committed_digests() -> dict[str, str]:
    """By name; none where they are of other sources than these."""
    kept = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
    digests: dict[str, str] = kept["digests"] if kept.get("sources") == rtl_sources() else {}
    return digests


@cache
def rtl_sources() -> str:
    """All that decides the RTLIL of a block, beside its parameters."""
    own = ("golden.params", "hw", "synth.emit", "synth.signal_names")
    modules = (*(f"tilewright.{name}" for name in own), *registered_modules())
    return content_key([version("amaranth"), *sources_of(*modules)])


@cache
def _liberty_sha256(technology: str) -> str:
    return sha256(to_liberty(load_technology(technology)))


def _renewal(record: dict[str, Any]) -> str:
    goal = record["goal"]
    option = "" if goal == DEFAULT_GOAL.value else f" --goal {goal}"
    option += "" if record.get("clock_gating", True) else " --no-gating"
    technology = record["technology"]
    return f"tilewright synth {record['spec']} --tech {technology}{option} --update-records"
