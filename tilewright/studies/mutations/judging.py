"""Whether the bench of a block finds one error in its RTL, and whether the error is one at all."""

import re
from dataclasses import dataclass
from enum import StrEnum

from tilewright.golden.params.resolve import resolve
from tilewright.studies.mutations.operators import Site, comparable, mutated
from tilewright.studies.mutations.proof import compare
from tilewright.synth.emit import verilog_from_rtlil
from tilewright.synth.yosys import SynthesisError
from tilewright.verify import cocotb_tests
from tilewright.verify.job import DEFAULT_STALLS, Job
from tilewright.verify.simulators import SimulationError, run_bench
from tilewright.verify.simulators.programs import BuildError

__all__ = ["Mutant", "Subject", "Verdict", "judge"]


class Verdict(StrEnum):
    """What became of a mutant."""

    FOUND = "found"  # a check of the bench failed
    NO_END = "found: no end"  # the simulation took many times as long as that of the block
    REFUSED = "found: refused"  # no simulator takes it, such as a loop without a register
    EQUIVALENT = "equivalent"  # proved: it does what the block does
    SURVIVED = "survived"  # no proof was found
    OPEN = "open"  # it passed the bench, and no proof was looked for yet

    @property
    def is_found(self) -> bool:
        return self.value.startswith("found")


@dataclass(frozen=True)
class Mutant:
    """One error and its verdict."""

    kind: str
    where: str
    change: str
    verdict: str
    finding: str  # what the bench said, how an equivalent one is proved, or nothing


@dataclass(frozen=True)
class Subject:
    """A block, its RTLIL, and how its bench is run on mutants."""

    block: str
    rtlil: str
    verilog: str  # of it
    simulator: str
    cases: tuple[int, ...]  # tried in turn: most errors show in the few cases of the first
    limit: float  # seconds of a simulation of the first number of cases; others in proportion
    stalls: tuple[float, ...] = DEFAULT_STALLS
    is_compared_whole: bool = True  # by a proof, for which machines are too large


def judge(subject: Subject, site: Site, *, prove: bool = True) -> Mutant | None:
    """Run the bench on the mutant; where nothing is found look for a proof, or leave it open.

    None where the change is in logic that nothing uses, so that the Verilog is the same.
    """
    text = mutated(subject.rtlil, site)
    try:
        verilog = verilog_from_rtlil(text)
    except SynthesisError as error:
        finding = _line(str(error))
        return Mutant(site.kind, site.where, site.change, Verdict.REFUSED.value, finding)
    if verilog == subject.verilog:
        return None
    verdict, finding = _bench(subject, verilog)
    if verdict is Verdict.SURVIVED:
        texts, whole = comparable(subject.rtlil, site), subject.is_compared_whole
        if not prove:
            verdict = Verdict.OPEN
        elif (answer := compare(*texts, whole=whole)).is_proof:
            verdict, finding = Verdict.EQUIVALENT, answer.method
    return Mutant(site.kind, site.where, site.change, verdict.value, finding)


def _bench(subject: Subject, verilog: str) -> tuple[Verdict, str]:
    params = resolve(subject.block)
    try:
        for cases in subject.cases:
            result = run_bench(
                verilog,
                params.slug,
                cocotb_tests(params),
                simulator=subject.simulator,
                job=Job(subject.block, cases, stalls=subject.stalls).as_dict(),
                environment={"COCOTB_MAX_FAILURES": "1"},  # one is enough
                limit=subject.limit * cases / subject.cases[0],
            )
            if not result.passed:
                return Verdict.FOUND, _line(result.failure)
    except TimeoutError as error:
        return Verdict.NO_END, _line(str(error))
    except (BuildError, SimulationError) as error:
        return Verdict.REFUSED, _line(str(error))
    return Verdict.SURVIVED, ""


def _line(text: str | None) -> str:
    """The first line, without what differs from run to run: paths and addresses."""
    first = (text or "").strip().partition("\n")[0]
    return re.sub(r"(?:/[\w.-]+){2,}", "...", first)[:160]
