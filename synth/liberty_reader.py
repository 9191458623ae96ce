"""A user's Liberty files as a technology: cells, functions, NLDM tables and clock gates.

Left out: power, noise, wire loads, scan, tri-state and other special cells, conditional arcs beyond
their worst case. Unreadable or missing data is refused in one line.
"""

import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tilewright.synth.function import parse_function, truth_table
from tilewright.synth.technology import Arc, Cell, ClockGate, Edge, State, Table, Technology
from tilewright.synth.yosys import SynthesisError

_ITEM = re.compile(
    r"""(?:\s|\\\n|/\*.*?\*/|//[^\n]*)*+
    (?: (?P<close>\})
      | (?P<name>[\w.\[\]-]+)\s*
        (?: :\s*(?P<value>"[^"]*"|[^;{}"\n]*)[ \t]*(?:;|\n|(?=\}))
          | \((?P<arguments>(?:"[^"]*"|[^"()]+)*+)\)\s*(?P<open>\{|;?) )
      | (?P<stray>;) )""",
    re.VERBOSE | re.DOTALL,
)
_REST = re.compile(r"(?:\s|/\*.*?\*/|//[^\n]*)*\Z", re.DOTALL)
_PREFIX = {"f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3}
_SENSE = {"positive_unate": "+", "negative_unate": "-", "non_unate": "*"}
_SPECIAL = frozenset({"bus", "bundle", "statetable", "test_cell"})


@dataclass
class Group:
    """``kind (names) { attributes; groups }``; attribute values are verbatim text."""

    kind: str
    names: tuple[str, ...]
    attributes: dict[str, str] = field(default_factory=dict)
    groups: list["Group"] = field(default_factory=list)

    def of_kind(self, kind: str) -> Iterator["Group"]:
        return (group for group in self.groups if group.kind == kind)


def read_text(path: Path) -> str:
    """The text of a Liberty file, gzipped or plain."""
    data = path.read_bytes()
    try:
        return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        raise SynthesisError(f"{path}: not a Liberty file ({error})") from None


def parse_liberty(text: str, source: str) -> Group:
    """The ``library`` group of ``text``; ``source`` names it in refusals."""
    root = Group("", ())
    stack, place = [root], 0
    while not _REST.match(text, place):
        match = _ITEM.match(text, place)
        if match is None or (match["close"] and len(stack) == 1):
            line = text.count("\n", 0, place) + 1
            rest = text[place:].strip().split("\n")[0][:40]
            raise SynthesisError(f"{source}: line {line}: cannot read {rest!r}")
        place = match.end()
        if match["close"]:
            stack.pop()
        elif match["open"] == "{":
            group = Group(match["name"], _names(match["arguments"]))
            stack[-1].groups.append(group)
            stack.append(group)
        elif match["name"]:
            value = match["arguments"] if match["value"] is None else match["value"]
            stack[-1].attributes[match["name"]] = value.strip().strip('"')
    if len(stack) > 1:
        names = " ".join(" ".join(stack[-1].names).split())  # a quoted one may have several lines
        raise SynthesisError(f"{source}: ends inside {stack[-1].kind} {names[:80]}")
    library = next(root.of_kind("library"), None)
    if library is None:
        raise SynthesisError(f"{source}: has no library group")
    return library


def read_liberty(
    paths: Sequence[Path], *, dont_use: Sequence[str] = (), like: Technology | None = None
) -> Technology:
    """One technology from the cells of all files.

    Inputs are driven by the smallest buffer (or inverter), outputs carry four of its inputs, the
    clock has the slew of an inverter driving four of its kind; ``like`` gives another technology's
    constraints instead.
    """
    libraries = [parse_liberty(read_text(path), str(path)) for path in paths]
    name = ", ".join(path.name for path in paths)
    groups = [
        (group, scale)
        for library, path in zip(libraries, paths, strict=True)
        for scale in [_Scale(library, str(path))]
        for group in library.of_kind("cell")
    ]
    cells = {cell.name: cell for cell in (_cell(*entry) for entry in groups) if cell is not None}
    for known in cells.values():
        _require_functions(known, name)
    usable = {
        own: cell
        for own, cell in cells.items()
        if not any(fnmatchcase(own, pattern) for pattern in dont_use)
    }
    if groups and not cells:
        raise SynthesisError(f"{name}: no cell has a function: it has no usable cell")
    inverter, buffer = _smallest(usable, 0b01), _smallest(usable, 0b10)
    _require_gates(usable, inverter, name)
    assert inverter is not None
    clock_slew = like.clock_slew if like else _fanout_of_four_slew(inverter)
    for group, scale in groups:
        cell = cells.get(group.names[0])
        if cell is not None and cell.state is not None:
            cells[cell.name] = replace(cell, setup=_setup(group, scale, clock_slew))
    driver = cells[like.drive_cell] if like else buffer or inverter
    return Technology(
        name=name,
        title=", ".join(library.names[0] for library in libraries if library.names),
        corner="as in the files",
        cells=cells,
        drive_cell=driver.name,
        output_load=like.output_load if like else 4 * next(iter(driver.inputs.values())),
        clock_slew=clock_slew,
        tie_high=_tie(cells, "1"),
        tie_low=_tie(cells, "0"),
        supply=float(libraries[0].attributes.get("nom_voltage", "0")),
        dont_use=tuple(dont_use),
        liberty=tuple(path.resolve() for path in paths),
    )


def _names(arguments: str) -> tuple[str, ...]:
    return tuple(part.strip().strip('"') for part in arguments.split(",") if part.strip())


class _Scale:
    """Factors from a file's units to ps, fF and nW, and the axes its tables refer to."""

    def __init__(self, library: Group, source: str):
        def factor(name: str, default: str, unit: str) -> float:
            text = library.attributes.get(name, default)
            number = rf'([\d.]+)\s*,?\s*"?([munpfk]?){unit}"?'
            match = re.fullmatch(number, text.strip(), re.IGNORECASE)
            if match is None:
                raise SynthesisError(f"{source}: cannot read {name} {text!r}")
            return float(match[1]) * _PREFIX[match[2].lower()]

        self.time = factor("time_unit", "1ns", "s") / 1e-12
        self.leakage = factor("leakage_power_unit", "1nW", "W") / 1e-9
        self.load = factor("capacitive_load_unit", "1, pf", "f") / 1e-15
        self.templates = {
            group.names[0]: group.attributes for group in library.of_kind("lu_table_template")
        }


# Kinds of gating cells: a latch open at 0 and an AND; the second also has a pin for tests that is
# an enable before the latch.
_GATES = ("latch_posedge", "latch_posedge_precontrol")


def _cell(group: Group, scale: _Scale) -> Cell | None:
    """A gate, register or clock gate without its setup times; None for what has no use here."""
    pins = {pin.names[0]: pin for pin in group.of_kind("pin")}
    gating = "clock_gating_integrated_cell" in group.attributes
    found = _clock_gate(group, pins, scale) if gating else _plain(group, pins)
    if found is None:
        return None
    inputs, outputs, more = found
    return Cell(
        name=group.names[0],
        area=float(group.attributes.get("area", "0")),
        leakage=_leakage(group) * scale.leakage,
        inputs={
            name: float(pins[name].attributes.get("capacitance", "0")) * scale.load
            for name in inputs
        },
        outputs=outputs,
        arcs=tuple(
            arc
            for name in outputs
            for timing in pins[name].of_kind("timing")
            for arc in _arcs(timing, name, scale)
        ),
        **more,
    )


_Found = tuple[list[str], dict[str, str], dict[str, Any]]  # inputs, functions, more of the cell


def _clock_gate(group: Group, pins: Mapping[str, Group], scale: _Scale) -> _Found | None:
    if group.attributes["clock_gating_integrated_cell"] not in _GATES:
        return None
    names = {
        role: name
        for name, pin in pins.items()
        for role in ("clock", "enable", "test", "out")
        if pin.attributes.get(f"clock_gate_{role}_pin") == "true"
    }
    if not {"clock", "enable", "out"} <= names.keys():
        return None
    clock, out = names["clock"], names["out"]
    enables = [names[role] for role in ("enable", "test") if role in names]
    most = pins[out].attributes.get("max_capacitance")
    more = {
        "max_load": float(most) * scale.load if most else None,
        "state": State(("IQ", "IQN"), f"!{clock}", " | ".join(enables), latch=True),
        "clock_pin": clock,
        "clock_gate": ClockGate(names["enable"], out, names.get("test")),
    }
    inputs = [name for role, name in names.items() if role != "out"]
    return inputs, {out: f"{clock} & IQ"}, more


def _plain(group: Group, pins: Mapping[str, Group]) -> _Found | None:
    inputs, outputs, clock_pin = list[str](), dict[str, str](), None
    for name, pin in pins.items():
        direction = pin.attributes.get("direction")
        if direction == "input":
            inputs.append(name)
            if pin.attributes.get("clock") == "true":
                clock_pin = name
        elif direction == "output" and "function" in pin.attributes:
            outputs[name] = pin.attributes["function"]
        else:
            return None
    special = any(part.kind in _SPECIAL for part in group.groups)
    if not outputs or special or any("three_state" in pin.attributes for pin in pins.values()):
        return None
    if state := _state(group):
        clocks = parse_function(state.clock).pins
        clock_pin = clocks[0] if len(clocks) == 1 and clocks[0] in inputs else None
    return inputs, outputs, {"state": state, "clock_pin": clock_pin}


def _leakage(group: Group) -> float:
    if "cell_leakage_power" in group.attributes:
        return float(group.attributes["cell_leakage_power"])
    values = [
        float(leakage.attributes["value"])
        for leakage in group.of_kind("leakage_power")
        if "when" not in leakage.attributes
    ]
    return max(values, default=0.0)  # one value for each supply, all but one zero


def _state(group: Group) -> State | None:
    for kind, clock, data in (("ff", "clocked_on", "next_state"), ("latch", "enable", "data_in")):
        for storage in group.of_kind(kind):
            values = storage.attributes
            if clock in values and data in values:
                forced = values.get("clear"), values.get("preset")
                names = (storage.names[0], storage.names[1])
                return State(names, values[clock], values[data], *forced, latch=kind == "latch")
    return None


def _arcs(timing: Group, target: str, scale: _Scale) -> Iterator[Arc]:
    kind = timing.attributes.get("timing_type", "combinational")
    edge = kind in ("rising_edge", "falling_edge")
    if not edge and kind != "combinational":
        return
    tables = {
        name: _table(table, scale, scale.load)
        for name in ("cell_rise", "rise_transition", "cell_fall", "fall_transition")
        for table in timing.of_kind(name)
    }
    if len(tables) < 4:  # an arc that only rises or falls, such as a clear
        return
    stated = timing.attributes.get("timing_sense", "non_unate")
    if stated not in _SENSE:
        raise SynthesisError(f"timing_sense {stated[:40]!r} is none of {', '.join(_SENSE)}")
    sense = "*" if edge else _SENSE[stated]
    rise = Edge(tables["cell_rise"], tables["rise_transition"])
    fall = Edge(tables["cell_fall"], tables["fall_transition"])
    for source in timing.attributes.get("related_pin", "").split():
        yield Arc(source, target, sense, rise, fall)


def _table(group: Group, scale: _Scale, load_unit: float) -> Table:
    template = scale.templates.get(group.names[0] if group.names else "", {})
    axes = [_numbers(group.attributes.get(k, template.get(k, ""))) for k in ("index_1", "index_2")]
    values = _numbers(group.attributes.get("values", ""))
    kinds = [template.get(k, "") for k in ("variable_1", "variable_2")]
    slews, loads = axes
    by_load_first = kinds[0] == "total_output_net_capacitance"
    if by_load_first:
        slews, loads = loads, slews
    slews, loads = slews or (0.0,), loads or (0.0,)
    if len(values) == 1:
        slews, loads = (0.0,), (0.0,)
    if len(values) < len(slews) * len(loads):
        raise SynthesisError(
            f"a table {group.kind} has {len(values)} values; {len(slews)} x {len(loads)} are needed"
        )
    rows = tuple(
        tuple(
            values[j * len(slews) + i if by_load_first else i * len(loads) + j] * scale.time
            for j in range(len(loads))
        )
        for i in range(len(slews))
    )
    return Table(
        tuple(slew * scale.time for slew in slews), tuple(load * load_unit for load in loads), rows
    )


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(number) for number in re.findall(r"[-+\d.eE]+", text))
    except ValueError:
        raise SynthesisError(f"{text[:40]!r} is no list of numbers") from None


