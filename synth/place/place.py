"""A block from RTL to an estimate of its layout: cells placed, wires timed, timing repaired."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.resolve import resolve
from tilewright.synth.activity import Activity
from tilewright.synth.emit import to_rtlil
from tilewright.synth.energy import energy_of
from tilewright.synth.flow import DEFAULT_GOAL, Goal, Synthesis, synthesise
from tilewright.synth.netlist import Net
from tilewright.synth.place.clock_tree import ClockTree, clock_tree
from tilewright.synth.place.layout import UTILISATION, Congestion, Layout, congestion_of, lay_out
from tilewright.synth.place.repair import Repaired, repair
from tilewright.synth.technology import load_technology


@dataclass(frozen=True)
class PlacedBlock:
    """What is known of a placed block; delays in ps, lengths in um, areas in um2."""

    spec: str
    params: BlockParams
    rtlil: str
    synthesis: Synthesis
    asked_utilisation: float
    placed: Layout  # before timing repair
    repaired: Repaired

    @property
    def layout(self) -> Layout:
        """After timing repair."""
        return self.repaired.layout

    @property
    def delay_before(self) -> float:
        """Of the netlist without wires, as synthesis says."""
        return self.synthesis.delay

    @property
    def delay_placed(self) -> float:
        """With wires, before anything was repaired."""
        return self.placed.timing.delay

    @property
    def delay(self) -> float:
        """With wires, after repair; the clock's skew is not in it."""
        return self.layout.timing.delay

    @cached_property
    def clock(self) -> ClockTree | None:
        return clock_tree(self.layout)

    @cached_property
    def congestion(self) -> Congestion:
        return congestion_of(self.layout)

    @property
    def period(self) -> float:
        """The clock that holds: the longest path, and the whole skew against it."""
        return self.delay + (self.clock.skew if self.clock else 0.0)


def place_block(
    spec: str,
    technology: str = "asap7",
    *,
    goal: Goal = DEFAULT_GOAL,
    utilisation: float = UTILISATION,
    watch: Callable[[str], None] = lambda done: None,
) -> PlacedBlock:
    """Synthesise and place ``spec``; ``watch`` is told of every step that is done."""
    params, cells = resolve(spec), load_technology(technology)
    rtlil = to_rtlil(params, memory_macros=True)
    found = synthesise(rtlil, params.slug, cells, goal)
    watch("synthesised")
    placed = lay_out(found.netlist, cells, utilisation)
    watch("placed")
    repaired = repair(placed)
    watch("repaired")
    return PlacedBlock(spec, params, rtlil, found, utilisation, placed, repaired)


# Names of pins and nets share variables, and records say which code made them.
# mypy: disable-error-code=assignment


def placed_energy(placed: PlacedBlock, activity: Activity, period: float) -> float:
    """Energy (fJ) of one stream over the counted cycles, at a clock of ``period`` ps.

    Before placement every sink costs a wire of average length; here every net has its own, cells
    have the strengths that repair gave them, its buffers toggle as the nets they repeat, and the
    clock has a tree, whose wires move with the pulses that its gates let through.
    """
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
