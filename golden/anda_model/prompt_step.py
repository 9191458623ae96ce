"""Tokens of a prompt through all layers, up to a tile at a time: the program of a step.

Each token is in a bank of its own, where norms, products and the feed-forward part find it as they
find a single token: so many tokens take the time of one. Their keys and values are a tile of the
cache as they lie there. Attention is that of single tokens, one bank after the other, in a loop: it
has the same results in every bit. For it the queries go through external memory, from which they
come back in every bank.
"""

from tilewright.golden.anda_machine.builder import Scalar, Tensor
from tilewright.golden.anda_model.lines import Lines
from tilewright.golden.anda_model.plan import CACHE_INDEX, Plan
from tilewright.golden.anda_model.token_step import TokenStep
from tilewright.golden.params.anda_machine import Memory, Opcode
from tilewright.golden.params.vector import Operation

__all__ = ["PromptStep"]

_OWN = Scalar(6)  # one in banks that count, else zero


class PromptStep(TokenStep):
    """Writes the step of ``count`` tokens, the first of which begins a tile."""

    def __init__(self, plan: Plan, lines: Lines, first: int, count: int):
        super().__init__(plan, lines, first)
        self.count = count

    def _enter(self) -> None:
        """Bring every token's vector, by the first instructions, and leave it in its bank.

        Banks without a token have the last one's: zeros may have no norm.
        """
        b, plan, rows = self.writer, self.plan, self.plan.width_rows
        for k in range(self.count):
            b.bring(Memory.BROADCAST, k * rows, rows, self.lines.embedding(0))
        ones = self.count * rows
        b.bring(Memory.ACTIVATIONS, ones, 1 + plan.params.rows, self.lines.constants)
        tokens = Tensor(plan.tokens_row, plan.config.hidden_size)
        for k in range(self.count):
            vector = Tensor(k * rows, plan.config.hidden_size)
            banks = plan.params.rows - k if k == self.count - 1 else 1
            own = Tensor(ones + 1 + k, banks * plan.params.vector.row_lanes)
            b.apply(Operation.LARGEST, own, into=_OWN)
            b.apply(Operation.MULTIPLY, vector, _OWN, into=vector if k else tokens)
            if k:
                b.apply(Operation.ADD, tokens, vector, into=tokens)

    def _bring_rotation(self, rows: int) -> None:
        tile = self.token // self.plan.params.rows
        self.writer.bring(Memory.ACTIVATIONS, 0, rows, self.lines.tile_rotation(tile))

    def _append(self) -> None:
        """The tokens' keys and values as a tile, with zeros in banks that have no token."""
        b, plan, p = self.writer, self.plan, self.plan.params
        rows, ones = plan.tensor_rows(plan.keys), 2 * plan.tensor_rows(plan.keys)
        if self.count < p.rows:
            b.bring(Memory.ACTIVATIONS, ones, 1 + p.rows, self.lines.constants)
            chosen = Tensor(ones + 1, self.count * p.vector.row_lanes)
            b.apply(Operation.LARGEST, chosen, into=_OWN)
        for number, (name, row) in enumerate(self._new.items()):
            if self.count < p.rows:
                kept = Tensor(number * rows, plan.keys)
                b.apply(Operation.MULTIPLY, Tensor(row, plan.keys), _OWN, into=kept)
                row = kept.row
            for head, line in enumerate(self._places(name)):
                b.keep(row + head * plan.head_words, plan.head_words, line, CACHE_INDEX)

    def _attend(self) -> None:
        b, plan, room = self.writer, self.plan, self.plan.prompt_room
        words, banks = plan.words(plan.queries), plan.params.rows
        self._append()
        b.keep(plan.rotated_row, words, self.lines.queries)
        b.bring(Memory.BROADCAST, plan.queries_row, words * banks, self.lines.queries)
        attended = Tensor(plan.attended_row, plan.queries)
        b.apply(Operation.MULTIPLY, attended, 0.0, into=attended)
        # Behind the masks of a tile with 0, 1, ... tokens that of a whole one, which hides nothing.
        whole = Tensor(room.masks + banks, 1)
        b.apply(Operation.COPY, Tensor(plan.attended_row, 1), into=whole)
        b.by_bank = (
            range(plan.queries_row, plan.queries_row + plan.query_rows),
            range(room.banks, room.banks + banks),
            range(room.masks, room.masks + banks),
        )
        before, b.program = b.program, []
        self._attend_bank()
        body, b.program = b.program, before
        if len(body) <= plan.params.longest_loop:
            b.emit(Opcode.LOOP, count=self.count, body=len(body), stride1=0, stride2=0, stride3=1)
            b.program += body
        else:
            for b.bank in range(self.count):
                self._attend_bank()
            b.bank = None
        b.by_bank = ()

    def _attend_bank(self) -> None:
        """The heads of one bank's token, and their results to that bank."""
        b, plan, room = self.writer, self.plan, self.plan.prompt_room
        self._attend_heads(room, plan.queries_row, plan.params.rows, plan.one_row)
        one, attended = Tensor(plan.one_row, plan.queries), Tensor(plan.attended_row, plan.queries)
        b.apply(Operation.LARGEST, Tensor(room.banks, 1), into=_OWN)
        b.apply(Operation.MULTIPLY, one, _OWN, into=one)
        b.apply(Operation.ADD, attended, one, into=attended)
