"""A compiled model on the simulated Verilog of its accelerator, compared with the golden one."""

from typing import Any

import numpy as np

from tilewright.base.errors import CheckError
from tilewright.compiler.folder import ModelFolder
from tilewright.compiler.host import LATENCY, Runner
from tilewright.compiler.program import Program
from tilewright.compiler.sizes import Step
from tilewright.studies.runs.program import simulate_program
from tilewright.studies.runs.simulation import NATIVE, Simulation


class RtlRunner(Runner):
    """Every program also runs on the emitted Verilog, from the same external memory.

    Memory, counters, cycles and events must be those of the golden accelerator; ``CheckError``
    names any that differ. The Verilog is reset before a program: it depends on external memory
    alone.
    """

    def __init__(
        self, folder: ModelFolder, *, latency: int = LATENCY, simulation: Simulation = NATIVE
    ):
        super().__init__(folder, latency=latency)
        self._simulation = simulation
        self.simulated_cycles, self.simulated_seconds = 0, 0.0  # the host's cycles among them

    def _start(self, kind: str, step: Step, program: Program) -> None:
        before = np.array(self.memory)
        super()._start(kind, step, program)
        got, numbers = simulate_program(
            self.folder.manifest["target"],
            [],
            before,
            self.latency,
            self._simulation,
            self.lines.programs,
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
