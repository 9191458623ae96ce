"""A block from RTL to an estimate of its layout: cells placed, wires timed, timing repaired."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_rtlil
from tilewright.synth.flow import DEFAULT_GOAL, Goal, Synthesis, synthesise
from tilewright.synth.place.clock_tree import ClockTree, clock_tree
from tilewright.synth.place.congestion import Congestion, congestion_of
from tilewright.synth.place.layout import UTILISATION, Layout, lay_out
from tilewright.synth.place.repair import Repaired, repair
from tilewright.synth.technology import load_technology

__all__ = ["PlacedBlock", "place_block"]


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
