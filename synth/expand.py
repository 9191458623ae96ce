"""A design of many equal modules, each mapped once, expanded into arrays over all its cells.

Whole accelerators have millions of cells: as arrays their timing takes seconds.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.synth.netlist import Net, net_names, pins_of
from tilewright.synth.technology import Arc, Cell, Technology
from tilewright.synth.timing import CONSTANT, Floats, Ints
from tilewright.synth.yosys import SynthesisError

GROUPS = ("through", "launch", "gates")


@dataclass(frozen=True)
class _Part:
    """A module: its cells with nets numbered from 0 (the constant), and the modules in it."""

    ports: dict[str, dict[str, Any]]
    numbers: dict[Net, int]
    names: dict[int, str]  # number of nets
    children: list[tuple[str, str, dict[str, list[Net]]]]  # instance, module, connections
    pins: tuple[Ints, Floats, NDArray[np.bool_]]  # nets, loads, whether they are clocks
    arcs: dict[str, Ints]  # by group, columns of pin, net, kind
    ends: tuple[Ints, Floats]  # pins, setup
    end_names: list[str]  # the register or memory of each end
    driven: tuple[Ints, Floats]  # nets, their drivers' largest load
    cells: int
    area: float  # without memories

    def number(self, net: Net) -> int:
        return self.numbers.get(net, CONSTANT)


@dataclass(frozen=True)
class _Place:
    """A module's occurrence, with its first net, pin and end in the whole."""

    path: str  # such as ``array.element_3``; ``""`` for the whole
    part: _Part
    net: int
    pin: int
    end: int


@dataclass
class Expanded:
    """Every cell of a design: input pins, arcs, and pins with a setup time.

    Pins are numbered over the whole design; ``pin_net`` says what each is connected to. Arcs are
    columns of a pin, the net that it leads to and a kind (an index of ``kinds``).
    """

    name: str
    kinds: list[Arc]
    kind_cells: list[str]  # the cell of each
    nets: int
    named_nets: int  # first those of the modules, then of buffers
    pin_net: Ints
    pin_load: Floats
    pin_is_clock: NDArray[np.bool_]
    through: Ints  # arcs of combinational cells
    launch: Ints  # from the clock pins of registers and memories
    gates: Ints  # from the clock pins of clock gates to the clocks they let through
    end_pin: Ints  # pins with a setup time
    setup: Floats
    strength: Floats  # the load that the driver of each net may have; 0 without a driver
    inputs: dict[str, Ints]
    outputs: dict[str, Ints]
    cells: int
    logic_area: float  # um2, without memories
    places: list[_Place]  # of modules, ordered as their nets, pins and ends

    def net_name(self, net: int) -> str:
        """The signal on ``net`` with its module's path; the path alone if it has no name."""
        k = bisect_right(self.places, net, key=lambda place: place.net) - 1
        if k < 0 or net >= self.named_nets:
            return ""  # a constant, or a net that a buffer drives
        place = self.places[k]
        return f"{place.path}.{place.part.names.get(net - place.net, '')}".strip(".")

    def end_name(self, end: int) -> str:
        """The register or memory that the pin ``end_pin[end]`` belongs to."""
        place = self.places[bisect_right(self.places, end, key=lambda place: place.end) - 1]
        return f"{place.path}.{place.part.end_names[end - place.end]}".strip(".")


def expand(
    modules: Mapping[str, Any], top: str, technology: Technology, macros: Mapping[str, Cell]
) -> Expanded:
    """All cells of ``top``, from the modules in Yosys's ``write_json``."""
    known = {**technology.cells, **macros}
    kinds = [(arc, cell.name) for cell in known.values() for arc in cell.arcs]
    first_kind = dict[str, int]()
    for k, (_, cell) in enumerate(kinds):
        first_kind.setdefault(cell, k)
    parts: dict[str, _Part] = {}
    places: list[_Place] = []
    numbers: list[Ints] = []  # numbers in the whole of each place's nets
    same: list[tuple[int, int]] = []  # nets that a module in between connects
    net = 1
    pin = end = 0

    def place(name: str, path: str, outside: Mapping[str, Sequence[int]]) -> None:
        nonlocal net, pin, end
        if name not in parts:
            if name not in modules:
                raise SynthesisError(f"{top}: neither a cell nor a module is called {name}")
            parts[name] = _read_part(modules[name], known, first_kind, technology)
        own = parts[name]
        number = np.full(len(own.numbers) + 1, -1, dtype=np.int64)
        number[CONSTANT] = CONSTANT
        for port, nets in outside.items():
            for inner, outer in zip(own.ports[port]["bits"], nets, strict=True):
                k = own.number(inner)
                if number[k] < 0:
                    number[k] = outer
                elif number[k] != outer:
                    same.append((int(number[k]), outer))
        # Nets from outside leave a number unused, so that names are found by the first.
        free = number < 0
        number[free] = net + np.flatnonzero(free)
        places.append(_Place(path, own, net, pin, end))
        numbers.append(number)
        net, pin, end = net + len(number), pin + len(own.pins[0]), end + len(own.end_names)
        for instance, module, connections in own.children:
            inside = {
                port: [int(number[own.number(net)]) for net in nets]
                for port, nets in connections.items()
            }
            place(module, f"{path}.{instance}".strip("."), inside)

    place(top, "", {})
    return _assemble(top, places, numbers, _roots(same, net), kinds)


