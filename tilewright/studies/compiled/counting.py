"""Cycles of the programs in a compiled model's image, without what they compute.

No cycle depends on a value, so the clock that counts a run counts the programs alone as well, in a
part of the time that the golden machine takes for the values of a long prompt on Anda.
"""

from typing import Any

from tilewright.golden.machine.stream import WORD_BYTES
from tilewright.sim.schedule import program_time
from tilewright.studies.compiled.folder import ModelFolder
from tilewright.studies.compiled.runner import Runner

__all__ = ["counted_prompt"]


def counted_prompt(folder: ModelFolder, tokens: int, latency: int) -> int:
    """Cycles of all programs that a prompt of so many tokens starts, the head's among them."""
    runner = Runner(folder, latency=latency)
    steps, rows = list(runner.steps(tokens)), runner.plan.params.rows
    tile = (tokens - 1) // rows - steps[-1][0] // rows
    programs = [*(folder.steps[step] for step in steps), folder.heads[tile]]
    return sum(
        program_time(runner.plan.params, _program(runner, *place), latency).cycles
        for place in programs
    )


def _program(runner: Runner, line: int, instructions: int) -> list[Any]:
    """The instructions that lie in the image from ``line`` on."""
    start = line * runner.plan.params.line_bytes
    octets = runner.memory[start : start + instructions * WORD_BYTES].tobytes()
    words = (octets[k : k + WORD_BYTES] for k in range(0, len(octets), WORD_BYTES))
    decode = runner.system.machine.INSTRUCTION.decode  # type: ignore[attr-defined]
    return [decode(int.from_bytes(word, "little")) for word in words]