def _setup(group: Group, scale: _Scale, clock_slew: float) -> dict[str, float]:
    """Worst setup time per data pin, data and clock both with the clock's slew."""
    found: dict[str, float] = {}
    for pin in group.of_kind("pin"):
        for timing in pin.of_kind("timing"):
            if not timing.attributes.get("timing_type", "").startswith("setup_"):
                continue
            for table in (*timing.of_kind("rise_constraint"), *timing.of_kind("fall_constraint")):
                # Both axes are slews, so the second is scaled as time too.
                value = _table(table, scale, scale.time).at(clock_slew, clock_slew)
                found[pin.names[0]] = max(value, found.get(pin.names[0], value))
    return found


def _smallest(cells: dict[str, Cell], table: int) -> Cell | None:
    fitting = [
        cell
        for cell in cells.values()
        if cell.state is None
        and len(cell.inputs) == 1
        and len(cell.outputs) == 1
        and cell.arcs
        and _truth(cell) == table
    ]
    return min(fitting, key=lambda cell: (cell.area, cell.name), default=None)


def _truth(cell: Cell) -> int:
    (function,) = cell.outputs.values()
    return truth_table(parse_function(function), tuple(cell.inputs))


def _require_functions(cell: Cell, name: str) -> None:
    """Refuse a function that is unreadable or not of the cell's own inputs or state."""
    known = {*cell.inputs, *(cell.state.names if cell.state else ())}
    for pin, text in cell.outputs.items():
        try:
            used = parse_function(text).pins
        except ValueError as error:
            raise SynthesisError(f"{name}: cell {cell.name}, pin {pin}: {error}") from None
        for missing in set(used) - known:
            raise SynthesisError(
                f"{name}: cell {cell.name}, pin {pin}: function {text!r} names {missing!r},"
                " which is no input of the cell"
            )