def _read_part(
    module: Any, known: Mapping[str, Cell], first_kind: Mapping[str, int], technology: Technology
) -> _Part:
    default_strength = technology.cells[technology.drive_cell].max_load or float("inf")
    numbers: dict[Net, int] = {}

    def number(net: Net) -> int:
        return numbers.setdefault(net, len(numbers) + 1) if isinstance(net, int) else CONSTANT

    children = []
    pins: list[tuple[int, float, bool]] = []
    arcs: dict[str, list[tuple[int, int, int]]] = {group: [] for group in GROUPS}
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
        for kind, arc in enumerate(cell.arcs, first_kind.get(cell.name, 0)):
            starts = arc.source in at if group == "through" else arc.source == cell.clock_pin
            if starts and arc.target in wiring:
                arcs[group].append((at[arc.source], number(wiring[arc.target]), kind))
        outputs = [number(wiring[pin]) for pin in cell.outputs if pin in wiring]
        driven += [(net, cell.max_load or default_strength) for net in outputs]
        # The flow names registers after their signals, plus ``$_KIND_``.
        own_name = instance.partition("$_")[0]
        if cell.state is not None and cell.clock_gate is None:
            for net in outputs:
                held.setdefault(net, own_name)
        # A memory has its own name.
        drives = outputs[0] if outputs and not cell.memory_bits else CONSTANT
        ends += [(at[pin], setup, drives, own_name) for pin, setup in cell.setup.items()]
    outside = [nets for _, _, connections in children for nets in connections.values()]
    for nets in (*outside, *(port["bits"] for port in module["ports"].values())):
        for net in nets:
            number(net)
    names = held | {numbers[n]: text for n, text in net_names(module).items() if n in numbers}
    return _Part(
        ports=module["ports"],
        numbers=numbers,
        names=names,
        children=children,
        pins=(*_columns([pin[:2] for pin in pins]), np.array([pin[2] for pin in pins], dtype=bool)),
        arcs={
            group: np.array(found, dtype=np.int64).reshape(-1, 3).T for group, found in arcs.items()
        },
        ends=_columns([found[:2] for found in ends]),
        end_names=[names.get(drives, own) for _, _, drives, own in ends],
        driven=_columns(driven),
        cells=cells,
        area=area,
    )


def _columns(pairs: Sequence[tuple[int, float]]) -> tuple[Ints, Floats]:
    return np.array([n for n, _ in pairs], dtype=np.int64), np.array([x for _, x in pairs], float)


def _assemble(
    top: str,
    places: list[_Place],
    numbers: Sequence[Ints],
    root: Ints,
    kinds: Sequence[tuple[Arc, str]],
) -> Expanded:
    found = [(place, place.part, root[own]) for place, own in zip(places, numbers, strict=True)]

    def arcs(group: str) -> Ints:
        columns = [
            (part.arcs[group][0] + place.pin, number[part.arcs[group][1]], part.arcs[group][2])
            for place, part, number in found
        ]
        return np.concatenate([np.stack(three) for three in columns], axis=1)

    strength = np.zeros(len(root))
    for _, part, number in found:
        strength[number[part.driven[0]]] = part.driven[1]
    _, whole, own = found[0]

    def ports(direction: str) -> dict[str, Ints]:
        return {
            name: own[[whole.number(net) for net in port["bits"]]]
            for name, port in whole.ports.items()
            if port["direction"] == direction
        }

    return Expanded(
        name=top,
        kinds=[arc for arc, _ in kinds],
        kind_cells=[cell for _, cell in kinds],
        nets=len(root),
        named_nets=len(root),
        pin_net=np.concatenate([number[part.pins[0]] for _, part, number in found]),
        pin_load=np.concatenate([part.pins[1] for _, part, _ in found]),
        pin_is_clock=np.concatenate([part.pins[2] for _, part, _ in found]),
        **{group: arcs(group) for group in GROUPS},
        end_pin=np.concatenate([part.ends[0] + place.pin for place, part, _ in found]),
        setup=np.concatenate([part.ends[1] for _, part, _ in found]),
        strength=strength,
        inputs=ports("input"),
        outputs=ports("output"),
        cells=sum(part.cells for _, part, _ in found),
        logic_area=sum(part.area for _, part, _ in found),
        places=places,
    )


def _roots(same: Sequence[tuple[int, int]], nets: int) -> Ints:
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
