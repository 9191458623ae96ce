"""Cell libraries as synthesis sees them: areas, functions, pin loads and timing arcs.

Units everywhere: ps, fF, um2, nW, fJ.
"""

import tomllib
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

TECHNOLOGY_FOLDER = Path(__file__).parent / "tech"

TECHNOLOGIES = tuple(sorted(path.stem for path in TECHNOLOGY_FOLDER.glob("*.toml")))


@dataclass(frozen=True)
class Plane:
    """A quantity that is linear in input slew and output load: the form of the compact tables."""

    base: float
    per_load: float
    per_slew: float

    def at(self, slew: float, load: float) -> float:
        return self.base + self.per_load * load + self.per_slew * slew


@dataclass(frozen=True)
class Table:
    """A quantity sampled over slews and loads (rows are slews), linear between and beyond."""

    slews: tuple[float, ...]
    loads: tuple[float, ...]
    rows: tuple[tuple[float, ...], ...]

    def at(self, slew: float, load: float) -> float:
        i, u = _place(self.slews, slew)
        j, v = _place(self.loads, load)
        row = [r[j] if v == 0 else _mix(r[j], r[j + 1], v) for r in self.rows[i : i + 2]]
        return row[0] if u == 0 else _mix(row[0], row[1], u)


def _place(axis: tuple[float, ...], x: float) -> tuple[int, float]:
    """Interval of ``axis`` for ``x`` and position in it, outside 0..1 beyond the axis."""
    if len(axis) == 1:
        return 0, 0.0
    k = min(max(bisect_right(axis, x) - 1, 0), len(axis) - 2)
    return k, (x - axis[k]) / (axis[k + 1] - axis[k])


def _mix(low: float, high: float, position: float) -> float:
    return low + (high - low) * position


Surface = Plane | Table


@dataclass(frozen=True)
class Edge:
    """Delay to, and slew of, one edge of an arc's target."""

    delay: Surface
    slew: Surface


@dataclass(frozen=True)
class Arc:
    """``source`` pin to ``target`` pin.

    Sense ``+``: an edge causes the same edge, ``-``: the opposite one, ``*``: either causes both.
    """

    source: str
    target: str
    sense: str
    rise: Edge
    fall: Edge


@dataclass(frozen=True)
class State:
    """The storage of a cell: what it does at ``clock`` (an expression over pins)."""

    names: tuple[str, str]  # the state and its complement, as output functions call them
    clock: str
    data: str  # next state of a flip-flop, data of a latch
    clear: str | None = None
    preset: str | None = None
    latch: bool = False


@dataclass(frozen=True)
class ClockGate:
    """Pins of a latch, open while the clock is 0, with an AND: whole clock pulses pass."""

    enable: str
    gated: str  # output: the clock that was let through
    test: str | None = None  # lets the clock through as well; tied to 0


@dataclass(frozen=True)
class Cell:
    name: str
    area: float
    leakage: float
    inputs: dict[str, float]  # capacitance
    outputs: dict[str, str]  # function, in Liberty's notation
    arcs: tuple[Arc, ...]
    max_load: float | None = None
    energy: dict[str, float] = field(default_factory=dict)  # internal, per transition of an output
    state: State | None = None
    clock_pin: str | None = None
    clock_gate: ClockGate | None = None
    clock_energy: float = 0.0  # internal, per whole clock cycle without a change of state
    input_energy: dict[str, float] = field(default_factory=dict)  # per transition of a data pin
    setup: dict[str, float] = field(default_factory=dict)  # per data pin, at the clock slew
    hold: dict[str, float] = field(default_factory=dict)
    memory_bits: int = 0  # of a memory macro
    read_energy: float = 0.0  # of a memory macro, per access
    write_energy: float = 0.0  # whole word
    weak: bool = False  # left out of the usual flow: too small to drive a wire


