"""Where the controller and the memory port are: cycles of what all accelerators' programs have."""

from dataclasses import dataclass

from tilewright.golden.machine.instruction import BaseInstruction, works_on_scalars
from tilewright.golden.machine.machine import Outcome, Step
from tilewright.golden.machine.moves import load_cycles, store_cycles, takes_beats
from tilewright.golden.machine.stream import StreamClock
from tilewright.golden.params.machine import Kind, MachineMemory, MachineParams
from tilewright.golden.params.vector import Operation

CONTROL_CYCLES = 4  # fetch, decode, measure, check


@dataclass
class Clock:
    """Advances from instruction to instruction; ``checked`` is the cycle behind their checking."""

    now: int = 0  # the cycle in which the next instruction is fetched
    port_idle: int = 0  # the first cycle in which the memory port is idle
    stream: StreamClock | None = None  # of instructions from external memory

    def follow(self, params: MachineParams, outcome: Outcome, latency: int) -> None:
        """Be the clock of a program that has come to its end."""
        self.stream = StreamClock(params, latency) if outcome.streamed else None

    def reach(self, step: Step) -> int:
        """Advance to the cycle that fetches an instruction; how many cycles passed.

        A loop that goes back or ends takes a cycle.
        """
        if step.fetch is None:
            return 0
        before = self.now
        self.now += step.fetch.turns
        if self.stream:
            self.stream.moved(self.now, step.fetch.base)
            self.now = max(self.now, self.stream.present(step.fetch.number))
        return self.now - before

    def wait(self, checked: int) -> None:
        """Advance over a wait or a halt."""
        self.now = max(checked, self.port_idle) + 1

    def move(
        self,
        params: MachineParams,
        x: BaseInstruction,
        checked: int,
        latency: int,
        memory: MachineMemory,
    ) -> None:
        """Advance over a load or store of rows of ``memory``."""
        load = x.opcode.name == "LOAD"
        issued = max(checked, self.port_idle)
        if load:
            beats, first = takes_beats(params, memory, x), x["line"] % params.memory_channels
            cycles = load_cycles(params, memory, x["rows"], latency, beats=beats, first=first)
        else:
            cycles = store_cycles(params, memory, x["rows"], latency)
        self.port_idle = issued + cycles
        self.now = 1 + (issued if load and memory.background else self.port_idle)


def vector_cycles(params: MachineParams, x: BaseInstruction, rows: int) -> int:
    """Cycles from checking a vector instruction on tensors of ``rows`` rows to fetching the next.

    A row a cycle, or two cycles a row with two tensors.
    """
    words = 1 if works_on_scalars(x) else rows
    takes_b = Operation(x["operation"]).takes_b
    tensors = (x["a_kind"] == Kind.TENSOR) + (takes_b and x["b_kind"] == Kind.TENSOR)
    return max(1, tensors) * words + params.vector.latency + 2
