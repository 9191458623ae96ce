"""Blocks placed, with the energy of PEs before and after, written into ``synth/records``."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tilewright.base.errors import CommandError
from tilewright.studies.pe.energy import CLOCK_MHZ
from tilewright.studies.pe.workload import STREAMS, pe_bench, words_of, workload
from tilewright.synth.activity import measure
from tilewright.synth.energy import energy_of
from tilewright.synth.flow import DEFAULT_GOAL, Goal
from tilewright.synth.place.place import PlacedBlock, place_block, placed_energy
from tilewright.synth.place.record import PLACED, placed_record
from tilewright.synth.record import load_kind, record_name, store_record


def energies_of(placed: PlacedBlock) -> tuple[float, float] | None:
    """Return fJ per multiply-add on real data, before and after placement; None if it is no PE.

    At the clock of the comparison of PEs. Before, every sink has a wire of average length.
    """
    try:
        bench = pe_bench(placed.params)
    except CommandError:
        return None
    asked = workload(placed.params, "real", bench.usual_variant)
    netlist, technology = placed.synthesis.netlist, placed.layout.technology
    activity = measure(netlist, STREAMS, asked.beats, asked.counted)
    if not np.array_equal(words_of(activity.results["o"], STREAMS), asked.results):
        raise RuntimeError(f"the netlist of {placed.params.slug} gives wrong results")
    period = 1e6 / CLOCK_MHZ
    before = energy_of(netlist, technology, activity, period).total
    return before / asked.macs, placed_energy(placed, activity, period) / asked.macs


def place_and_measure(
    spec: str,
    technology: str,
    *,
    goal: Goal = DEFAULT_GOAL,
    utilisation: float | None = None,
    watch: Callable[[str], None] = lambda done: None,
) -> tuple[PlacedBlock, dict[str, Any]]:
    """Place a block, and return it with its record."""
    options = {} if utilisation is None else {"utilisation": utilisation}
    placed = place_block(spec, technology, goal=goal, watch=watch, **options)
    record = placed_record(placed, energies_of(placed))
    watch("measured")
    return placed, record


def store_placed(placed: PlacedBlock, record: dict[str, Any]) -> None:
    """Write the record of a placed block."""
    technology, goal = record["technology"], placed.synthesis.goal
    store_record(PLACED, technology, record_name(placed.params, technology, goal), record)


def renew_placed(names: Iterable[str], watch: Callable[[str], None]) -> None:
    """Place the blocks of the records ``names`` again; ``watch`` is told what is done."""
    records = load_kind(PLACED)
    for name in names:
        old = records[name]
        placed, record = place_and_measure(
            old["spec"], old["technology"], goal=Goal(old["goal"]), watch=watch
        )
        store_placed(placed, record)
