"""A balanced clock tree for a layout, as an estimate.

Registers that share a clock (behind one gate, or ungated) are grouped by place: at most
``FANOUT`` together, and no more than a buffer can drive in about twice its own delay. Each
group is behind a buffer in its middle, or behind its clock gate if that is near. Groups that take
about as long are grouped again, so that a branch that is quicker gets more levels, up to one root;
long wires have repeaters. Then branches are matched: the quicker of two that meet gets a buffer, or
a load, until both take as long. The skew is what is left, slopes included.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.synth.place.layout import Layout
from tilewright.synth.place.rules import buffers
from tilewright.synth.place.wires import steiner_factor
from tilewright.synth.technology import Arc, Cell

FANOUT = 20  # sinks of a buffer
_ROUNDS = 12  # of matching: a load changes slopes, and so the delays behind it


@dataclass(frozen=True)
class ClockTree:
    """Times in ps, lengths in um, areas in um2, energies in fJ."""

    registers: int
    buffers: int
    levels: int  # from the port to a register, at the most
    area: float  # of the buffers
    length: float
    padding: float  # fF that match branches
    latency: float  # to the last register
    skew: float
    energy: float  # of a cycle, before the gates: wires, buffers, their pins, and padding
    energy_behind: dict[str, float]  # of a pulse that each gate lets through
    leakage: float  # nW


@dataclass(eq=False)
class _Node:
    """Something that the clock goes to: a register, or a gate or buffer with what it drives."""

    x: float
    y: float
    load: float  # of its pin, fF
    cell: Cell | None = None  # none of a register
    arc: Arc | None = None
    gate: str | None = None  # whose pulses it passes on
    added: bool = False  # a buffer of the tree
    behind: list["_Node"] = field(default_factory=list)
    wires: float = 0.0  # um
    reach: list[float] = field(default_factory=list)  # ps along the wire to each node behind it
    padding: float = 0.0  # fF
    earliest: float = 0.0  # from its pin to the first register behind it
    latest: float = 0.0

    @property
    def driven(self) -> float:
        return self.padding + sum(node.load for node in self.behind)

    def all(self) -> Iterator["_Node"]:
        yield self
        for node in self.behind:
            yield from node.all()


def clock_tree(layout: Layout) -> ClockTree | None:
    """Return the tree of the only clock, or None where there are no registers."""
    return _Builder(layout).build()


class _Builder:
    def __init__(self, layout: Layout):
        self.layout, self.rules = layout, layout.rules
        self.technology = technology = layout.technology
        choices = buffers(technology)
        self.buffer = choices[len(choices) // 2]
        (self.pin,) = self.buffer.inputs.values()
        self.slew = technology.clock_slew
        edge = self.buffer.arcs[0].rise.delay
        self.own = edge.at(self.slew, 0.0)
        self.most = self.own / (edge.at(0.0, 1.0) - edge.at(0.0, 0.0))  # fF behind a buffer
        # The wire whose delay is about that of a buffer.
        self.stretch = (0.8e3 * self.own / (self.rules.ohm_per_um * self.rules.ff_per_um)) ** 0.5
        low, high = technology.slew_thresholds
        self.per_delay = math.log((100 - low) / (100 - high))  # slew of an RC over its delay

    def build(self) -> ClockTree | None:
        netlist, x, y = self.layout.netlist, self.layout.x, self.layout.y
        groups: dict[object, list[_Node]] = {}
        gates: dict[object, int] = {}
        registers = 0
        for k, instance in enumerate(netlist.instances):
            cell = instance.cell
            if cell.clock_gate is not None:
                gates[instance.pins[cell.clock_gate.gated]] = k
            elif cell.clock_pin is not None and cell.clock_pin in instance.pins:
                registers += 1
                node = _Node(float(x[k]), float(y[k]), cell.inputs[cell.clock_pin])
                groups.setdefault(instance.pins[cell.clock_pin], []).append(node)
        if not registers:
            return None
        roots: list[_Node] = []
        for net, nodes in groups.items():
            if net not in netlist.clock_gates:
                roots += [self._drive(group) for group in self._together(nodes)]
                continue
            place = float(x[gates[net]]), float(y[gates[net]])
            roots.append(self._gated(netlist.instances[gates[net]].name, nodes, gates[net], place))
        root = self._grown(roots)
        for _ in range(_ROUNDS):
            self._time(root, self.slew)
            for node in root.all():
                self._match(node)
        self._time(root, self.slew)
        return self._found(root, registers)

    def _gated(
        self, name: str, nodes: list[_Node], number: int, place: tuple[float, float]
    ) -> _Node:
        """A gate with the registers behind it, through buffers where it cannot drive them."""
        cell = self.layout.netlist.instances[number].cell
        arc = next(a for a in cell.arcs if a.source == cell.clock_pin)
        while len(nodes) > FANOUT or self._load(nodes, place) > self.most:
            groups = self._together(nodes)
            if len(groups) == len(nodes):  # far apart: each has a buffer already
                break
            nodes = [self._drive(group, gate=name) for group in groups]
        nodes = [self._reached(node, place, name) for node in nodes]
        return self._drive(nodes, cell=cell, arc=arc, place=place, gate=name)

    def _grown(self, nodes: list[_Node]) -> _Node:
        """One root above ``nodes``: those that take least are grouped first."""
        while len(nodes) > 1:
            least = min(node.latest for node in nodes)
            quick = [node for node in nodes if node.latest <= least + self.own]
            slow = [node for node in nodes if node.latest > least + self.own]
            groups = self._together(quick)
            if len(groups) == len(quick) and not slow:  # wires alone fill a buffer
                middle = _middle(quick)
                groups = [[self._reached(node, middle, None) for node in quick]]
            nodes = [self._drive(group) for group in groups] + slow
        (root,) = nodes
        return root

    def _reached(self, node: _Node, place: tuple[float, float], gate: str | None) -> _Node:
        """``node`` with as many repeaters as its wire from ``place`` needs."""
        away = abs(node.x - place[0]) + abs(node.y - place[1])
        for k in reversed(range(1, int(away / self.stretch) + 1)):
            share = k * self.stretch / away
            at = (
                place[0] + share * (node.x - place[0]),
                place[1] + share * (node.y - place[1]),
            )
            node = self._drive([node], place=at, gate=gate)
        return node

    def _drive(
        self,
        nodes: list[_Node],
        *,
        cell: Cell | None = None,
        arc: Arc | None = None,
        place: tuple[float, float] | None = None,
        gate: str | None = None,
    ) -> _Node:
        """A cell, a buffer if none is said, in front of ``nodes``: a star of wires."""
        at = place or _middle(nodes)
        aimed = max(node.latest + self._reach(node, at) for node in nodes)
        matched = [self._slowed(node, aimed - self._reach(node, at), gate) for node in nodes]
        used = cell or self.buffer
        found = _Node(at[0], at[1], self.pin, used, arc or used.arcs[0], gate, cell is None)
        if cell is not None:
            found.load = cell.inputs[str(cell.clock_pin)]
        found.behind = matched
        found.wires = self._wires(matched, at)
        found.reach = [self._reach(node, at) for node in matched]
        assert found.arc is not None
        load = found.driven + found.wires * self.rules.ff_per_um
        own = found.arc.rise.delay.at(self.slew, load)
        ways = list(zip(found.reach, matched, strict=True))
        found.earliest = own + min(reach + node.earliest for reach, node in ways)
        found.latest = own + max(reach + node.latest for reach, node in ways)
        return found

    def _slowed(self, node: _Node, latest: float, gate: str | None) -> _Node:
        """``node`` behind as many buffers as fit into the time that it has."""
        while node.cell is not None:
            edge = self.buffer.arcs[0].rise.delay
            more = edge.at(self.slew, node.load)
            if node.latest + more > latest:
                break
            node = _Node(
                *(node.x, node.y, self.pin, self.buffer, self.buffer.arcs[0], gate, True),
                behind=[node],
                reach=[0.0],
                earliest=node.earliest + more,
                latest=node.latest + more,
            )
        return node

    def _time(self, node: _Node, slew: float) -> None:
        """From the pin of ``node`` to the registers behind it, with the slopes that arise."""
        if node.arc is None:
            node.earliest = node.latest = 0.0
            return
        load = node.driven + node.wires * self.rules.ff_per_um
        own, after = node.arc.rise.delay.at(slew, load), node.arc.rise.slew.at(slew, load)
        for reach, other in zip(node.reach, node.behind, strict=True):
            self._time(other, math.hypot(after, self.per_delay * reach))
        ways = list(zip(node.reach, node.behind, strict=True))
        node.earliest = own + min(reach + other.earliest for reach, other in ways)
        node.latest = own + max(reach + other.latest for reach, other in ways)

    def _match(self, node: _Node) -> None:
        """Load the quicker of the branches that ``node`` drives."""
        ways = list(zip(node.reach, node.behind, strict=True))
        aimed = max((reach + other.latest for reach, other in ways), default=0.0)
        for reach, other in ways:
            if other.arc is None:
                continue
            edge = other.arc.rise
            per_load = edge.delay.at(0.0, 1.0) - edge.delay.at(0.0, 0.0)
            per_load += 0.3 * (edge.slew.at(0.0, 1.0) - edge.slew.at(0.0, 0.0))
            other.padding += 0.8 * (aimed - reach - other.latest) / per_load

    def _reach(self, node: _Node, at: tuple[float, float]) -> float:
        return self.rules.elmore(abs(node.x - at[0]) + abs(node.y - at[1]), node.load)

    def _wires(self, nodes: Sequence[_Node], at: tuple[float, float]) -> float:
        """One wire passes several nodes: it is a Steiner tree at most."""
        star = sum(abs(node.x - at[0]) + abs(node.y - at[1]) for node in nodes)
        xs, ys = [*(node.x for node in nodes), at[0]], [*(node.y for node in nodes), at[1]]
        return min(star, (max(xs) - min(xs) + max(ys) - min(ys)) * steiner_factor(len(xs)))

    def _load(self, nodes: Sequence[_Node], at: tuple[float, float]) -> float:
        pins = sum(node.load for node in nodes)
        return pins + self.rules.ff_per_um * self._wires(nodes, at)

    def _together(self, nodes: Sequence[_Node]) -> list[list[_Node]]:
        """Groups that one buffer drives: the longer side is halved again and again."""
        waiting, found = [list(nodes)], []
        while waiting:
            group = waiting.pop()
            if len(group) == 1 or (
                len(group) <= FANOUT and self._load(group, _middle(group)) <= self.most
            ):
                found.append(group)
                continue
            xs, ys = [node.x for node in group], [node.y for node in group]
            wide = max(xs) - min(xs) >= max(ys) - min(ys)
            group.sort(key=lambda node: (node.x, node.y) if wide else (node.y, node.x))
            waiting += [group[: len(group) // 2], group[len(group) // 2 :]]
        return found

    def _found(self, root: _Node, registers: int) -> ClockTree:
        half_square = self.technology.supply**2 / 2
        energy: dict[str | None, float] = {None: 0.0}  # by the gate before it
        count, length, padding = 0, 0.0, 0.0
        for node in root.all():
            if node.cell is None:
                continue
            # Pins of registers and gates are in the energy of the netlist already.
            pins = sum(other.load for other in node.behind if other.added)
            wires = node.wires * self.rules.ff_per_um
            spent = 2 * half_square * (wires + pins + node.padding)
            if node.added:
                count += 1
                spent += 2 * sum(node.cell.energy.values())
            energy[node.gate] = energy.get(node.gate, 0.0) + spent
            length, padding = length + node.wires, padding + node.padding
        return ClockTree(
            registers,
            count,
            _depth(root),
            count * self.buffer.area,
            length,
            padding,
            root.latest,
            root.latest - root.earliest,
            energy[None],
            {gate: spent for gate, spent in energy.items() if gate is not None},
            count * self.buffer.leakage,
        )


def _middle(nodes: Sequence[_Node]) -> tuple[float, float]:
    return (
        math.fsum(node.x for node in nodes) / len(nodes),
        math.fsum(node.y for node in nodes) / len(nodes),
    )


def _depth(node: _Node) -> int:
    return 0 if node.cell is None else 1 + max(_depth(other) for other in node.behind)
