"""Energy of a mapped netlist on a workload: internal, switching, clock and leakage.

- internal: what a cell uses itself, per transition of an output, from its table
- switching: half C V^2 per transition of a net; C is the pins it drives, what a port drives, and
  its wire
- clock: per flip-flop and cycle, its internal energy without a change and twice half C V^2 of its
  clock pin and wire; there is no clock tree
- leakage: of every cell, over the clock period

There is no placement, so wires are estimated: every sink costs one connection of Donath's average
length (W. E. Donath, IEEE Trans. Circuits and Systems 26(4), 1979), in pitches of the average cell
at ``UTILISATION``, times the technology's capacitance per length.
"""

import tomllib
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from synth.activity import Activity
from synth.netlist import Net, Netlist
from synth.technology import Technology

__all__ = ["Energy", "connection_length", "energy_of", "wire_capacitance"]

RENT_EXPONENT = 0.6  # of datapath logic
UTILISATION = 0.7  # of a row by cells


@dataclass(frozen=True)
class Energy:
    """fJ per stream over the counted cycles."""

    internal: float
    switching: float
    clock: float
    leakage: float
    by_part: dict[str, float]  # sums to the total; "" is the top, where its input nets count too

    @property
    def total(self) -> float:
        return self.internal + self.switching + self.clock + self.leakage


def energy_of(
    netlist: Netlist, technology: Technology, activity: Activity, period: float
) -> Energy:
    """Of the counted cycles at a clock of ``period`` ps, an average over the streams."""
    wire = wire_capacitance(netlist, technology)
    half_square = technology.supply**2 / 2
    load: defaultdict[Net, float] = defaultdict(float)
    for instance in netlist.instances:
        for pin, capacitance in instance.cell.inputs.items():
            load[instance.pins[pin]] += capacitance + wire
    for nets in netlist.outputs.values():
        for net in nets:
            load[net] += technology.output_load + wire
    # fF * V^2 is fJ; nW * ps is 1e-6 fJ.
    per_cycle = 1e-6 * period
    internal = switching = clock = leakage = 0.0
    parts: defaultdict[str, float] = defaultdict(float)
    for instance in netlist.instances:
        cell = instance.cell
        changes = {
            net: activity.toggles.get(net, 0) / activity.streams
            for net in (instance.pins.get(pin) for pin in cell.outputs)
            if net is not None
        }
        own = cell.energy * sum(changes.values())
        driven = half_square * sum(load[net] * count for net, count in changes.items())
        ticking = leaking = 0.0
        if cell.clock_pin is not None:
            edges = 2 * half_square * (cell.inputs[cell.clock_pin] + wire)
            ticking = activity.cycles * (cell.clock_energy + edges)
        leaking = activity.cycles * cell.leakage * per_cycle
        internal += own
        switching += driven
        clock += ticking
        leakage += leaking
        parts[_part(instance.name)] += own + driven + ticking + leaking
    entering = half_square * sum(
        load[net] * activity.toggles.get(net, 0) / activity.streams
        for port, nets in netlist.inputs.items()
        for net in nets
        if port != "clk"
    )
    parts[""] += entering
    return Energy(internal, switching + entering, clock, leakage, dict(sorted(parts.items())))


def _part(name: str) -> str:
    """The part of the top module that an instance lies in, where the hierarchy was kept."""
    part, dot, _ = name.removeprefix("$flatten\\").partition(".")
    return part if dot and not part.startswith("$") else ""


def wire_capacitance(netlist: Netlist, technology: Technology) -> float:
    """fF of the connection to one sink."""
    cells = max(2, len(netlist.instances))
    pitch = (netlist.area / cells / UTILISATION) ** 0.5
    return connection_length(cells) * pitch * _capacitance_per_um(technology.name)


def connection_length(cells: int, rent: float = RENT_EXPONENT) -> float:
    """Donath's average length of a connection among ``cells`` cells, in their pitches."""
    near = 7 * (cells ** (rent - 0.5) - 1) / (4 ** (rent - 0.5) - 1)
    far = (1 - cells ** (rent - 1.5)) / (1 - 4 ** (rent - 1.5))
    return 2 / 9 * (near - far) * (1 - 4 ** (rent - 1)) / (1 - cells ** (rent - 1))


@cache
def _capacitance_per_um(technology: str) -> float:
    table = tomllib.loads((Path(__file__).parent / "tech" / f"{technology}.toml").read_text())
    return float(table["wire_ff_per_um"])
