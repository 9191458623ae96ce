"""Results of synthesis written into ``synth/records``, and proofs that fall back on a bench."""

from dataclasses import replace
from typing import Any

from tilewright.base.records import updated_table
from tilewright.golden.params.resolve import resolve
from tilewright.synth.deviation import DEVIATION_RECORD
from tilewright.synth.equivalence import Equivalence, Verdict
from tilewright.synth.flow import Synthesis
from tilewright.synth.jobs import Job, JobResult, prove
from tilewright.synth.record import record_name, store_record, store_synthesis
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
