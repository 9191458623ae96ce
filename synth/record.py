"""Records: results of blocks as committed JSON, a table for each kind and technology.

Hashes of the RTLIL, of the cells and of the flow tell whether a record is up to date.
"""

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tilewright.base.cache import content_key, get_or_make, sources_of
from tilewright.base.code import code_of
from tilewright.base.records import load_table, updated_table
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.resolve import registered_modules, resolve
from tilewright.synth.emit import to_rtlil
from tilewright.synth.flow import DEFAULT_GOAL, Goal, Synthesis
from tilewright.synth.liberty import to_liberty
from tilewright.synth.memory import memory_entries
from tilewright.synth.technology import load_technology
from tilewright.synth.timing import TimingPath

RECORDS = Path(__file__).parent / "records"
SYNTHESIS, ENERGY = "synthesis", "energy"  # kinds of records
DIGESTS = RECORDS / "digests.json"  # RTLIL of all recorded blocks


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# Modules that turn RTLIL into figures: mapping, memories, parts and timing; and figures into
# energy.
_FLOW = ("flow", "clock_gates", "full_adders", "memory", "parts", "timing")
_ENERGY = ("activity", "energy")


@cache
def flow_sha256(technology: str) -> str:
    """Digest of the flow's code, without comments, and of clock gates and memories."""
    table = load_technology(technology)
    data = table.memory, [table.cells[c] for c in table.clock_gates]
    return code_sha256(Path(__file__).parent, _FLOW, repr(data))


@cache
def energy_sha256(technology: str) -> str:
    """Digest of the code that measures energy and of the technology's energies."""
    table = load_technology(technology)
    cells = [(c.name, c.energy, c.input_energy, c.clock_energy) for c in table.cells.values()]
    return code_sha256(Path(__file__).parent, _ENERGY, repr((cells, table.wire_capacitance)))


@cache
def code_sha256(folder: Path, modules: Sequence[str], data: str = "") -> str:
    """Digest of the code of ``modules``, without comments and docstrings, and of ``data``."""
    code = [code_of((folder / f"{module}.py").read_text()) for module in modules]
    return sha256("".join([*code, data]))


def tool_versions() -> dict[str, str]:
    """Every tool that a figure depends on."""
    return {name: version(name) for name in ("amaranth", "pyosys")}


def record_name(
    params: BlockParams, technology: str, goal: Goal = DEFAULT_GOAL, *, gating: bool = True
) -> str:
    """Return the name of a block's record in the tables; without gating it has its own."""
    goals = [] if goal is DEFAULT_GOAL else [goal.value]
    return ".".join([params.slug, technology, *goals, *([] if gating else ["ungated"])])


def table_path(kind: str, technology: str, folder: Path = RECORDS) -> Path:
    """Return the path of a kind's records; ``technology`` may be an FPGA."""
    return folder / f"{kind}.{technology}.json"


def load_kind(kind: str, folder: Path = RECORDS) -> dict[str, dict[str, Any]]:
    """Return all records of a kind by name, sorted."""
    tables = map(load_table, folder.glob(f"{kind}.*.json"))
    return dict(sorted(entry for table in tables for entry in table.items()))


def find_record(
    params: BlockParams,
    technology: str,
    goal: Goal = DEFAULT_GOAL,
    *,
    gating: bool = True,
    kind: str = SYNTHESIS,
    folder: Path = RECORDS,
) -> dict[str, Any] | None:
    """Return the record of a block, or None."""
    table = load_table(table_path(kind, technology, folder))
    return table.get(record_name(params, technology, goal, gating=gating))


def store_record(
    kind: str, technology: str, name: str, record: dict[str, Any], folder: Path = RECORDS
) -> None:
    """Write the committed form of one record into its table."""
    with updated_table(table_path(kind, technology, folder)) as table:
        table[name] = committed_form(record)


