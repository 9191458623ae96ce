"""Proofs about components with Yosys's own SAT solver.

A claim is a component with a one-bit output ``bad``. It is proved by showing that ``bad`` is never
1, whatever the claim's inputs do in whatever cycle, starting from the initial register values and
never reset. Claims contain the unit they are about, and whatever follows its words.
"""

import re
import tempfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from amaranth import ClockDomain, Module, Value
from amaranth.back import rtlil
from amaranth.lib import wiring

from tilewright.synth.yosys import run_yosys


class Outcome(Enum):
    PROVED = "proved"  # in every cycle, by temporal induction
    BOUNDED = "holds for the cycles examined"
    REFUTED = "refuted"  # there is a counterexample
    UNKNOWN = "unknown"  # neither a counterexample nor a proof within the limits


@dataclass(frozen=True)
class Verdict:
    """The outcome, the cycles that were looked at, and the counterexample if there is one."""

    outcome: Outcome
    cycles: int
    counterexample: str = ""


TIMEOUT_S = 600  # of each attempt
# Output of `sat` when it has decided.
_ENDINGS = {
    r"model found for base case: FAIL": Outcome.REFUTED,
    r"Induction step proven: SUCCESS": Outcome.PROVED,
    r"proved base case for \d+ steps: SUCCESS": Outcome.BOUNDED,
    r"Reached maximum number of time steps -> proof failed": Outcome.UNKNOWN,
    r"Interrupted SAT solver: TIMEOUT": Outcome.UNKNOWN,
}


def prove(claim: wiring.Component, *, cycles: int = 4) -> Verdict:
    """Try induction over 1 to ``cycles`` distinct states."""
    return _sat(claim, f"-tempinduct -maxsteps {cycles} -timeout {TIMEOUT_S}")


def check_bounded(claim: wiring.Component, *, cycles: int) -> Verdict:
    """Examine the first ``cycles`` cycles only."""
    return _sat(claim, f"-tempinduct-baseonly -maxsteps {cycles} -timeout {TIMEOUT_S}")


def _sat(claim: wiring.Component, method: str) -> Verdict:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "claim.il").write_text(_claim_rtlil(claim))
        log = run_yosys(
            [
                "read_rtlil claim.il",
                "proc",
                "flatten",
                "memory",
                "opt -full",
                f"sat {method} -prove bad 0 -show-ports claim",
            ],
            folder,
        )
    outcomes = [outcome for text, outcome in _ENDINGS.items() if re.search(text, log)]
    if len(outcomes) != 1:
        raise RuntimeError(f"sat ended in an unknown way: {log.strip().splitlines()[-1]}")
    examined = [int(k) for k in re.findall(r"^\[base case (\d+)\]", log, re.MULTILINE)]
    # The last table: failed induction steps print theirs too.
    *_, trace = ["", *re.findall(r"^  Time Signal Name.*?(?=^$)", log, re.MULTILINE | re.DOTALL)]
    if outcomes[0] is not Outcome.REFUTED:
        trace = ""
    return Verdict(outcomes[0], max(examined, default=0), trace)


def _claim_rtlil(claim: wiring.Component) -> str:
    top = Module()
    # Without a reset, so that no proof has to say that it stays low.
    top.domains.sync = sync = ClockDomain(reset_less=True)
    top.submodules.claim = claim
    members = [Value.cast(value) for _, _, value in claim.signature.flatten(claim)]
    return rtlil.convert(top, name="claim", ports=[sync.clk, *members], emit_src=False)
