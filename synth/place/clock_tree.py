"""A clock tree for a layout, as an estimate: buffers above clusters of registers.

Registers that share a clock (behind one gate, or ungated) are grouped by place, at most
:data:`FANOUT` together, each group behind a buffer in its middle; groups are grouped again in the
same way up to the clock's port. A small group behind a clock gate is driven by the gate itself.
Nothing is balanced beyond that; the skew says how far apart registers are then.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.synth.place.layout import Layout
from tilewright.synth.place.sizes import buffers
from tilewright.synth.place.wires import steiner_factor
from tilewright.synth.technology import Arc, Cell

__all__ = ["FANOUT", "ClockTree", "clock_tree"]

FANOUT = 20  # sinks of a buffer


@dataclass(frozen=True)
class ClockTree:
    """Times in ps, lengths in um, areas in um2, energies in fJ."""

    registers: int
    buffers: int
    levels: int  # from the port to a register
    area: float  # of the buffers
    length: float
    latency: float  # to the last register
    skew: float
    energy: float  # of a cycle, before the gates: wires, buffers and their pins
    energy_behind: dict[str, float]  # of a pulse that each gate lets through
    leakage: float  # nW


@dataclass
class _Node:
    """Something that the clock goes to: a register, a gate with what is behind it, or a buffer."""

    x: float
    y: float
    load: float
    earliest: float  # from its pin to the first register behind it
    latest: float
    depth: int
    added: bool = False  # a buffer of the tree


def clock_tree(layout: Layout) -> ClockTree | None:
    """Return the tree of the only clock, or None where there are no registers."""
    builder = _Builder(layout)
    return builder.build()


class _Builder:
    def __init__(self, layout: Layout):
        self.layout, self.rules = layout, layout.rules
        technology = layout.technology
        choices = buffers(technology)
        self.buffer = choices[len(choices) // 2]
        self.slew = technology.clock_slew
        self.half_square = technology.supply**2 / 2
        self.buffers, self.length = 0, 0.0
        self.energy: dict[str | None, float] = {None: 0.0}  # by the gate before it
        self.gate: str | None = None

    def build(self) -> ClockTree | None:
        netlist, x, y = self.layout.netlist, self.layout.x, self.layout.y
        gates = netlist.clock_gates
        groups: dict[object, list[_Node]] = {}
        registers = 0
        gate_numbers: dict[object, int] = {}
        for k, instance in enumerate(netlist.instances):
            cell = instance.cell
            if cell.clock_gate is not None:
                gate_numbers[instance.pins[cell.clock_gate.gated]] = k
            elif cell.clock_pin is not None and cell.clock_pin in instance.pins:
                registers += 1
                node = _Node(float(x[k]), float(y[k]), cell.inputs[cell.clock_pin], 0.0, 0.0, 0)
                groups.setdefault(instance.pins[cell.clock_pin], []).append(node)
        if not registers:
            return None
        roots: list[_Node] = []
        for net, nodes in groups.items():
            if net not in gates:
                roots += nodes
                continue
            k, gate = gate_numbers[net], gates[net].cell
            self.gate = gates[net].name
            while len(nodes) > FANOUT:
                nodes = [self._drive(group, self.buffer) for group in _together(nodes, FANOUT)]
            arc = next(a for a in gate.arcs if a.source == gate.clock_pin)
            driven = self._drive(nodes, gate, arc, (float(x[k]), float(y[k])))
            roots.append(driven)
        self.gate = None
        while len(roots) > 1:
            roots = [self._drive(group, self.buffer) for group in _together(roots, FANOUT)]
        (root,) = roots
        return ClockTree(
            registers,
            self.buffers,
            root.depth,
            self.buffers * self.buffer.area,
            self.length,
            root.latest,
            root.latest - root.earliest,
            self.energy[None],
            {gate: energy for gate, energy in self.energy.items() if gate is not None},
            self.buffers * self.buffer.leakage,
        )

    def _drive(
        self,
        nodes: Sequence[_Node],
        cell: Cell,
        arc: Arc | None = None,
        place: tuple[float, float] | None = None,
    ) -> _Node:
        """``cell`` in front of ``nodes``; a star of wires, each with its own Elmore delay."""
        arc_used = arc or cell.arcs[0]
        middle = (
            float(np.mean([node.x for node in nodes])),
            float(np.mean([node.y for node in nodes])),
        )
        at = place or middle
        lengths = [abs(node.x - at[0]) + abs(node.y - at[1]) for node in nodes]
        # One wire passes several sinks: the length of the group is that of a Steiner tree at most.
        spread = _steiner(nodes, at)
        wires = min(sum(lengths), spread)
        load = wires * self.rules.ff_per_um + sum(node.load for node in nodes)
        delay = arc_used.rise.delay.at(self.slew, load)
        self.length += wires
        # Pins of registers and gates are in the energy of the netlist already.
        pins = sum(node.load for node in nodes if node.added)
        energy = 2 * self.half_square * (wires * self.rules.ff_per_um + pins)
        if arc is None:
            self.buffers += 1
            energy += 2 * sum(cell.energy.values())
        self.energy[self.gate] = self.energy.get(self.gate, 0.0) + energy
        reach = [self.rules.elmore(a, node.load) for a, node in zip(lengths, nodes, strict=True)]
        pin = arc_used.source
        return _Node(
            at[0],
            at[1],
            cell.inputs[pin],
            delay + min(r + node.earliest for r, node in zip(reach, nodes, strict=True)),
            delay + max(r + node.latest for r, node in zip(reach, nodes, strict=True)),
            1 + max(node.depth for node in nodes),
            added=arc is None,
        )


def _steiner(nodes: Sequence[_Node], at: tuple[float, float]) -> float:
    xs, ys = [node.x for node in nodes] + [at[0]], [node.y for node in nodes] + [at[1]]
    return (max(xs) - min(xs) + max(ys) - min(ys)) * steiner_factor(len(xs))


def _together(nodes: Sequence[_Node], most: int) -> list[list[_Node]]:
    """Groups of at most so many that lie together: the longer side is halved again and again."""
    waiting, found = [list(nodes)], []
    while waiting:
        group = waiting.pop()
        if len(group) <= most:
            found.append(group)
            continue
        wide = np.ptp([n.x for n in group]) >= np.ptp([n.y for n in group])
        group.sort(key=lambda node: (node.x, node.y) if wide else (node.y, node.x))
        waiting += [group[: len(group) // 2], group[len(group) // 2 :]]
    return found
