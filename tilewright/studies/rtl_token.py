"""Whole tokens of a language model on the emitted Verilog of an accelerator: a record of each.

All layers and the vocabulary head run on the simulated accelerator at the paper's size; memory,
counters and cycles must be golden's, or there is no record. To make one again, which takes minutes
to build the simulation and minutes to run it:

    python -m tilewright.studies.rtl_token [harmonia|anda]...
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.compiler.compile import Options, compiled_folder
from tilewright.compiler.folder import open_folder, sha256
from tilewright.compiler.generate import Session
from tilewright.compiler.host import ProgramRun
from tilewright.golden.params.block import require
from tilewright.studies.accelerators import accelerator_of
from tilewright.studies.measured import write_measured
from tilewright.studies.on_rtl import RtlRunner
from tilewright.verify.simulators import require_simulator

__all__ = ["CASES", "MODEL", "Case", "RtlToken", "record_name", "run_tokens"]

MODEL = "smollm2"
FAR = 100  # cycles of the memory's latency


@dataclass(frozen=True)
class Case:
    """A prompt on an accelerator."""

    prompt: str
    tokens: int  # that are generated; all but the first are single decode steps

    def folder(self, target: str) -> Path:
        """The compiled model."""
        return compiled_folder(MODEL, Options(target=target))


# On Anda a prompt of a single token, which is decoded: a quarter of an hour on the RTL.
CASES = {
    "harmonia": Case("The capital of France is", 2),
    "anda": Case("The", 1),
}


@dataclass(frozen=True)
class RtlToken:
    """Tokens on the Verilog; everything but the last three fields is golden's too."""

    model: str
    block: str
    prompt: str
    prompt_tokens: list[int]
    text: str
    layers: int
    vocabulary: int
    latency: int  # of the memory, in cycles
    programs: list[ProgramRun]
    image_sha256: str  # the external memory that the model was compiled to
    memory_sha256: str  # the same after the programs
    simulator: str
    simulated_cycles: int  # the host's among them
    seconds: float  # of the simulation


def run_tokens(folder: Path, case: Case) -> RtlToken:
    """Run a compiled model on golden and on the Verilog of its block.

    What differs between the two raises ``CheckError``.
    """
    compiled = open_folder(folder)
    runner = RtlRunner(compiled, latency=FAR)
    before = sha256(runner.memory)
    session = Session(runner, case.prompt, accelerator_of(runner.machine))
    (done,) = session.generate(case.tokens)
    return RtlToken(
        model=done.model,
        block=done.block,
        prompt=case.prompt,
        prompt_tokens=done.prompt,
        text=done.text,
        layers=compiled.plan.shape.num_hidden_layers,
        vocabulary=compiled.plan.shape.vocab_size,
        latency=runner.latency,
        programs=done.programs,
        image_sha256=before,
        memory_sha256=sha256(runner.memory),
        simulator=require_simulator("verilator").title,
        simulated_cycles=runner.simulated_cycles,
        seconds=round(runner.simulated_seconds, 1),
    )


def record_name(target: str) -> str:
    return f"{target}_token"


def main(targets: Sequence[str]) -> None:
    for target in targets:
        require(target in CASES, f"an accelerator is one of {', '.join(CASES)}, not {target!r}")
    for target in targets or CASES:
        found = run_tokens(CASES[target].folder(target), CASES[target])
        command = f"python -m tilewright.studies.rtl_token {target}"
        write_measured(record_name(target), {"command": command, **vars(found)})


if __name__ == "__main__":
    main(sys.argv[1:])
