"""A design of many equal modules, each mapped once, expanded into arrays over all its cells.

Whole accelerators have millions of cells, of which most are copies: what
:mod:`tilewright.synth.netlist` keeps as objects is kept here as numbers in arrays, so that static
timing of the whole (:mod:`tilewright.synth.whole_timing`) takes seconds and little memory.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.synth.netlist import Net, net_names, pins_of
from tilewright.synth.technology import Arc, Cell, Technology
from tilewright.synth.timing import CONSTANT
from tilewright.synth.yosys import SynthesisError

__all__ = ["CONSTANT", "Arcs", "Expanded", "expand"]

_Ints = np.ndarray[Any, np.dtype[np.int64]]
_Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass
class Arcs:
    """From pins to nets, each by a kind of arc (an index of :attr:`Expanded.kinds`)."""

    pin: _Ints
    net: _Ints
    kind: _Ints


@dataclass
class Expanded:
    """Every cell of a design: its input pins, its arcs, what must arrive in time.

    Pins are numbered over the whole design; ``pin_net`` says what each is connected to.
    """

    name: str
    kinds: list[Arc]  # every kind of arc once
    kind_cells: list[str]  # the cell of each
    nets: int
    named_nets: int  # those of the modules; buffers' come after them
    pin_net: _Ints
    pin_load: _Floats
    pin_is_clock: np.ndarray[Any, np.dtype[np.bool_]]
    through: Arcs  # of combinational cells
    launch: Arcs  # from the clock pins of registers and memories
    gates: Arcs  # from the clock pins of clock gates to the clocks they let through
    end_pin: _Ints  # pins with a setup time
    setup: _Floats
    end_bases: list[int]  # the first end of each module that occurs
    end_names: list[list[str]]  # of the registers and memories of each module
    strength: _Floats  # the load that the driver of each net may have; 0 without a driver
    inputs: dict[str, _Ints]
    outputs: dict[str, _Ints]
    cells: int
    logic_area: float  # um2, without memories
    bases: list[int]  # first net of each module that occurs, ascending
    paths: list[str]  # of these modules, as ``array.element_3``; the whole is ``""``
    local_names: list[dict[int, str]]  # of each module's own nets, by their number from its base
    pin_ranges: list[tuple[str, int, int]]  # path of a module, first pin, one after its last

    def net_name(self, net: int) -> str:
        """The signal on ``net`` with the path of its module; without a name its module's path."""
        k = bisect_right(self.bases, net) - 1
        if k < 0 or net >= self.named_nets:
            return ""  # a constant, or a net that a buffer drives
        name = self.local_names[k].get(net - self.bases[k], "")
        return f"{self.paths[k]}.{name}".strip(".")

    def end_name(self, end: int) -> str:
        """The register or memory that the pin ``end_pin[end]`` belongs to."""
        k = bisect_right(self.end_bases, end) - 1
        return f"{self.paths[k]}.{self.end_names[k][end - self.end_bases[k]]}".strip(".")


@dataclass
class _Part:
    """A module: its cells with nets numbered from 0 (the constant), and the modules in it."""

    name: str
    ports: dict[str, list[Net]]
    directions: dict[str, str]
    numbers: dict[Net, int]
    names: dict[int, str]
    children: list[tuple[str, str, dict[str, list[Net]]]]  # instance, module, connections
    pin_net: _Ints
    pin_load: _Floats
    pin_is_clock: np.ndarray[Any, np.dtype[np.bool_]]
    through: Arcs
    launch: Arcs
    gates: Arcs
    end_pin: _Ints
    setup: _Floats
    end_names: list[str]
    driven: _Ints
    strength: _Floats
    cells: int
    area: float  # without memories

    @cached_property
    def nets(self) -> int:
        return len(self.numbers) + 1

    def number(self, net: Net) -> int:
        return self.numbers[net] if isinstance(net, int) else CONSTANT


class _Kinds:
    """Numbers kinds of arcs; equal arcs of one cell have one number."""

    def __init__(self) -> None:
        self.arcs: list[Arc] = []
        self.cells: list[str] = []
        self._of_cell: dict[str, list[int]] = {}

    def of(self, cell: Cell) -> list[int]:
        if cell.name not in self._of_cell:
            known: dict[tuple[Any, ...], int] = {}
            numbers = []
            for arc in cell.arcs:
                content = (arc.sense, arc.rise, arc.fall)
                if content not in known:
                    known[content] = len(self.arcs)
                    self.arcs.append(arc)
                    self.cells.append(cell.name)
                numbers.append(known[content])
            self._of_cell[cell.name] = numbers
        return self._of_cell[cell.name]


