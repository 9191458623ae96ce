"""A token that is decoded, whose heads that share keys fill rows of the array: a step's program.

A projection leaves all heads in the token's bank. They go through external memory, from where loads
spread them over the banks: a head of each group of queries to bank 0, one to bank 1, and so on. So
all heads that share keys and values meet them at once, each with the arithmetic that it has alone,
and in every bit with the same results, which loads take back to the token's bank.
"""

from functools import partial

from tilewright.golden.harmonia_machine.isa import groups_of, tiles_of
from tilewright.golden.harmonia_model.lines import Lines
from tilewright.golden.harmonia_model.plan import Plan
from tilewright.golden.harmonia_model.prompt_step import PromptStep
from tilewright.golden.params.harmonia_machine import Memory, Operand
from tilewright.golden.params.vector import Operation

__all__ = ["TokenStep"]

_LARGEST, _TOTALS = (0, 1), (2, 3)  # scalar registers of even and of odd heads
# Turns by which the stages of a head are behind the first: queries are there in the second, and
# with scores of two heads the array has the next one's keys while powers of one are raised.
_PIPELINED, _IN_TURN = (0, 1, 2, 2, 3, 4), (0, 1, 1, 1, 2, 3)


class TokenStep(PromptStep):
    """Writes the step of one token of a plan that ``shares_rows``."""

    def __init__(self, plan: Plan, lines: Lines, token: int):
        super().__init__(plan, lines, token, 1)
        self.bank = token % plan.params.rows
        self.half_words = plan.words(self.config.head_dim // 2)
        self.query_row, self.results_row, self.score_rows = self._spread_rows()
        self.query_places, self.power_places = self._activation_rows()

    def projected(self, tile: int) -> list[int]:
        """All banks: queries are stored with what is beside them, which must be known, too."""
        return list(range(self.plan.params.rows))

    @property
    def _query_words(self) -> int:
        """Both halves of all heads of queries, with the keys between them."""
        return self.plan.rotated_words + self.config.num_attention_heads * self.half_words

    def _spread_rows(self) -> tuple[int, int, list[int]]:
        """Of queries in the banks of their heads, of results there, and of scores.

        Where rotation's rows are free, scores of two heads are apart, in different regions. Rows of
        token tiles that one token does not have are free in any case.
        """
        plan = self.plan
        scores = self._attention_rows()[2] + plan.head_words
        if plan.attention_row == plan.scratch_row:
            return plan.projections_row(1), plan.attended_row(1), [scores]
        queries = plan.scratch_row
        results = queries + self._query_words + (plan.sharing - 1) * self.half_words
        second = results + self.config.num_key_value_heads * plan.head_words
        if second + plan.score_words > plan.attention_row:
            return queries, results, [scores]
        return queries, results, [scores, second]

    def _activation_rows(self) -> tuple[list[int], list[int]]:
        """Of queries and of powers: in regions of their own where scores of two heads are kept."""
        plan, p = self.plan, self.plan.params
        step, depth = p.region_rows(Memory.MANTISSAS), p.depth(Memory.MANTISSAS)
        powers = groups_of(p, plan.context)
        if len(self.score_rows) < 2 or 4 * step > depth or max(powers, plan.key_rows) > step:
            self.score_rows = self.score_rows[:1]
            return [0], [plan.key_rows]
        return [0, step], [2 * step, 3 * step]

    def _attend(self) -> None:
        """Heads of keys and values in turn; each stage of one is some turns behind the first."""
        b, plan, heads = self.writer, self.plan, self.config.num_key_value_heads
        b.keep(Memory.FP16, plan.projections_row(0), self._query_words, self.lines.queries)
        if plan.attention_row == plan.scratch_row:
            self._bring_window()
            self._bring_opened()
        self.moves = [partial(self._spread, number) for number in range(plan.sharing)]
        stages = (
            self._append,
            self._score,
            self._raise,
            self._weigh,
            self._leave,
            self._return,
        )
        delays = _PIPELINED if len(self.score_rows) > 1 else _IN_TURN
        for turn in range(heads + delays[-1]):
            for stage, delay in zip(stages, delays, strict=True):
                if 0 <= turn - delay < heads:
                    stage(turn - delay)

    def _append(self, head: int) -> None:
        """The newest key and value to the cache, while queries go to their banks."""
        window, opened, key = self._attention_rows()
        self._append_keys(head, window, key)
        if head:
            self._move()
        self._append_values(head, opened)
        self._move()

    def _move(self) -> None:
        if self.moves:
            self.moves.pop(0)()

    def _spread(self, number: int) -> None:
        """One head of every group to the bank of its number; the first one to all others, too.

        Rows are moved, so that all banks have the head of a group in the same rows.
        """
        b, plan = self.writer, self.plan
        b.configure(lanes=[number] if number else range(plan.params.rows))
        row = self.query_row + (plan.sharing - 1 - number) * self.half_words
        b.bring(Memory.FP16, row, self._query_words, self.lines.queries, spread=self.bank + 1)

    def _score(self, head: int) -> None:
        """Queries times keys, and the largest of every bank."""
        b, plan, p = self.writer, self.plan, self.plan.params
        place, channels = self._of(head, self.query_places), self.config.head_dim // 2
        while self.moves:
            self._move()
        b.configure(lanes=range(p.rows), tokens=self.end, causal_limit=0)
        group = head * plan.sharing + plan.sharing - 1
        for part in range(2):
            row = self.query_row + group * self.half_words + part * plan.rotated_words
            b.activations(row, channels, place + part * groups_of(p, channels))
        b.gemm(
            Operand.KEYS,
            source=place,
            operands=plan.keys_row(head),
            low_halves=plan.low_keys_row(head),
            metadata=plan.keys_row(head),
            destination=self._of(head, self.score_rows),
            groups=plan.key_rows,
            tiles=tiles_of(p, self.end),
            maxima=_LARGEST[head % 2],
        )

    def _raise(self, head: int) -> None:
        """Powers of the scores, and their sum."""
        row = self._of(head, self.score_rows)
        self.writer.all_lanes()
        self.writer.vector(
            Operation.POWERS,
            row,
            row,
            scalar=_LARGEST[head % 2],
            elements=self.end,
            total=_TOTALS[head % 2],
        )
        self.writer.activations(row, self.end, self._of(head, self.power_places))

    def _weigh(self, head: int) -> None:
        """Powers times values."""
        b, plan, p = self.writer, self.plan, self.plan.params
        b.configure(lanes=range(p.rows), tokens=self.end, causal_limit=0)
        b.gemm(
            Operand.VALUES,
            source=self._of(head, self.power_places),
            operands=plan.values_row(head),
            low_halves=plan.low_values_row(head),
            metadata=plan.values_row(head),
            destination=self._result_row(head),
            groups=groups_of(p, self.end),
            tiles=plan.value_rows,
        )

    def _leave(self, head: int) -> None:
        """Results, divided by the sum of the powers, to external memory."""
        b, row, words = self.writer, self._result_row(head), self.plan.head_words
        b.all_lanes()
        b.normalise(row, self.config.head_dim, _TOTALS[head % 2])
        b.keep(Memory.FP16, row, words, self.lines.attended(head))

    def _return(self, head: int) -> None:
        """Results of all banks to that of the token, a head behind the other."""
        b, plan, words = self.writer, self.plan, self.plan.head_words
        line = self.lines.attended(head)
        b.configure(lanes=[self.bank])
        for number in range(plan.sharing):
            row = plan.attended_row(0) + (head * plan.sharing + number) * words
            b.bring(Memory.FP16, row, words, line, spread=number + 1)

    def _result_row(self, head: int) -> int:
        return self.results_row + head * self.plan.head_words

    def _of(self, head: int, rows: list[int]) -> int:
        return rows[head % len(rows)]