def committed_form(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as in tables: no cells by kind, and only the length of the longest path."""
    kept = {key: value for key, value in record.items() if key != "cells_by_kind"}
    if path := kept.get("longest_path"):
        kept["longest_path"] = path | {"cells": len(path["cells"])}
    return kept


def block_record(spec: str, params: BlockParams, rtlil: str, result: Synthesis) -> dict[str, Any]:
    """Return the record of the block ``spec``, its metrics rounded to their accuracy."""
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
        "longest_path": None if result.longest is None else path_entry(result.longest),
        "cells_by_kind": netlist.cell_counts,
        "area_by_part": {part: round(area, 5) for part, area in result.area_by_part.items()},
        "memories": memory_entries(netlist.cell_counts, technology),
    }


def _metrics(result: Synthesis) -> dict[str, dict[str, Any]]:
    netlist = result.netlist
    metrics = {
        "area": metric(round(netlist.area, 5), "um2"),
        "cells": metric(len(netlist.instances), "cells"),
        "register_bits": metric(netlist.register_bits, "bits"),
        "gated_bits": metric(netlist.gated_bits, "bits", better="higher"),
        "clock_gates": metric(len(netlist.clock_gates), "cells"),
        "memory_area": metric(round(netlist.memory_area, 5), "um2"),
        "memory_bits": metric(netlist.memory_bits, "bits"),
        "leakage": metric(round(netlist.leakage, 4), "nW"),
        "delay": metric(round(result.delay, 1), "ps"),
    }
    for kind, path in result.paths.items():
        metrics[f"delay_{kind}"] = metric(round(path.delay, 1), "ps")
    return metrics


def metric(value: float, unit: str, better: str = "lower") -> dict[str, Any]:
    """Return a metric as in records."""
    return {"value": value, "unit": unit, "better": better}


def path_entry(path: TimingPath) -> dict[str, Any]:
    """Return a longest path as in records."""
    cells = [step.cell for step in path.steps if step.cell]
    return {"start": path.start, "end": path.end, "cells": cells}


def store_synthesis(
    record: dict[str, Any], proof: dict[str, Any] | None = None, folder: Path = RECORDS
) -> None:
    """Write a :func:`block_record`; an equal netlist keeps its block's spelling and its proof."""
    technology, gating = record["technology"], record["clock_gating"]
    params, goal = resolve(record["spec"]), Goal(record["goal"])
    name = record_name(params, technology, goal, gating=gating)
    with updated_table(table_path(SYNTHESIS, technology, folder)) as table:
        known = table.get(name, {})
        hashes = ("rtlil_sha256", "liberty_sha256", "netlist_sha256")
        same = all(record[key] == known.get(key) for key in hashes)
        kept = {key: known[key] for key in ("spec", "proof") if same and key in known}
        table[name] = committed_form(record) | kept | ({"proof": proof} if proof else {})


def load_records(folder: Path = RECORDS, *, gating: bool = True) -> dict[str, dict[str, Any]]:
    """Return all records of blocks by name, of netlists with clock gates or without."""
    records = load_kind(SYNTHESIS, folder)
    return {name: record for name, record in records.items() if record["clock_gating"] is gating}


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


def stale_records(folder: Path = RECORDS, *, gating: bool = True) -> dict[str, str]:
    """Records that no longer describe their block, with the command that renews each."""
    return {
        name: _renewal(record)
        for name, record in load_records(folder, gating=gating).items()
        if not is_fresh(record, rtlil_sha256(record["spec"]))
    }


# Sources do not change under a running process, and a large block takes seconds to write.
@cache
def rtlil_sha256(spec: str, *, memory_macros: bool = True) -> str:
    """The digest of a block's RTLIL; elaborated where no committed one is of these sources."""

    def make() -> str:
        return sha256(to_rtlil(resolve(spec), memory_macros=memory_macros))

    committed = _committed_digests().get(rtlil_name(spec, memory_macros=memory_macros))
    if committed is not None:
        return committed
    kind = "digest of RTLIL" + ("" if memory_macros else " with its memories")
    digest: str = get_or_make((kind, spec, rtl_sources()), make)
    return digest


def rtlil_name(spec: str, *, memory_macros: bool) -> str:
    """Name of a block's RTLIL in ``DIGESTS``."""
    return spec if memory_macros else f"{spec} with its memories"


@cache
def _committed_digests() -> dict[str, str]:
    kept = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
    digests: dict[str, str] = kept["digests"] if kept.get("sources") == rtl_sources() else {}
    return digests


@cache
def rtl_sources() -> str:
    """Digest of all sources that decide the RTLIL of a block."""
    own = ("golden.params", "hw", "synth.emit", "synth.signal_names")
    modules = (*(f"tilewright.{name}" for name in own), *registered_modules())
    return content_key([version("amaranth"), *sources_of(*modules)])


@cache
def _liberty_sha256(technology: str) -> str:
    return sha256(to_liberty(load_technology(technology)))


def _renewal(record: dict[str, Any]) -> str:
    goal = record["goal"]
    option = "" if goal == DEFAULT_GOAL.value else f" --goal {goal}"
    option += "" if record["clock_gating"] else " --no-gating"
    technology = record["technology"]
    return f"tilewright synth {record['spec']} --tech {technology}{option} --update-records"
