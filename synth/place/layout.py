"""A netlist with a place for every cell, and how it got there."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tilewright.synth.netlist import Netlist
from tilewright.synth.place.analytic import STEPS, place_cells
from tilewright.synth.place.floorplan import Floorplan, around, plan_floor
from tilewright.synth.place.legalise import legalise
from tilewright.synth.place.rules import Rules, load_rules
from tilewright.synth.place.timing import Timing
from tilewright.synth.place.wires import Wires, wires_of
from tilewright.synth.place.wiring import Floats, Wiring, wiring_of
from tilewright.synth.technology import Technology

__all__ = ["UTILISATION", "Layout", "lay_out"]

UTILISATION = 0.7  # of the rows by cells, before timing repair adds to them
_WINDOW, _PULL = 0.2, 4.0  # of slacks that count as urgent, and how much harder these nets pull


@dataclass(frozen=True)
class Layout:
    """Centres of all points (um): instances in the order of the netlist, then bits of ports."""

    netlist: Netlist
    technology: Technology
    rules: Rules
    floorplan: Floorplan
    x: Floats
    y: Floats

    @cached_property
    def wiring(self) -> Wiring:
        return wiring_of(self.netlist)

    @cached_property
    def wires(self) -> Wires:
        load = self.technology.output_load
        return wires_of(self.netlist, self.wiring, self.x, self.y, self.rules, load)

    @cached_property
    def timing(self) -> Timing:
        """With wires."""
        return Timing(self.netlist, self.technology, self.wiring, self.wires)

    @property
    def utilisation(self) -> float:
        """Of the rows by cells."""
        core = self.floorplan.core
        return (self.netlist.area - self.netlist.memory_area) / (core.width * core.height)

    def in_rows(self) -> "Layout":
        """The same with its cells in rows, without overlap."""
        cells = [k for k, i in enumerate(self.netlist.instances) if not i.cell.memory_bits]
        areas = [instance.cell.area for instance in self.netlist.instances]
        widths = np.array(areas) / self.rules.row_height
        count = len(areas)
        x, y = legalise(
            np.array(cells, dtype=np.int64), widths, self.x[:count], self.y[:count], self.floorplan
        )
        ports_x, ports_y = self.x[count:], self.y[count:]
        return replace(self, x=np.concatenate([x, ports_x]), y=np.concatenate([y, ports_y]))


def lay_out(
    netlist: Netlist,
    technology: Technology,
    utilisation: float = UTILISATION,
    steps: int = STEPS,
) -> Layout:
    """Place ``netlist``: memories at the edges, cells by wire length, then into rows."""
    if not 0 < utilisation <= 0.95:
        raise ValueError(f"utilisation must be above 0 and at most 0.95, not {utilisation:g}")
    rules, wiring = load_rules(technology.name), wiring_of(netlist)
    plan = plan_floor(netlist, wiring, rules, utilisation)
    first = _place(netlist, technology, plan, wiring, rules, steps // 2, None)
    port_x, port_y = _ports_near_cells(first)
    plan = replace(plan, port_x=port_x, port_y=port_y)
    again = _place(netlist, technology, plan, wiring, rules, steps, _urgency(first))
    return min(first, again, key=lambda layout: layout.timing.delay)


def _place(
    netlist: Netlist,
    technology: Technology,
    plan: Floorplan,
    wiring: Wiring,
    rules: Rules,
    steps: int,
    weights: Floats | None,
) -> Layout:
    count = len(netlist.instances)
    x, y = np.zeros(count), np.zeros(count)
    for k, box in plan.macros.items():
        x[k], y[k] = box.x + box.width / 2, box.y + box.height / 2
    areas = np.array([i.cell.area for i in netlist.instances] + [0.0] * len(wiring.ports))
    movable = np.array([not i.cell.memory_bits for i in netlist.instances], dtype=bool)
    movable = np.concatenate([movable, np.zeros(len(wiring.ports), dtype=bool)])
    x, y = place_cells(
        wiring,
        areas,
        movable,
        np.concatenate([x, plan.port_x]),
        np.concatenate([y, plan.port_y]),
        plan.core,
        steps,
        weights,
    )
    return Layout(netlist, technology, rules, plan, x, y).in_rows()


def _ports_near_cells(layout: Layout) -> tuple[Floats, Floats]:
    """Ports around the die in the order of what they are connected to."""
    wiring, plan = layout.wiring, layout.floorplan
    middle_x, middle_y = plan.width / 2, plan.height / 2
    angle = np.zeros(len(wiring.ports))
    for k in range(len(wiring.nets)):
        points = wiring.points[wiring.start[k] : wiring.start[k + 1]]
        ports, cells = points[points >= wiring.instances], points[points < wiring.instances]
        if len(ports) and len(cells):
            away = layout.y[cells].mean() - middle_y, layout.x[cells].mean() - middle_x
            # from the lower left corner clockwise, as places around the die are counted
            angle[ports - wiring.instances] = (-np.arctan2(*away) - 3 * np.pi / 4) % (2 * np.pi)
    return around(np.argsort(angle, kind="stable"), plan.width, plan.height)


def _urgency(layout: Layout) -> Floats:
    """How hard nets shall pull: those on long paths several times as hard as the others."""
    timing = layout.timing
    slacks = np.array([timing.slacks.get(net, timing.delay) for net in layout.wiring.nets])
    critical = np.clip(1 - slacks / (_WINDOW * timing.delay + 1e-9), 0.0, 1.0)
    return 1 + _PULL * critical**2
