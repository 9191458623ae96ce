"""One whole token of a language model on the emitted Verilog of Harmonia: a record.

All layers and the vocabulary head run on the simulated accelerator at the paper's size; memory,
counters and cycles must be golden's, or there is no record. To make it again, which takes minutes
to build the simulation and minutes to run it:

    python -m tilewright.studies.compiled.rtl_token
"""

from dataclasses import dataclass
from pathlib import Path

from tilewright.studies.compiled.compiling import Options, compiled_folder
from tilewright.studies.compiled.folder import open_folder, sha256
from tilewright.studies.compiled.on_rtl import RtlRunner
from tilewright.studies.compiled.runner import ProgramRun
from tilewright.studies.compiled.session import Session
from tilewright.studies.measured import write_measured
from tilewright.verify.simulators import require_simulator

__all__ = ["RECORD", "RtlToken", "run_token"]

RECORD = "harmonia_token"
MODEL, TARGET = "smollm2", "harmonia"
PROMPT = "The capital of France is"


@dataclass(frozen=True)
class RtlToken:
    """What one token took on the Verilog; everything but the last three is golden's too."""

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


def run_token(folder: Path, prompt: str) -> RtlToken:
    """Run ``prompt`` and the head of a compiled model on golden and on the Verilog of its block.

    What differs between the two raises ``CheckError``.
    """
    compiled = open_folder(folder)
    session = Session(compiled, prompt, rtl=True)
    runner = session.runner
    assert isinstance(runner, RtlRunner)
    before = sha256(runner.memory)
    done = session.generate(1)
    return RtlToken(
        model=done.model,
        block=done.block,
        prompt=prompt,
        prompt_tokens=done.prompt,
        text=done.text,
        layers=compiled.plan.config.num_hidden_layers,
        vocabulary=compiled.plan.config.vocab_size,
        latency=runner.latency,
        programs=done.programs,
        image_sha256=before,
        memory_sha256=sha256(runner.memory),
        simulator=require_simulator("verilator").title,
        simulated_cycles=runner.simulated_cycles,
        seconds=round(runner.simulated_seconds, 1),
    )


def main() -> None:
    folder = compiled_folder(MODEL, Options(target=TARGET))
    command = "python -m tilewright.studies.compiled.rtl_token"
    write_measured(RECORD, {"command": command, **vars(run_token(folder, PROMPT))})


if __name__ == "__main__":
    main()
