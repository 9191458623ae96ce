"""Whole tokens of a language model on the emitted Verilog of an accelerator: a record of each.

All layers and the vocabulary head run on the simulated accelerator at the paper's size; memory,
counters and cycles must be golden's, or there is no record. To make one again, which takes minutes
to build the simulation and minutes to run it:

    python -m tilewright.studies.rtl_token [harmonia|anda]...
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.base.errors import CheckError
from tilewright.compiler.compile import Options, compiled_folder
from tilewright.compiler.folder import ModelFolder, open_folder, sha256
from tilewright.compiler.generate import Session
from tilewright.compiler.host import LATENCY, Runner
from tilewright.compiler.program import Program
from tilewright.compiler.sizes import Step
from tilewright.golden.machine.moves import Latency
from tilewright.golden.params.block import require
from tilewright.studies.measured import write_measured
from tilewright.studies.runs.program import simulate_program
from tilewright.studies.runs.simulation import NATIVE, Simulation
from tilewright.studies.sessions import accelerator_of
from tilewright.verify.simulators import require_simulator


class RtlRunner(Runner):
    """Every program also runs on the emitted Verilog, reset before it, from the same memory.

    Memory, counters, cycles and events must be golden's; ``CheckError`` names any that differ.
    """

    def __init__(
        self,
        folder: ModelFolder,
        *,
        latency: Latency = LATENCY,
        simulation: Simulation = NATIVE,
    ):
        super().__init__(folder, latency=latency)
        self._simulation = simulation
        self.simulated_cycles, self.simulated_seconds = 0, 0.0  # the host's cycles among them

    def _start(self, kind: str, step: Step, program: Program) -> None:
        before = np.array(self.memory)
        super()._start(kind, step, program)
        got, numbers = simulate_program(
            self.folder.manifest["target"],
            self.lines.programs,
            before,
            self.latency,
            self._simulation,
        )
        self.simulated_cycles += numbers["cycles"]
        self.simulated_seconds += numbers["seconds"]
        problems = list(self._differences(got, numbers))
        if problems:
            first = step.tokens[0].position
            raise CheckError(f"token {first}, {kind}: {'; '.join(problems)}")

    def _differences(self, got: Any, numbers: dict[str, Any]) -> list[str]:
        assert self.outcome is not None
        found = []
        if numbers["status"]["error"] != "none":
            found.append(f"the RTL stopped with error {numbers['status']['error']}")
        if not np.array_equal(got, self.memory):
            size = self.machine.params.line_bytes
            line = int(np.flatnonzero(got != self.memory)[0]) // size
            found.append(f"memory differs from golden's, first in line {line}")
        if numbers["saturated"] != self.outcome.saturated:
            found.append("the event of saturation differs from golden's")
        for name, value in self.runs[-1].counters.items():
            if numbers["counters"][name] != value:
                found.append(f"{name} is {numbers['counters'][name]}, golden has {value}")
        return found


MODEL = "smollm2"
FAR = 100  # cycles of the memory's latency


# A prompt, and the tokens that are generated: all but the first are single decode steps. Anda's
# prompt is a single token, which is decoded: a quarter of an hour on the RTL.
CASES = {"harmonia": ("The capital of France is", 2), "anda": ("The", 1)}


def run_tokens(folder: Path, prompt: str, tokens: int) -> dict[str, Any]:
    """Run a compiled model on golden and on the Verilog of its block, which must be equal."""
    compiled = open_folder(folder)
    runner = RtlRunner(compiled, latency=FAR)
    before = sha256(runner.memory)
    session = Session(runner, prompt, accelerator_of(runner.machine))
    (done,) = session.generate(tokens)
    return {
        "model": done.model,
        "block": done.block,
        "prompt": prompt,
        "prompt_tokens": done.prompt,
        "text": done.text,
        "layers": compiled.plan.shape.num_hidden_layers,
        "vocabulary": compiled.plan.shape.vocab_size,
        "latency": runner.latency,  # of the memory, in cycles
        "programs": [asdict(run) for run in done.programs],
        "image_sha256": before,  # of external memory
        "memory_sha256": sha256(runner.memory),  # of the same after the programs
        "simulator": require_simulator("verilator").title,
        "simulated_cycles": runner.simulated_cycles,  # the host's among them
        "seconds": round(runner.simulated_seconds, 1),  # of the simulation
    }


def main(targets: Sequence[str]) -> None:
    for target in targets:
        require(target in CASES, f"an accelerator is one of {', '.join(CASES)}, not {target!r}")
    for target in targets or CASES:
        folder = compiled_folder(MODEL, Options(target=target))
        found = run_tokens(folder, *CASES[target])
        command = f"python -m tilewright.studies.rtl_token {target}"
        write_measured(f"{target}_token", {"command": command, **found})


if __name__ == "__main__":
    main(sys.argv[1:])
