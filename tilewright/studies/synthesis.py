"""Results of synthesis and layout written into ``synth/records``, and proofs by a bench."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewright.base.errors import CommandError
from tilewright.base.records import updated_table
from tilewright.golden.params.resolve import resolve
from tilewright.studies.pe.energy import CLOCK_MHZ, checked_activity
from tilewright.studies.pe.workload import pe_bench, workload
from tilewright.synth.deviation import DEVIATION_RECORD
from tilewright.synth.energy import energy_of
from tilewright.synth.equivalence import Equivalence, Verdict
from tilewright.synth.flow import Goal, Synthesis
from tilewright.synth.jobs import Job, JobResult, prove
from tilewright.synth.layout.energy import energy_laid_out, read_layout
from tilewright.synth.layout.layout import Layout, lay_out
from tilewright.synth.layout.record import LAYOUT, layout_record
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


def energies_of(layout: Layout) -> tuple[float, float] | None:
    """Return fJ per multiply-add on real data, before and after layout; None if it is no PE."""
    try:
        bench = pe_bench(layout.params)
    except CommandError:
        return None
    asked = workload(layout.params, "real", bench.usual_variant)
    technology, period = layout.synthesis.technology, 1e6 / CLOCK_MHZ
    name, netlist, laid_out = layout.params.slug, layout.synthesis.netlist, read_layout(layout)
    before = energy_of(netlist, technology, checked_activity(netlist, asked, name), period).total
    activity = checked_activity(laid_out.netlist, asked, name)
    after = energy_laid_out(laid_out, technology, activity, period)
    return before / asked.macs, after / asked.macs


def measured_layout(layout: Layout) -> dict[str, Any]:
    """Return the record of a layout, of a PE that has routes with its energy."""
    has_routes = layout.last.file("spef").exists()
    return layout_record(layout, energies_of(layout) if has_routes else None)


def store_layout(layout: Layout, record: dict[str, Any]) -> None:
    """Write the record of a layout."""
    technology, goal = record["technology"], layout.synthesis.goal
    store_record(LAYOUT, technology, record_name(layout.params, technology, goal), record)


def renew_layouts(
    names: Iterable[str], watch: Callable[[str], None], lef: Sequence[Path] = ()
) -> None:
    """Lay the blocks of the records ``names`` out again; ``watch`` is told what is done."""
    records = load_kind(LAYOUT)
    for name in names:
        old = records[name]
        goal = Goal(old["goal"])
        layout = lay_out(old["spec"], old["technology"], goal=goal, to=old["step"], lef=lef)
        store_layout(layout, measured_layout(layout))
        watch(name)
