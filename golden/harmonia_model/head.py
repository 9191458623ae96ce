"""The vocabulary head's program: final norm, logits, and which of them is the largest."""

from tilewright.golden.harmonia_machine.isa import Instruction
from tilewright.golden.harmonia_model.choice import (
    PART_INDEX,
    PART_MAXIMA,
    HeadRows,
    choose_of_part,
    choose_part,
)
from tilewright.golden.harmonia_model.lines import Lines
from tilewright.golden.harmonia_model.plan import CACHE_INDEX, LAYER_INDEX, Plan
from tilewright.golden.harmonia_model.writer import Writer
from tilewright.golden.params.harmonia_machine import Memory, Opcode

__all__ = ["head_program"]

_BEFORE_SCALES = 5  # instructions between the loads of a part's operands and scales


def head_program(
    plan: Plan, lines: Lines, tile: int = 0, *, parts: int | None = None
) -> list[Instruction]:
    """Logits and choices of all banks of a token tile that has left the last layer.

    With ``parts`` only so many parts of the vocabulary.
    """
    head = _Head(plan, lines, plan.head_parts if parts is None else min(parts, plan.head_parts))
    head.write(tile)
    return head.writer.program


class _Head:
    """Writes the program: while the array works on a part, the one before is looked through."""

    def __init__(self, plan: Plan, lines: Lines, parts: int):
        self.plan, self.lines, self.parts = plan, lines, parts
        self.writer, self.matrix = Writer(plan, lines), plan.matrices["head"]
        self.choice = HeadRows.of(plan)
        after = 3 * plan.width_words
        self.logits = (after, after) if self.choice is None else self.choice.logits
        self.elements = self.matrix.part_tiles * plan.params.columns

    def write(self, tile: int) -> None:
        b, plan, lines = self.writer, self.plan, self.lines
        words = plan.width_words
        gain, normed = words, 2 * words
        b.all_lanes()
        b.bring_part(self.matrix, lines.head, 0, 0)
        b.bring(Memory.FP16, 0, words, lines.tokens(tile))
        b.bring(Memory.FP16, gain, words, lines.final_norm)
        b.norm(0, gain, normed, plan.config.hidden_size)
        b.activations(normed, plan.config.hidden_size, 0, self.matrix.copies)
        self._multiply(0)
        if self.choice is not None:
            size = 1 + self.matrix.part_tiles * plan.params.tile_words
            b.bring(Memory.FP16, self.choice.ones, size, lines.choice_tables[0])
            b.bring(Memory.FP16, self.choice.parts, plan.head_parts, lines.choice_tables[1])
        turns = max(0, (self.parts - 2) // 2)
        if turns:
            self._loop(turns)
        for part in range(2 * turns + 1, self.parts):
            self._multiply(part)
        if self.choice is not None:
            b.program += self._look_through(self.parts - 1)
            choose_part(b, self.choice, self.parts, lines.choice)
        b.emit(Opcode.HALT)

    def _loop(self, turns: int) -> None:
        """Parts in pairs: the first one that is multiplied is of odd number."""
        b = self.writer
        before, b.program = b.program, []
        self._multiply(1, loop=True)
        self._multiply(2, loop=True)
        body, b.program = b.program, before
        b.emit(
            Opcode.LOOP,
            count=turns,
            body=len(body),
            stride1=2 * self.matrix.part_lines,
            stride2=2 * self.lines.logit_part,
            stride3=2,
        )
        b.program += body

    def _multiply(self, part: int, *, loop: bool = False) -> None:
        """A part's logits; the next part's weights come, and the part before is looked through."""
        b, lines, matrix = self.writer, self.lines, self.matrix
        kept = None if self.choice is None else PART_MAXIMA[part % 2]
        b.multiply_part(matrix, part % 2, 0, self.logits[part % 2], kept)
        row = self.plan.half_row((part + 1) % 2)
        line = lines.head + (part + 1) * matrix.part_lines
        index, comes = LAYER_INDEX if loop else 0, loop or part + 1 < self.parts
        if comes:
            b.bring(Memory.OPERANDS, row, matrix.part_rows, line, index)
        # Instructions begin in order: a second load keeps what follows waiting for the first.
        work = self._look_through(part - 1, loop=loop) if part else []
        b.program += work[:_BEFORE_SCALES]
        if comes:
            b.bring(Memory.SCALES, row, matrix.part_rows, line + matrix.scale_lines, index)
        b.program += work[_BEFORE_SCALES:]
        if self.choice is None:
            self._keep(part, loop=loop)

    def _look_through(self, part: int, *, loop: bool = False) -> list[Instruction]:
        """Store the logits of a part, and keep the largest of them."""
        if self.choice is None:
            return []
        b = self.writer
        before, b.program = b.program, []
        # What fills the last part up is no logit.
        left = self.plan.config.vocab_size - part * self.elements
        choose_of_part(
            b,
            self.choice,
            part,
            self.elements if loop else min(self.elements, left),
            index=PART_INDEX if loop else 0,
            whole=loop or left >= self.elements,
        )
        work, b.program = b.program, []
        self._keep(part, loop=loop)
        # Logits are stored once their last reader is done: nothing else waits for their region.
        stored, b.program = b.program, before
        reads = max(k for k, x in enumerate(work) if x["a"] == self.logits[part % 2])
        return [*work[: reads + 1], *stored, *work[reads + 1 :]]

    def _keep(self, part: int, *, loop: bool) -> None:
        rows = self.matrix.part_tiles * self.plan.params.tile_words
        line = self.lines.logits + part * self.lines.logit_part
        row = self.logits[part % 2]
        self.writer.keep(Memory.FP16, row, rows, line, CACHE_INDEX if loop else 0)