@dataclass(frozen=True, kw_only=True)
class MemoryModel:
    """Area, timing and energy of SRAM macros with one write and one read port.

    Area: either rectangles of bit cells with their edge (``height``, ``width``, in um: edge, step),
    or a fixed part plus a part per bit; a memory is made of registers where that is smaller.

    Energy of an access: the word line of a row, full swing; the bit lines of all columns of the
    row, ``swing`` where they are read or half-selected, full swing where they are written; a latch
    per bit of the word; the address. Deeper memories are banks of the largest published depth, one
    of them active; wires to the banks are not counted.
    """

    access: tuple[float, float, float]  # ps: clock to data, plus per bit of a macro, per row
    setup: float  # ps
    height: tuple[float, float] | None = None
    width: tuple[float, float] | None = None
    words_per_row: int = 1
    max_bits: int | None = None  # wider words take several macros
    two_port: float = 1.0  # bit cells with a second port, over those of the rectangle
    fixed: float = 0.0  # um2
    per_bit: float = 0.0  # um2
    per_bit_registers: float = float("inf")  # um2
    word_line: float  # fF per column
    bit_line: float  # fF per row
    swing: float  # V, of a bit line that is read
    latch: float  # fJ per bit of the word
    address: float  # fJ per bit of the address
    valid_words: tuple[int, int]  # published macros
    valid_bits: tuple[int, int]

    def area(self, depth: int, bits: int) -> float:
        """um2 of ``depth`` words of ``bits`` bits."""
        full, rest = divmod(bits, self.max_bits or bits)
        macros = full * self._macro(depth, self.max_bits or bits)
        macros += self._macro(depth, rest) if rest else 0.0
        return min(macros, self.per_bit_registers * depth * bits)

    def access_time(self, depth: int, bits: int) -> float:
        edge, per_bit, per_row = self.access
        rows = -(-depth // self.words_per_row)
        return edge + per_bit * min(bits, self.max_bits or bits) + per_row * rows

    def access_energy(self, depth: int, bits: int, supply: float) -> tuple[float, float]:
        """fJ of a read and of a write of a whole word."""
        rows = -(-min(depth, self.valid_words[1]) // self.words_per_row)
        columns = bits * min(depth, self.words_per_row)
        common = supply**2 * self.word_line * columns
        common += self.latch * bits + self.address * (depth - 1).bit_length()
        small, full = (rows * self.bit_line * supply * volts for volts in (self.swing, supply))
        return common + small * columns, common + small * (columns - bits) + full * bits

    def is_published_size(self, depth: int, bits: int) -> bool:
        """Whether a published range covers the words and the bits of a word."""
        within = ((depth, self.valid_words), (bits, self.valid_bits))
        return all(low <= value <= high for value, (low, high) in within)

    def _macro(self, depth: int, bits: int) -> float:
        if self.height is None or self.width is None:
            return self.fixed + self.per_bit * depth * bits
        rows = -(-depth // self.words_per_row)
        cells = (self.height[1] * rows) * (self.width[1] * bits)
        whole = (self.height[0] + self.height[1] * rows) * (self.width[0] + self.width[1] * bits)
        return whole + (self.two_port - 1) * cells


@dataclass(frozen=True)
class Technology:
    name: str
    title: str
    corner: str
    cells: dict[str, Cell]
    drive_cell: str  # drives every input
    output_load: float  # at every output
    clock_slew: float  # ideal clock and reset
    tie_high: tuple[str, str] | None  # cell, pin
    tie_low: tuple[str, str] | None
    supply: float  # V
    slew_thresholds: tuple[float, float] = (10.0, 90.0)  # per cent of the swing
    fanout_of_four_load: float = 0.0  # four inputs of an inverter
    wire_capacitance: float = 0.0  # fF per um
    node: int = 0  # nm
    map_slew: float = 0.0  # at which ABC's mapper compares cells
    max_slew: float = 0.0
    temperature: float = 25.0  # C
    memory: MemoryModel | None = None
    clock_gates: tuple[str, ...] = ()  # cells of the table that gate clocks
    dont_use: tuple[str, ...] = ()  # cell names or patterns
    liberty: tuple[Path, ...] = ()  # empty: generated from the cells


@cache
def load_technology(name: str) -> Technology:
    """The compact table ``synth/tech/NAME.toml``."""
    if name not in TECHNOLOGIES:
        raise ValueError(f"unknown technology {name!r}; known: {', '.join(TECHNOLOGIES)}")
    return technology_from_table(tomllib.loads((TECHNOLOGY_FOLDER / f"{name}.toml").read_text()))


def technology_from_table(table: dict[str, Any]) -> Technology:
    low, high = table["slew_thresholds_pct"]
    return Technology(
        name=table["name"],
        title=table["title"],
        corner=table["corner"],
        cells={name: _cell(name, entry) for name, entry in table["cell"].items()},
        drive_cell=table["drive_cell"],
        output_load=table["out_load_ff"],
        clock_slew=table["fo4_slew_ps"],
        tie_high=_tie(table["tie_high"]),
        tie_low=_tie(table["tie_low"]),
        supply=table["supply_v"],
        slew_thresholds=(low, high),
        fanout_of_four_load=4 * table["inv_cap_ff"],
        wire_capacitance=table["wire_ff_per_um"],
        node=table["node_nm"],
        map_slew=table["map_slew_ps"],
        max_slew=table["max_transition_ps"],
        temperature=table["temperature_c"],
        memory=_memory(table["memory"]),
        clock_gates=tuple(table.get("clock_gates", ())),
    )


def _tie(text: str) -> tuple[str, str]:
    cell, pin = text.split()
    return cell, pin


def _memory(entry: dict[str, Any]) -> MemoryModel:
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
    }
    units = {"access_ps": "access", "setup_ps": "setup", "swing_v": "swing"}
    units |= {f"{name}_ff": name for name in ("word_line", "bit_line")}
    units |= {f"{name}_fj": name for name in ("latch", "address")}
    values |= {name: values.pop(key) for key, name in units.items()}
    return MemoryModel(**values)


def _cell(name: str, entry: dict[str, Any]) -> Cell:
    return Cell(
        name=name,
        area=entry["area"],
        leakage=entry["leak"],
        inputs=entry.get("in", {}),
        outputs=entry["out"],
        arcs=tuple(_arc(*row) for row in entry.get("arcs", ())),
        max_load=entry.get("max_load"),
        energy=entry.get("energy", {}),
        state=_state(entry),
        clock_pin=entry.get("clock"),
        clock_gate=ClockGate(**entry["gate"]) if "gate" in entry else None,
        clock_energy=entry.get("clock_energy", 0.0),
        input_energy=entry.get("input_energy", {}),
        setup=entry.get("setup", {}),
        hold=entry.get("hold", {}),
        weak=entry.get("weak", False),
    )


def _arc(source: str, target: str, sense: str, *numbers: float) -> Arc:
    rise_delay, fall_delay, rise_slew, fall_slew = (
        Plane(*numbers[k : k + 3]) for k in range(0, 12, 3)
    )
    return Arc(source, target, sense, Edge(rise_delay, rise_slew), Edge(fall_delay, fall_slew))


def _state(entry: dict[str, Any]) -> State | None:
    if "ff" in entry:
        ff = entry["ff"]
        names = tuple(entry["state"])
        return State(names, ff["clocked_on"], ff["next_state"], ff.get("clear"), ff.get("preset"))
    if "latch" in entry:
        latch = entry["latch"]
        return State(tuple(entry["state"]), latch["enable"], latch["data_in"], latch=True)
    return None