def expand(
    modules: Mapping[str, Any], top: str, technology: Technology, macros: Mapping[str, Cell]
) -> Expanded:
    """All cells of ``top``, from the modules that Yosys's ``write_json`` has."""
    known = {**technology.cells, **macros}
    kinds = _Kinds()
    parts: dict[str, _Part] = {}

    def part(name: str) -> _Part:
        if name not in parts:
            if name not in modules:
                raise SynthesisError(f"{top}: neither a cell nor a module is called {name}")
            parts[name] = _read_part(name, modules[name], known, kinds, technology)
        return parts[name]

    placed: list[tuple[_Part, _Ints]] = []  # with the global number of each of its nets
    bases: list[int] = []
    paths: list[str] = []
    same: list[tuple[int, int]] = []  # nets that a module in between connects
    count = 1

    def place(name: str, path: str, outside: Mapping[str, Sequence[int]]) -> None:
        nonlocal count
        own = part(name)
        number = np.full(own.nets, -1, dtype=np.int64)
        number[CONSTANT] = CONSTANT
        for port, nets in outside.items():
            for inner, outer in zip(own.ports[port], nets, strict=True):
                k = own.number(inner)
                if number[k] < 0:
                    number[k] = outer
                elif number[k] != outer:
                    same.append((int(number[k]), outer))
        # Nets that came from outside leave a number unused, so that names are found by the base.
        free = number < 0
        number[free] = count + np.flatnonzero(free)
        bases.append(count)
        paths.append(path)
        count += own.nets
        placed.append((own, number))
        for instance, module, connections in own.children:
            inside = {
                port: [int(number[own.number(net)]) for net in nets]
                for port, nets in connections.items()
            }
            place(module, f"{path}.{instance}".strip("."), inside)

    place(top, "", {})
    return _assemble(top, placed, bases, paths, same, count, kinds)


def _read_part(
    name: str, module: Any, known: Mapping[str, Cell], kinds: _Kinds, technology: Technology
) -> _Part:
    default_strength = technology.cells[technology.drive_cell].max_load or float("inf")
    numbers: dict[Net, int] = {}

    def number(net: Net) -> int:
        return numbers.setdefault(net, len(numbers) + 1) if isinstance(net, int) else CONSTANT

    children = []
    pins: list[tuple[int, float, bool]] = []
    lists: dict[str, list[tuple[int, int, int]]] = {"through": [], "launch": [], "gates": []}
    ends: list[tuple[int, float, int, str]] = []  # pin, setup, net it drives, name of its cell
    driven: list[tuple[int, float]] = []
    held: dict[int, str] = {}  # register by the net that it drives
    cells, area = 0, 0.0
    for instance, entry in module["cells"].items():
        cell = known.get(entry["type"])
        if cell is None:
            children.append((instance, entry["type"], entry["connections"]))
            continue
        cells += 1
        area += 0.0 if cell.memory_bits else cell.area
        wiring = pins_of(cell, entry["connections"])
        at = {}
        for pin, load in cell.inputs.items():
            at[pin] = len(pins)
            pins.append((number(wiring[pin]), load, pin == cell.clock_pin))
        for pin in sorted({arc.source for arc in cell.arcs} - at.keys()):
            if pin in wiring:  # an output that another output of the cell is made from
                at[pin] = len(pins)
                pins.append((number(wiring[pin]), 0.0, False))
        if cell.clock_gate is not None:
            group = "gates"
        else:
            group = "through" if cell.state is None else "launch"
        for arc, kind in zip(cell.arcs, kinds.of(cell), strict=True):
            if arc.target not in wiring or arc.source not in at:
                continue
            if group != "through" and arc.source != cell.clock_pin:
                continue
            lists[group].append((at[arc.source], number(wiring[arc.target]), kind))
        drives = next((number(wiring[p]) for p in cell.outputs if p in wiring), CONSTANT)
        if cell.memory_bits:
            drives = CONSTANT  # a memory has its own name
        own_name = instance.partition("$_")[0]
        ends += [(at[pin], setup, drives, own_name) for pin, setup in cell.setup.items()]
        strength = cell.max_load or default_strength
        driven += [(number(wiring[p]), strength) for p in cell.outputs if p in wiring]
        if cell.state is not None and cell.clock_gate is None:
            # The flow calls registers after the signals they hold, plus ``$_KIND_``.
            for pin in cell.outputs:
                if pin in wiring:
                    held.setdefault(number(wiring[pin]), own_name)
    for _, _, connections in children:
        for nets in connections.values():
            for net in nets:
                number(net)
    for port in module["ports"].values():
        for net in port["bits"]:
            number(net)
    named = {numbers[n]: text for n, text in net_names(module).items() if n in numbers}
    names = held | named
    return _Part(
        name=name,
        ports={n: p["bits"] for n, p in module["ports"].items()},
        directions={n: p["direction"] for n, p in module["ports"].items()},
        numbers=numbers,
        names=names,
        children=children,
        pin_net=np.array([p[0] for p in pins], dtype=np.int64),
        pin_load=np.array([p[1] for p in pins]),
        pin_is_clock=np.array([p[2] for p in pins], dtype=bool),
        **{group: _arcs(found) for group, found in lists.items()},
        end_pin=np.array([e[0] for e in ends], dtype=np.int64),
        setup=np.array([e[1] for e in ends]),
        end_names=[names.get(drives, own) for _, _, drives, own in ends],
        driven=np.array([d[0] for d in driven], dtype=np.int64),
        strength=np.array([d[1] for d in driven]),
        cells=cells,
        area=area,
    )


