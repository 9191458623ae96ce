"""Energy of a placed netlist: as ``tilewright.synth.energy``, with the wires of the layout.

Before placement every sink costs a wire of average length; here every net has its own, cells have
the strengths that repair gave them, its buffers toggle as the nets they repeat, and the clock has a
tree, whose wires move with the pulses that its gates let through.
"""

# Names of pins and nets share variables, and records say which code made them.
# mypy: disable-error-code=assignment
from dataclasses import replace

from tilewright.synth.activity import Activity
from tilewright.synth.energy import energy_of
from tilewright.synth.netlist import Net
from tilewright.synth.place.place import PlacedBlock

__all__ = ["placed_energy"]


def placed_energy(placed: PlacedBlock, activity: Activity, period: float) -> float:
    """Energy (fJ) of one stream over the counted cycles, at a clock of ``period`` ps."""
    layout, technology = placed.layout, placed.layout.technology
    toggles = dict(activity.toggles)
    names = {instance.name for instance in placed.synthesis.netlist.instances}
    repeated: dict[Net, Net] = {}
    for buffer in layout.netlist.instances:
        if buffer.name not in names:
            (source,), (target,) = buffer.cell.inputs, buffer.cell.outputs
            repeated[buffer.pins[target]] = buffer.pins[source]
    for target, source in repeated.items():
        while source in repeated:  # a buffer may stand behind another one
            source = repeated[source]
        toggles[target] = toggles.get(source, 0)
    moved = replace(activity, toggles=toggles)
    total = energy_of(layout.netlist, technology, moved, period, wire=0.0).total
    half_square = technology.supply**2 / 2

    def transitions(net: Net) -> float:
        return toggles.get(net, 0) / activity.streams

    capacitance = layout.wires.capacitance
    total += half_square * sum(c * transitions(net) for net, c in capacitance.items())
    if placed.clock is not None:
        total += activity.cycles * placed.clock.energy
        for gate, energy in placed.clock.energy_behind.items():
            total += activity.pulses[gate] / activity.streams * energy
        total += activity.cycles * placed.clock.leakage * period * 1e-6  # nW * ps is 1e-6 fJ
    return total
