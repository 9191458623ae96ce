"""A compiled model on the simulated Verilog of its accelerator, beside the golden one."""

import numpy as np

from tilewright.base.errors import CheckError
from tilewright.studies.compiled.folder import ModelFolder
from tilewright.studies.compiled.runner import LATENCY, Runner
from tilewright.studies.runs.program import simulate_program
from tilewright.studies.runs.simulation import NATIVE, Simulation

__all__ = ["RtlRunner"]


class RtlRunner(Runner):
    """Every program also runs on the emitted Verilog, from the same external memory.

    What it leaves there, its counters, its cycles among them, and its events must be those of the
    golden accelerator; ``CheckError`` names what is not. The Verilog is reset before a program:
    one depends on external memory alone.
    """

    def __init__(
        self, folder: ModelFolder, *, latency: int = LATENCY, simulation: Simulation = NATIVE
    ):
        super().__init__(folder, latency=latency)
        self._simulation = simulation
        self.simulated_cycles, self.simulated_seconds = 0, 0.0  # the host's cycles among them

    def _start(self, kind: str, first: int, tokens: int, line: int) -> None:
        before = np.array(self.memory)
        super()._start(kind, first, tokens, line)
        assert self.outcome is not None
        got, numbers = simulate_program(
            self.folder.manifest["target"], [], before, self.latency, self._simulation, line
        )
        self.simulated_cycles += numbers["cycles"]
        self.simulated_seconds += numbers["seconds"]
        golden = self.runs[-1].counters
        problems = []
        if numbers["status"]["error"] != "none":
            problems.append(f"the RTL stopped with error {numbers['status']['error']}")
        if not np.array_equal(got, self.memory):
            size = self.plan.params.line_bytes
            differs = int(np.flatnonzero(got != self.memory)[0]) // size
            problems.append(f"memory differs from golden's, first in line {differs}")
        if numbers["saturated"] != self.outcome.saturated:
            problems.append("the event of saturation differs from golden's")
        problems += [
            f"{name} is {numbers['counters'][name]}, golden has {value}"
            for name, value in golden.items()
            if numbers["counters"][name] != value
        ]
        if problems:
            raise CheckError(f"token {first}, {kind}: {'; '.join(problems)}")
