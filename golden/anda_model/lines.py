"""Lines of external memory: what a model's image holds, and where.

What no program changes comes first (weights, head, embeddings, rotations, constants, programs),
then what they do: the token, logits, and the caches of all layers.
"""

from dataclasses import dataclass
from functools import cached_property

from tilewright.golden.anda_machine.attention_writer import Cached, Constants
from tilewright.golden.anda_model.plan import MATRICES, Matrix, Plan
from tilewright.golden.params.anda_machine import Memory
from tilewright.golden.params.block import require

__all__ = ["Lines"]


@dataclass(frozen=True)
class Lines:
    """First lines of everything; ``program_lines`` are reserved for the programs."""

    plan: Plan
    program_lines: int = 0

    # A matrix, relative to its first line: every part's weights, then its scales.

    def part(self, matrix: Matrix, part: int) -> tuple[int, int]:
        """Lines of a part's weights and scales, each at the start of a beat."""
        first = part * self._part_lines(matrix)
        return first, first + self._weight_lines(matrix)

    def _weight_lines(self, matrix: Matrix) -> int:
        p = self.plan.params
        return p.beat_line(p.lines(Memory.WEIGHTS, matrix.rows_of(0)))

    def _part_lines(self, matrix: Matrix) -> int:
        p = self.plan.params
        return p.beat_line(self._weight_lines(matrix) + p.lines(Memory.SCALES, matrix.scales_of(0)))

    # One layer, relative to its first line.

    @cached_property
    def norms(self) -> tuple[int, int]:
        """Gains before attention and before the feed-forward part."""
        return 0, self._words(self.plan.width_rows)

    @property
    def bias(self) -> int:
        """Biases of queries, keys and values, where the model has them."""
        return 2 * self.norms[1]

    @cached_property
    def matrices(self) -> dict[str, int]:
        plan = self.plan
        rows = plan.tensor_rows(plan.rotated + plan.keys) if plan.config.query_bias else 0
        found, line = {}, plan.params.beat_line(self.bias + self._words(rows))
        for name in MATRICES:
            found[name] = line
            matrix = self.plan.matrices[name]
            line += matrix.parts * self._part_lines(matrix)
        return found | {"": line}

    @property
    def layer(self) -> int:
        """Lines of a layer."""
        return self.matrices[""]

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
        return self.head + (matrix.parts + 1) * self._part_lines(matrix)

    def embedding(self, token: int) -> int:
        """The vector of a word of the vocabulary, as a load brings it to all banks."""
        vocabulary = self.plan.config.vocab_size
        require(0 <= token < vocabulary, f"token {token} is not in the vocabulary of {vocabulary}")
        return self.final_norm + (1 + token) * self.vector

    @cached_property
    def vector(self) -> int:
        """Lines of one token's vector."""
        return self._words(self.plan.width_rows)

    @cached_property
    def countdown(self) -> int:
        """Numbers that the choice of the likeliest token needs."""
        return self.embedding(self.plan.config.vocab_size - 1) + self.vector

    @cached_property
    def _rotations(self) -> int:
        matrix = self.plan.matrices["head"]
        rows = self.plan.tensor_rows(matrix.part_tiles * matrix.columns)
        return self.countdown + self._words(rows)

    def rotation(self, token: int) -> int:
        """Cosines of a token, and sines for each half of a head's channels."""
        return self._rotations + token * self._words(3 * self._rotation_rows)

    @property
    def _rotation_rows(self) -> int:
        return self.plan.tensor_rows(self.plan.rotated)

    @cached_property
    def _tile_rotations(self) -> int:
        return self.rotation(self.plan.context)

    def tile_rotation(self, tile: int) -> int:
        """The same of a tile of tokens, each in its bank; for steps of several tokens."""
        return self._tile_rotations + tile * self._rows(3 * self._rotation_rows)

    @property
    def rotated_tiles(self) -> int:
        """Tiles that have rotations of their own."""
        return -(-self.plan.context // self.plan.params.rows) if self.plan.step_tokens > 1 else 0

    @cached_property
    def constants(self) -> int:
        return self.tile_rotation(self.rotated_tiles)

    @cached_property
    def programs(self) -> int:
        return self.constants + Constants(self.plan.params).lines

    @cached_property
    def state(self) -> int:
        """The first line that a program changes."""
        return self.plan.params.beat_line(self.programs + self.program_lines)

    @property
    def leaving(self) -> int:
        """The token that has left the last layer."""
        return self.state

    @cached_property
    def scratch(self) -> int:
        """What attention merges."""
        return self.leaving + self._rows(self.plan.width_rows)

    @cached_property
    def queries(self) -> int:
        """Queries of a tile of tokens, on their way to every bank."""
        c = self.plan.config
        queries = c.num_attention_heads // c.num_key_value_heads
        return self.scratch + queries * self._rows(self.plan.room.padded + 2)

    @cached_property
    def logits(self) -> int:
        plan = self.plan
        return self.queries + (self._rows(plan.words(plan.queries)) if plan.step_tokens > 1 else 0)

    @cached_property
    def logit_part(self) -> int:
        """Lines of the logits of one part of the head."""
        matrix = self.plan.matrices["head"]
        return self._rows(self.plan.tensor_rows(matrix.part_tiles * matrix.columns))

    @cached_property
    def choice(self) -> int:
        """The likeliest token: a part of the vocabulary, and a place in it."""
        return self.logits + self.plan.matrices["head"].parts * self.logit_part

    @cached_property
    def caches(self) -> int:
        return self.plan.params.beat_line(self.choice + self._rows(2))

    # The cache of one layer, relative to its first line.

    @cached_property
    def tile(self) -> int:
        """A tile of tokens of K or V of one head."""
        return self._rows(self.plan.head_words)

    def cached(self, head: int) -> Cached:
        tiles = -(-self.plan.context // self.plan.params.rows)
        keys = 2 * head * tiles * self.tile
        return Cached(keys, keys + tiles * self.tile)

    @cached_property
    def cache(self) -> int:
        """Lines of the cache of a layer."""
        return self.plan.params.beat_line(self.cached(self.plan.config.num_key_value_heads).keys)

    @cached_property
    def end(self) -> int:
        return self.caches + self.plan.config.num_hidden_layers * self.cache

    def _rows(self, rows: int) -> int:
        return self.plan.params.lines(Memory.ACTIVATIONS, rows)

    def _words(self, rows: int) -> int:
        return self.plan.params.lines(Memory.BROADCAST, rows)
