"""Structures and shares that the committed synthesis records show: memories, areas, power."""

import re
from collections.abc import Mapping
from typing import Any

from tilewright.sim.claims.classes import ClaimClass
from tilewright.sim.evaluations.registry import evaluation
from tilewright.sim.records import read_record

__all__ = [
    *("anda_areas", "deca_areas", "deca_powers", "macro", "part_count"),
    *("part_share", "power_share", "system_share"),
]

# Modules of DECA by the paper's division of area and power; everything else is the "rest".
DECA_PARTS = {"buffers": r"tout\d.*|loader\d\.(load_unit|\w+_queue)", "lut": r"pipeline\.lut"}
# Modules of the Anda accelerator by the rows of the paper's Table III.
ANDA_PARTS = {
    "mxu": ("matrix", "matrix_feeder"),
    "compressor": ("collector",),
    "vector": ("vector", "vector_feeder", "vector_writer"),
    "activation_buffer": ("activations",),
    "weight_buffer": ("weights",),
    "others": ("", "controller", "fetcher", "loader", "registers", "storer", "watchdog"),
}
MACRO = re.compile(r"sram_(?P<entries>\d+)x(?P<bits>\d+)_(?P<reads>\d+)r(?P<writes>\d+)w")


def _macros(unit: str, goal: str, entries: int) -> dict[str, Any]:
    found = read_record("synthesis", unit, goal)["memories"]
    for kind, memory in found.items():
        match = MACRO.match(kind)
        if match and int(match["entries"]) == entries:
            return {
                "count": memory["count"],
                **{name: int(value) for name, value in match.groupdict().items()},
            }
    return {"count": 0, "entries": 0, "bits": 0, "reads": 0, "writes": 0}


@evaluation(ClaimClass.PARAMETER)
def macro(entries: int, figure: str, unit: str = "deca", goal: str = "fastest") -> float:
    """Memories of so many entries in a netlist: ``count``, or ``bits``, ``reads`` of one."""
    return float(_macros(unit, goal, entries)[figure])


@evaluation(ClaimClass.PARAMETER)
def part_count(pattern: str, unit: str = "deca", goal: str = "fastest") -> float:
    """How many parts of a netlist have a name of this form."""
    parts = read_record("synthesis", unit, goal)["area_by_part"]
    return float(sum(re.fullmatch(pattern, name) is not None for name in parts))


def _grouped(sizes: Mapping[str, float]) -> dict[str, float]:
    """Sums over the parts that belong to each of ``DECA_PARTS``, and to none of them."""
    sums = dict.fromkeys((*DECA_PARTS, "rest"), 0.0)
    for name, size in sizes.items():
        found = (g for g, pattern in DECA_PARTS.items() if re.fullmatch(pattern, name))
        sums[next(found, "rest")] += size
    return sums


def deca_areas() -> dict[str, float]:
    """Square micrometres of a DECA, by the paper's division."""
    return _grouped(read_record("synthesis", "deca", "fastest")["area_by_part"])


def deca_powers(run: str) -> dict[str, float]:
    """Milliwatts of a DECA in one run, by the paper's division."""
    parts = read_record("energy", "deca")["runs"][run]["power_by_part"]
    return _grouped({name: figures["total"] for name, figures in parts.items()})


def anda_areas() -> dict[str, float]:
    """Square micrometres of the Anda accelerator, by the rows of the paper's table."""
    parts = read_record("system", "anda")["parts"]
    areas = {name: sizes["logic"] + sizes["memory"] for name, sizes in parts.items()}
    known = {name for names in ANDA_PARTS.values() for name in names}
    if set(areas) != known:
        raise ValueError(f"no row of the table for {', '.join(sorted(set(areas) ^ known))}")
    return {row: sum(areas[name] for name in names) for row, names in ANDA_PARTS.items()}


@evaluation(ClaimClass.NETLIST)
def part_share(group: str) -> float:
    """Percent of a DECA's area, by the paper's division."""
    areas = deca_areas()
    return 100 * areas[group] / sum(areas.values())


@evaluation(ClaimClass.NETLIST)
def power_share(group: str, run: str) -> float:
    """Percent of a DECA's power in one run, by the paper's division."""
    powers = deca_powers(run)
    return 100 * powers[group] / sum(powers.values())


@evaluation(ClaimClass.NETLIST)
def system_share(part: str) -> float:
    """Percent of the Anda accelerator's area, by the rows of the paper's table."""
    areas = anda_areas()
    return 100 * areas[part] / sum(areas.values())
