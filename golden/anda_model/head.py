"""The vocabulary head's program: final norm, logits, and which of them is the largest."""

from tilewright.golden.anda_machine.builder import Tensor
from tilewright.golden.anda_machine.isa import Instruction
from tilewright.golden.anda_model.choice import HeadRows, choose, write_choice
from tilewright.golden.anda_model.lines import Lines
from tilewright.golden.anda_model.plan import Plan
from tilewright.golden.anda_model.token_step import Writer
from tilewright.golden.params.anda_machine import Memory, Opcode

__all__ = ["head_program"]


def head_program(
    plan: Plan, lines: Lines, tile: int = 0, *, parts: int | None = None
) -> list[Instruction]:
    """Logits of a token that has left the last layer: norm and head, or so many parts of it.

    While the matrix unit works on a part, the one before is looked through and stored.
    """
    head = _Head(plan, lines)
    head.write(plan.matrices["head"].parts if parts is None else parts)
    return head.writer.program


class _Head:
    """Writes the program."""

    def __init__(self, plan: Plan, lines: Lines):
        self.plan, self.lines, self.writer = plan, lines, Writer(plan, lines)
        self.matrix, self.choice = plan.matrices["head"], HeadRows.of(plan)
        self.elements = self.matrix.part_tiles * self.matrix.columns

    def write(self, parts: int) -> None:
        b, plan, lines, matrix = self.writer, self.plan, self.lines, self.matrix
        rows = plan.width_rows
        gain, normed, planes = rows, 2 * rows, 3 * rows
        b.bring_part(matrix, lines.head, 0, 0)
        b.bring(Memory.ACTIVATIONS, 0, rows, lines.leaving)
        b.bring(Memory.BROADCAST, gain, rows, lines.final_norm)
        b.norm(0, gain, normed, plan.config.hidden_size)
        b.compressed(normed, matrix, planes)
        if self.choice is not None:
            count = plan.tensor_rows(self.elements)
            b.bring(Memory.BROADCAST, self.choice.countdown, count, lines.countdown)
        used = [part for part in range(parts) if matrix.tiles_of(part)]
        for part in used:
            b.multiply_part(matrix, part, planes, self._logits(part))
            if part + 1 < matrix.parts:
                b.bring_part(matrix, lines.head, part + 1, 0)
            if part:
                self._finish(part - 1)
        self._finish(used[-1])
        if self.choice is not None:
            write_choice(b, self.choice)
            b.keep(self.choice.scratch, 2, lines.choice)
        b.emit(Opcode.HALT)

    def _logits(self, part: int) -> int:
        """The row of a part's logits: parts of even and of odd number have a region each."""
        return (2 + part % 2) * self.plan.region

    def _finish(self, part: int) -> None:
        """Look through the logits of a part, and store them."""
        b, row = self.writer, self._logits(part)
        if self.choice is not None:
            # What fills the last part up is no logit.
            left = self.plan.config.vocab_size - part * self.elements
            choose(b, self.choice, part, Tensor(row, min(self.elements, left)))
        count = self.plan.tensor_rows(self.matrix.tiles_of(part) * self.matrix.columns)
        b.keep(row, count, self.lines.logits + part * self.lines.logit_part)
