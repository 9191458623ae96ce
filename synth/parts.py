"""Area of the parts of a block, the modules of its design, even where synthesis has merged them.

Registers and memories keep their names, so their parts are known, and a clock gate is named after
one of its registers. Gates of a flattened netlist have lost their names: each counts for the part
of the register, memory or port that it reaches through the fewest gates; ties go to the part whose
name sorts first.
"""

import re
from typing import TypeVar

from tilewright.synth.netlist import Instance, Net, Netlist

DEPTH = 2  # a part of a part is a part of its own; what is inside it is not


def part_names(rtlil: str, top: str) -> list[str]:
    """The modules inside ``top``, as paths of cell names joined by dots, to ``DEPTH`` levels."""
    cells: dict[str, list[tuple[str, str]]] = {}
    for line in re.findall(r"^module \S+|^  cell \\\S+ \S+", rtlil, re.MULTILINE):
        kind, *names = line.split()
        if kind == "module":
            module = cells.setdefault(names[0], [])
        else:
            module.append((names[0], names[1].removeprefix("\\")))
    paths: list[str] = []
    level = [("", f"\\{top}")]
    for _ in range(DEPTH):
        level = [
            (f"{path}.{name}" if path else name, kind)
            for path, module in level
            for kind, name in cells[module]
            if kind in cells
        ]
        paths += [path for path, _ in level]
    return paths


def part_of_each(netlist: Netlist, parts: list[str], *, flattened: bool) -> list[str]:
    """The part, one of ``parts``, that each instance belongs to; ``""`` is the top itself."""
    names = [_part_of(instance.name, parts) for instance in netlist.instances]
    return _spread_to_gates(netlist, names) if flattened and any(names) else names


def area_by_part(netlist: Netlist, part_of: list[str]) -> dict[str, float]:
    """Area of each part without its own parts; empty where there is only the top."""
    if not any(part_of):
        return {}
    areas: dict[str, float] = {}
    for name, instance in zip(part_of, netlist.instances, strict=True):
        areas[name] = areas.get(name, 0.0) + instance.cell.area
    return dict(sorted(areas.items()))


def _part_of(instance: str, parts: list[str]) -> str:
    path = instance.removeprefix("$flatten\\")
    inside = [part for part in parts if path.startswith(f"{part}.")]
    # Amaranth numbers a module named like a signal.
    return re.sub(r"\$\d+", "", max(inside, key=len, default=""))


def _spread_to_gates(netlist: Netlist, names: list[str]) -> list[str]:
    driver: dict[Net, int] = {}
    reached: dict[int, str] = {}
    sinks: dict[Net, str] = {}
    for k, instance in enumerate(netlist.instances):
        if instance.cell.state is not None:
            reached[k] = names[k]
            _lower(sinks, _inputs(instance), names[k])
        for pin in instance.cell.outputs:
            if pin in instance.pins:
                driver[instance.pins[pin]] = k
    for nets in netlist.outputs.values():
        _lower(sinks, nets, "")
    while sinks:
        found: dict[int, str] = {}
        for net, name in sinks.items():
            if net in driver and driver[net] not in reached:
                _lower(found, [driver[net]], name)
        reached |= found
        sinks = {}
        for k, name in found.items():
            _lower(sinks, _inputs(netlist.instances[k]), name)
    return [reached.get(k, "") for k in range(len(names))]


def _inputs(instance: Instance) -> list[Net]:
    cell = instance.cell
    return [instance.pins[pin] for pin in cell.inputs if pin != cell.clock_pin]


Key = TypeVar("Key")


def _lower(names: dict[Key, str], keys: list[Key], name: str) -> None:
    for key in keys:
        names[key] = min(name, names.get(key, name))