def _arcs(found: Sequence[tuple[int, int, int]]) -> Arcs:
    table = np.array(found, dtype=np.int64).reshape(-1, 3)
    return Arcs(table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy())


def _assemble(
    top: str,
    placed: Sequence[tuple[_Part, _Ints]],
    bases: list[int],
    paths: list[str],
    same: Sequence[tuple[int, int]],
    nets: int,
    kinds: _Kinds,
) -> Expanded:
    root = _roots(same, nets)
    placed = [(part, root[number]) for part, number in placed]
    first = np.cumsum([0] + [len(part.pin_net) for part, _ in placed])

    def arcs(group: str) -> Arcs:
        found = [(k, getattr(part, group), number) for k, (part, number) in enumerate(placed)]
        return Arcs(
            np.concatenate([a.pin + first[k] for k, a, _ in found]),
            np.concatenate([number[a.net] for _, a, number in found]),
            np.concatenate([a.kind for _, a, _ in found]),
        )

    strength = np.zeros(nets)
    for part, number in placed:
        strength[number[part.driven]] = part.strength
    whole, number = placed[0]

    def ports(direction: str) -> dict[str, _Ints]:
        return {
            port: number[[whole.number(net) for net in bits]]
            for port, bits in whole.ports.items()
            if whole.directions[port] == direction
        }

    return Expanded(
        name=top,
        kinds=kinds.arcs,
        kind_cells=kinds.cells,
        nets=nets,
        named_nets=nets,
        pin_net=np.concatenate([number[part.pin_net] for part, number in placed]),
        pin_load=np.concatenate([part.pin_load for part, _ in placed]),
        pin_is_clock=np.concatenate([part.pin_is_clock for part, _ in placed]),
        through=arcs("through"),
        launch=arcs("launch"),
        gates=arcs("gates"),
        end_pin=np.concatenate([part.end_pin + first[k] for k, (part, _) in enumerate(placed)]),
        setup=np.concatenate([part.setup for part, _ in placed]),
        end_bases=[0, *np.cumsum([len(part.setup) for part, _ in placed])][:-1],
        end_names=[part.end_names for part, _ in placed],
        strength=strength,
        inputs=ports("input"),
        outputs=ports("output"),
        cells=sum(part.cells for part, _ in placed),
        logic_area=sum(part.area for part, _ in placed),
        bases=bases,
        paths=paths,
        local_names=[part.names for part, _ in placed],
        pin_ranges=[(path, int(first[k]), int(first[k + 1])) for k, path in enumerate(paths)],
    )


def _roots(same: Sequence[tuple[int, int]], nets: int) -> _Ints:
    """One number for all nets that modules in between connect."""
    root = np.arange(nets)

    def find(net: int) -> int:
        while root[net] != net:
            net = int(root[net])
        return net

    for a, b in same:
        low, high = sorted((find(a), find(b)))
        root[high] = low
    for net in {n for pair in same for n in pair}:
        root[net] = find(net)
    return root
