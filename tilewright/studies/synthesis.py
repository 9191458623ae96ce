"""Results of synthesis and placement written into ``synth/records``, and proofs by a bench."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.base.errors import CommandError
from tilewright.base.records import updated_table
from tilewright.golden.params.resolve import resolve
from tilewright.studies.pe.energy import CLOCK_MHZ
from tilewright.studies.pe.workload import STREAMS, pe_bench, words_of, workload
from tilewright.synth.activity import measure
from tilewright.synth.deviation import DEVIATION_RECORD
from tilewright.synth.energy import energy_of
from tilewright.synth.equivalence import Equivalence, Verdict
from tilewright.synth.flow import DEFAULT_GOAL, Goal, Synthesis
from tilewright.synth.jobs import Job, JobResult, prove
from tilewright.synth.place.place import PlacedBlock, place_block, placed_energy
from tilewright.synth.place.record import PLACED, placed_record
from tilewright.synth.record import load_kind, record_name, store_record, store_synthesis
from tilewright.synth.technology import Technology
from tilewright.verify.netlist import bench_netlist
from tilewright.verify.simulators import BenchResult, MissingToolError

COUNTED = ("cases", "cycles")  # of a bench; its seconds differ from run to run


def prove_or_bench(job: Job, synthesis: Synthesis) -> Equivalence:
    """Prove that a netlist is equivalent to its RTL; where no proof is found, run its bench."""
    found = prove(job, synthesis)
    if found.verdict not in (Verdict.UNDECIDED, Verdict.UNMATCHED):
        return found
    try:
        bench = bench_netlist(job.spec, synthesis)
    except MissingToolError as error:
        return replace(found, detail=f"{found.detail}; {error}".removeprefix("; "))
    if not bench.passed:
        first = (bench.failure or "no reason given").splitlines()[0]
        return replace(found, verdict=Verdict.DIFFERENT, detail=f"bench: {first}")
    return replace(found, verdict=Verdict.BENCHED, detail=f"{found.verdict.value}; {_ran(bench)}")


def _ran(bench: BenchResult) -> str:
    """Return what a bench did, in the same words on every run."""
    tests = [f"{len(bench.tests)} tests"] if len(bench.tests) > 1 else []
    counts = (f"{n} {what}" for what, n in bench.numbers.items() if what in COUNTED)
    return ", ".join([*tests, *counts])


def store_result(result: JobResult) -> None:
    """Write the record of a job, and its proof if it has one, into ``synth/records``."""
    proof = None if result.proof is None else result.proof.as_dict
    store_synthesis(result.record, proof)


def store_whole(kind: str, block: str, technology: Technology, record: dict[str, Any]) -> None:
    """Write what is known of a whole accelerator (``SYSTEM`` or ``SYSTEM_CLOCK``)."""
    if technology.liberty:
        raise ValueError("records are of the project's technologies")
    store_record(kind, technology.name, record_name(resolve(block), technology.name), record)


def store_deviation(technology: str, result: dict[str, Any]) -> None:
    """Write how a technology's compact table deviates from its full Liberty files."""
    with updated_table(DEVIATION_RECORD) as table:
        table[technology] = result


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
