"""Area of whole accelerators, part by part: too large to flatten and to time.

Every module is mapped by itself and counted as often as it occurs, so nothing is shared between
modules and no path is measured.
"""

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from math import log
from pathlib import Path
from typing import Any

from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_rtlil
from tilewright.synth.flow import map_modules
from tilewright.synth.liberty import to_liberty
from tilewright.synth.memory import memory_entries
from tilewright.synth.record import RECORDS, find_record, flow_sha256, sha256, tool_versions
from tilewright.synth.technology import Cell, Technology

SYSTEM = "system"  # the kind of record
SYSTEMS = ("anda", "harmonia")  # those with a committed record


@dataclass(frozen=True)
class Area:
    """um2 of gates and registers, and of memory macros."""

    logic: float = 0.0
    memory: float = 0.0

    @property
    def total(self) -> float:
        return self.logic + self.memory

    def __add__(self, other: "Area") -> "Area":
        return Area(self.logic + other.logic, self.memory + other.memory)


def system_area(
    rtlil: str, top: str, technology: Technology
) -> tuple[dict[str, Area], dict[str, int]]:
    """Area of each module inside ``top``, ``""`` for its own, and the number of each macro."""
    modules = map_modules(rtlil, top, technology)

    @cache
    def inside(module: str) -> tuple[Area, Counter[str]]:
        area, macros = Area(), Counter[str]()
        for part in modules[module]:
            if isinstance(part, str):
                more, further = inside(part)
                area += more
                macros.update(further)
            else:
                area += own(part)
                macros.update([part.name] if part.memory_bits else [])
        return area, macros

    parts = {"": sum((own(x) for x in modules[top] if isinstance(x, Cell)), Area())}
    for kind in modules[top]:
        if isinstance(kind, str):
            # Amaranth numbers a module named like a signal.
            name = re.sub(r"\$\d+$", "", kind.removeprefix(f"{top}."))
            parts[name] = parts.get(name, Area()) + inside(kind)[0]
    return parts, dict(sorted(inside(top)[1].items()))


def own(cell: Cell) -> Area:
    return Area(memory=cell.area) if cell.memory_bits else Area(logic=cell.area)


def origin(spec: str, technology: Technology, rtlil: str) -> dict[str, Any]:
    """Return the origin of a whole accelerator's record."""
    own_library = bool(technology.liberty)
    return {
        "spec": spec,
        "technology": technology.name,
        "system_rtlil_sha256": sha256(rtlil),
        "liberty_sha256": None if own_library else sha256(to_liberty(technology)),
        "flow_sha256": None if own_library else flow_sha256(technology.name),
        "tools": tool_versions(),
    }


def system_record(spec: str, technology: Technology) -> dict[str, Any]:
    """Record of ``tilewright synth SPEC --system``."""
    params = resolve(spec)
    rtlil = to_rtlil(params, memory_macros=True)
    parts, macros = system_area(rtlil, params.slug, technology)
    return {
        **origin(spec, technology, rtlil),
        "unit": "um2",
        "parts": {
            name: {"logic": round(a.logic, 3), "memory": round(a.memory, 3)}
            for name, a in sorted(parts.items())
        },
        "memories": memory_entries(macros, technology),
    }


def load_system(spec: str, technology: str, folder: Path = RECORDS) -> dict[str, Any] | None:
    """Return the committed record, or None."""
    return find_record(resolve(spec), technology, kind=SYSTEM, folder=folder)


# Relative areas of nodes, for comparison with figures of other nodes, from A. Stillmaker and
# B. Baas, "Scaling equations for the accurate prediction of CMOS device performance from 180 nm to
# 7 nm", Integration 58 (2017), 74-81, which DECA's paper uses too. 28 nm is interpolated between
# 32 and 20 nm, in logarithms. Only a rough guide: libraries differ in other ways too.
_AREA = {130: 1.0, 32: 0.072, 20: 0.033, 16: 0.03, 7: 0.0092}  # relative to 130 nm
_PLACE = log(32 / 28) / log(32 / 20)  # of 28 nm between 32 and 20
_AREA[28] = _AREA[32] ** (1 - _PLACE) * _AREA[20] ** _PLACE

NODES = tuple(sorted(_AREA))  # nm


def area_factor(source_nm: int, target_nm: int) -> float:
    """Factor that scales an area at ``source_nm`` to one at ``target_nm``."""
    for nm in (source_nm, target_nm):
        if nm not in _AREA:
            raise ValueError(f"no scaling for {nm} nm; nodes: {', '.join(map(str, NODES))}")
    return _AREA[target_nm] / _AREA[source_nm]
