"""Lines of external memory: what a model's image holds, and where.

What no program changes comes first (weights, head, embeddings, rotations, programs), then what they
do: tokens, logits, and the caches of all layers.
"""

from dataclasses import dataclass
from functools import cached_property

from tilewright.golden.harmonia_model.plan import MATRICES, Plan
from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia_machine import Memory

__all__ = ["Lines"]


@dataclass(frozen=True)
class Lines:
    """First lines of everything; ``program_lines`` are reserved for the programs."""

    plan: Plan
    program_lines: int = 0

    # One layer, relative to its first line.

    @cached_property
    def norms(self) -> tuple[int, int]:
        """Gains before attention and before the feed-forward part."""
        return 0, self._halves(self.plan.width_words)

    @property
    def bias(self) -> int:
        """Biases of queries, keys and values, where the model has them."""
        return 2 * self.norms[1]

    @cached_property
    def matrices(self) -> dict[str, int]:
        plan = self.plan
        words = plan.output_words(plan.matrices["qkv"]) if plan.config.query_bias else 0
        found, line = {}, plan.params.beat_line(self.bias + self._halves(words))
        for name in MATRICES:
            found[name] = line
            matrix = self.plan.matrices[name]
            line += matrix.parts * matrix.part_lines
        return found | {"": line}

    @property
    def layer(self) -> int:
        """Lines of a layer."""
        return self.matrices[""]

    @property
    def next_layer(self) -> int:
        """The first matrix of the layer behind this one; behind the last it is the head."""
        return self.layer + self.matrices[MATRICES[0]]

    # The image.

    @property
    def layers(self) -> int:
        return 0

    @cached_property
    def head(self) -> int:
        return self.plan.config.num_hidden_layers * self.layer

    @cached_property
    def final_norm(self) -> int:
        matrix = self.plan.matrices["head"]
        return self.head + matrix.parts * matrix.part_lines

    def embedding(self, token: int) -> tuple[int, int]:
        """A word of the vocabulary: the line of the tile that has its vector, and the bank there.

        As many words share a tile as there are banks, so that nothing but vectors is kept; a load
        spreads the one that it wants.
        """
        vocabulary = self.plan.config.vocab_size
        require(0 <= token < vocabulary, f"token {token} is not in the vocabulary of {vocabulary}")
        tile, bank = divmod(token, self.plan.params.rows)
        first = self.final_norm + self._halves(self.plan.width_words)
        return self.plan.params.beat_line(first) + tile * self.embedded_tile, bank

    @cached_property
    def embedded_tile(self) -> int:
        """Lines of a tile of embeddings, in whole beats."""
        return self.plan.params.beat_line(self._halves(self.plan.width_words))

    @cached_property
    def choice_tables(self) -> tuple[int, int]:
        """Numbers that count down: over the elements of a part of the head, and over its parts."""
        plan = self.plan
        first = self.embedding(plan.config.vocab_size - 1)[0] + self.embedded_tile
        words = 1 + plan.matrices["head"].part_tiles * plan.params.tile_words
        return first, first + self._halves(words)

    def rotation(self, tile: int) -> int:
        """Cosines of a token tile; the sines follow."""
        first = self.choice_tables[1] + self._halves(self.plan.head_parts)
        return first + tile * 2 * self._halves(self.plan.rotated_words)

    @property
    def sines(self) -> int:
        """From cosines to sines."""
        return self._halves(self.plan.rotated_words)

    @cached_property
    def programs(self) -> int:
        tiles = -(-self.plan.context // self.plan.params.rows)
        return self.rotation(tiles)

    @cached_property
    def state(self) -> int:
        """The first line that a program changes."""
        return self.plan.params.beat_line(self.programs + self.program_lines)

    def tokens(self, tile: int) -> int:
        """A token tile that has left the last layer."""
        return self.state + tile * self._halves(self.plan.width_words)

    @cached_property
    def choice(self) -> int:
        """Part and place of the largest logit, a word each."""
        return self.tokens(self.plan.step_tiles)

    @cached_property
    def queries(self) -> int:
        """Queries of a token that is decoded, on their way to the banks that their heads have."""
        return self.plan.params.beat_line(self.choice + self._halves(2))

    def attended(self, head: int) -> int:
        """Results of the heads that share keys and values, on their way to the token's bank."""
        first = self.queries + self._halves(2 * self.plan.rotated_words)
        each = self.plan.params.beat_line(self._halves(self.plan.head_words))
        return self.plan.params.beat_line(first) + head * each

    @cached_property
    def logits(self) -> int:
        if not self.plan.shares_rows:
            return self.choice + self._halves(2)
        return self.attended(self.plan.config.num_key_value_heads)

    @cached_property
    def logit_part(self) -> int:
        """Lines of the logits of one part of the head."""
        plan = self.plan
        return self._halves(plan.matrices["head"].part_tiles * plan.params.tile_words)

    @cached_property
    def caches(self) -> int:
        last = self.logits + self.plan.matrices["head"].parts * self.logit_part
        return self.plan.params.beat_line(last)

    # The cache of one layer, relative to its first line.

    @cached_property
    def cached(self) -> dict[Memory, int]:
        """High and low halves, signs, exponents."""
        plan, line, found = self.plan, 0, {}
        for memory, rows in (
            (Memory.OPERANDS, plan.cache_rows),
            (Memory.OPERAND_SIGNS, plan.high_rows),
            (Memory.OPERAND_EXPONENTS, plan.high_rows),
        ):
            found[memory] = line
            line = plan.params.beat_line(line + plan.params.lines(memory, rows))
        return found

    @cached_property
    def window(self) -> int:
        """Keys in fp16 that offsets are learned from."""
        plan, memory = self.plan, Memory.OPERAND_EXPONENTS
        return self.cached[memory] + plan.params.lines(memory, plan.high_rows)

    @cached_property
    def open_values(self) -> int:
        """Values in fp16 of the unfinished group."""
        return self.window + self._halves(self.plan.window_words)

    @cached_property
    def cache(self) -> int:
        """Lines of the cache of a layer."""
        end = self.open_values + self._halves(self.plan.open_words)
        return self.plan.params.beat_line(end)

    @cached_property
    def end(self) -> int:
        return self.caches + self.plan.config.num_hidden_layers * self.cache

    def _halves(self, words: int) -> int:
        return self.plan.params.lines(Memory.FP16, words)