def _require_gates(cells: dict[str, Cell], inverter: Cell | None, name: str) -> None:
    if not cells:
        raise SynthesisError(f"{name}: has no usable cell")
    if inverter is None:
        raise SynthesisError(f"{name}: lacks an inverter with timing tables")
    and_like = {0b1000, 0b0111, 0b1110, 0b0001}  # AND, NAND, OR, NOR
    if not any(
        cell.arcs and len(cell.inputs) == 2 and len(cell.outputs) == 1 and _truth(cell) in and_like
        for cell in cells.values()
        if cell.state is None
    ):
        raise SynthesisError(f"{name}: lacks a two-input AND, NAND, OR or NOR with timing tables")


def _fanout_of_four_slew(inverter: Cell) -> float:
    arc, load = inverter.arcs[0], 4 * next(iter(inverter.inputs.values()))
    slew = 0.0
    for _ in range(20):
        slew = (arc.rise.slew.at(slew, load) + arc.fall.slew.at(slew, load)) / 2
    return slew


def _tie(cells: dict[str, Cell], value: str) -> tuple[str, str] | None:
    found = [
        (cell.area, cell.name, pin)
        for cell in cells.values()
        if not cell.inputs
        for pin, function in cell.outputs.items()
        if function == value
    ]
    return min(found)[1:] if found else None
