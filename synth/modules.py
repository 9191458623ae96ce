"""Area of a design module by module: equal modules are mapped once, and cached by content.

For many variants of one design, as :mod:`tilewright.synth.system` for one.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.base.cache import get_or_make, source_of
from tilewright.synth.flow import map_modules
from tilewright.synth.liberty import to_liberty
from tilewright.synth.memory import macro_cell, parse_macro
from tilewright.synth.record import tool_versions
from tilewright.synth.system import Area, own
from tilewright.synth.technology import Cell, Technology

_MODULE = re.compile(r"^module \\(\S+)\n(.*?)^end\n", re.MULTILINE | re.DOTALL)
_CELL = re.compile(r"^  cell \\(\S+) (\S+)\n(.*?)^  end\n", re.MULTILINE | re.DOTALL)
_CONNECT = re.compile(r"^    connect (\S+) ", re.MULTILINE)
_PORT = re.compile(r"^  wire width (\d+) (input|output) \d+ +(\S+)$", re.MULTILINE)
_NAME = re.compile(r"[\\$][^\s\[\]]+")
_NUMBER = re.compile(r"\$\d+")


@dataclass(frozen=True)
class Module:
    """A module by itself."""

    text: str  # RTLIL with the module as top and its parts as black boxes
    parts: tuple[str, ...]  # the modules inside it, one name per instance


def read_modules(rtlil: str) -> dict[str, Module]:
    """Every module of a design by name. Modules that differ in names alone have equal texts."""
    bodies = dict(_MODULE.findall(rtlil))
    return {name: _alone(body, bodies) for name, body in bodies.items()}


def area_by_modules(rtlil: str, top: str, technology: Technology) -> Area:
    """Area of ``top`` and all its contents."""
    modules = read_modules(rtlil)
    own_area = {
        text: _own_area(text, technology)
        for text in dict.fromkeys(m.text for m in modules.values())
    }
    known: dict[str, Area] = {}

    def area(name: str) -> Area:
        if name not in known:
            module = modules[name]
            known[name] = sum(map(area, module.parts), own_area[module.text])
        return known[name]

    return area(top)


def _own_area(text: str, technology: Technology) -> Area:
    """Area of a module without its parts. Gates are cached, memories use the current model."""

    def make() -> dict[str, Any]:
        everything = map_modules(text, "top", technology)["top"]
        cells = [cell for cell in everything if isinstance(cell, Cell)]
        macros = Counter(cell.name for cell in cells if cell.memory_bits)
        return {"logic": sum(own(cell).logic for cell in cells), "macros": macros}

    ingredients = (
        "area of a module",
        text,
        to_liberty(technology),
        repr(tool_versions()),
        source_of(*(f"tilewright.synth.{name}" for name in ("flow", "clock_gates", "full_adders"))),
        repr([technology.cells[name] for name in technology.clock_gates]),
    )
    found = get_or_make(ingredients, make)
    memory = sum(
        count * macro_cell(parse_macro(name), technology).area
        for name, count in found["macros"].items()
    )
    return Area(found["logic"], memory)


def _alone(body: str, bodies: Mapping[str, str]) -> Module:
    """The module as ``top``, its parts and their ports numbered, its other names renumbered."""
    parts = [kind for kind, _, _ in _CELL.findall(body) if kind in bodies]
    place = {kind: k for k, kind in enumerate(dict.fromkeys(parts))}
    ports = {kind: _PORT.findall(bodies[kind]) for kind in place}
    number = {kind: {name: k for k, (_, _, name) in enumerate(ports[kind])} for kind in place}

    def renamed(cell: re.Match[str]) -> str:
        kind, instance, connects = cell.groups()
        if kind not in place:
            return cell[0]

        def port(connect: re.Match[str]) -> str:
            return f"    connect {_port_name(number[kind][connect[1]])} "

        return f"  cell {_part_name(place[kind])} {instance}\n{_CONNECT.sub(port, connects)}  end\n"

    boxes = [_black_box(place[kind], ports[kind]) for kind in place]
    text = "module \\top\n" + _CELL.sub(renamed, body) + "end\n"
    return Module("".join([_counted_afresh(text), *boxes]), tuple(parts))


def _black_box(place: int, ports: list[tuple[str, str, str]]) -> str:
    wires = [
        f"  wire width {width} {direction} {k} {_port_name(k)}\n"
        for k, (width, direction, _) in enumerate(ports)
    ]
    lines = ["attribute \\blackbox 1\n", f"module {_part_name(place)}\n", *wires, "end\n"]
    return "".join(lines)


def _part_name(k: int) -> str:
    return f"\\part_{k}"


def _port_name(k: int) -> str:
    return f"\\port_{k}"


def _counted_afresh(text: str) -> str:
    """Renumber within the module: Amaranth's numbers of names depend on the whole design."""
    fresh: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        old = match[0]
        if _NUMBER.search(old) is None:
            return old
        if old not in fresh:
            fresh[old] = f"{_NUMBER.sub('', old) or '$'}${len(fresh)}"
        return fresh[old]

    return _NAME.sub(name, text)
