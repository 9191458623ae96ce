"""Where a language model lies on the accelerator: rows on chip and lines of external memory.

A *step* passes up to ``columns`` tokens, which share a tile of keys, through all decoder layers;
one token is a decode step. All layers have the same form, so one loop body serves them: index
register 1 moves from one layer's weights to the next, index register 2 from one layer's cache to
the next.

Weights have 4 or 8 bits. The array multiplies 4-bit integers, so a weight of 8 bits is two of them,
``16 * high + low``, which meet the same activations one after the other within one sum.
"""

from dataclasses import dataclass
from functools import cached_property

from tilewright.golden.harmonia_machine.isa import groups_of, tiles_of, words_of
from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia_machine import HarmoniaParams, Memory, Operand
from tilewright.golden.params.llm import LlmShape

__all__ = ["MATRICES", "Matrix", "Plan"]

MATRICES = ("qkv", "output", "gate", "up", "down")  # of a layer, in the order they are used
LAYER_INDEX, CACHE_INDEX = 1, 2  # index registers


@dataclass(frozen=True)
class Matrix:
    """Weights (outputs, inputs) in an even number of parts, each of ``part_tiles`` tiles.

    While one part is used, the next comes into the other half of the operand memory.
    """

    name: str
    outputs: int
    inputs: int
    bits: int
    groups: int  # of one output, both halves of 8-bit weights
    parts: int
    part_tiles: int
    part_lines: int  # of one part: operands, then scales, both from the start of a beat
    scale_lines: int  # from a part's first line to that of its scales

    @property
    def copies(self) -> int:
        """How often the activations lie behind each other: once for each 4 bits of a weight."""
        return self.bits // 4

    @property
    def part_rows(self) -> int:
        return self.part_tiles * self.groups

    @property
    def tiles(self) -> int:
        """Tiles of columns, those that fill the last part up among them."""
        return self.parts * self.part_tiles


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A model of one shape on an accelerator of one size, for up to ``context`` tokens."""

    params: HarmoniaParams
    config: LlmShape
    context: int
    weight_bits: int = 4
    head_bits: int = 8

    def __post_init__(self) -> None:
        p, c = self.params, self.config
        require(
            c.model_type in ("llama", "mistral", "qwen2"),
            f"a model of type {c.model_type} is not supported: LLaMA, Mistral and Qwen2 are",
        )
        for name, there in (
            ("a bias of attention's output projection", c.output_bias),
            ("biases of gate, up and down", c.feed_forward_bias),
            ("norms of queries and keys", bool(c.query_norm)),
            ("a window of attention", c.sliding_layers > 0),
        ):
            require(not there, f"{c.name}: {name} are not supported")
        require(not c.experts and not c.latent, f"{c.name}: experts and latents are not supported")
        for name, bits in (("weights", self.weight_bits), ("head", self.head_bits)):
            require(bits in (4, 8), f"{name} have 4 or 8 bits, not {bits!r}")
        require(
            c.head_dim % (2 * p.group) == 0 and c.head_dim <= p.channels,
            f"head_dim is {c.head_dim}; on {p.slug} it must be a multiple of {2 * p.group}, "
            f"at most {p.channels}",
        )
        for name in ("hidden_size", "intermediate_size"):
            value = getattr(c, name)
            require(value % p.group == 0, f"{name} is {value}, no multiple of {p.group}, the group")
        require(
            1 <= self.context <= c.max_position_embeddings,
            f"context must be 1..{c.max_position_embeddings}, not {self.context!r}",
        )
        self._require_room()

    # Tokens.

    @property
    def step_tokens(self) -> int:
        """Tokens of a step at most: a tile of keys."""
        return self.params.columns

    @property
    def step_tiles(self) -> int:
        return self.params.parts

    # Sizes in rows of the fp16 memory.

    def words(self, elements: int) -> int:
        return words_of(self.params, elements)

    @cached_property
    def width_words(self) -> int:
        return self.words(self.config.hidden_size)

    @cached_property
    def head_words(self) -> int:
        """One head's channels."""
        return self.words(self.config.head_dim)

    @cached_property
    def rotated_words(self) -> int:
        """One half of the channels of all queries and keys."""
        c = self.config
        return self.words((c.num_attention_heads + c.num_key_value_heads) * c.head_dim // 2)

    @cached_property
    def score_words(self) -> int:
        return tiles_of(self.params, self.context) * self.params.tile_words

    def output_words(self, matrix: Matrix) -> int:
        """What a product leaves, with the tiles that fill its last part up."""
        return matrix.tiles * self.params.tile_words

    # Rows of the fp16 memory. Tokens, projections and results of heads of all token tiles stay;
    # what is behind them changes its meaning from part to part of a layer.

    def tokens_row(self, tile: int) -> int:
        return tile * self.width_words

    @cached_property
    def _free_row(self) -> int:
        """Behind the tokens."""
        return self.step_tiles * self.width_words

    def projections_row(self, tile: int) -> int:
        """First halves of queries and of keys, second halves of both, then values."""
        return self._free_row + tile * self.output_words(self.matrices["qkv"])

    def attended_row(self, tile: int) -> int:
        words = self.words(self.config.num_attention_heads * self.config.head_dim)
        return self.projections_row(self.step_tiles) + tile * words

    @cached_property
    def scratch_row(self) -> int:
        """What norms, rotations and attention use."""
        return self.attended_row(self.step_tiles)

    @cached_property
    def attention_row(self) -> int:
        """What attention uses: behind what rotation does, where there is room.

        Then it comes while queries and keys are rotated.
        """
        behind = self.scratch_row + self.rotation_words
        fits = behind + self._attention_words <= self.params.halves_rows
        return behind if fits else self.scratch_row

    @property
    def rotation_words(self) -> int:
        """Cosines, sines and what else rotation needs."""
        return 5 * self.rotated_words

    @property
    def _attention_words(self) -> int:
        return self.window_words + self.open_words + self.head_words + self.score_words

    @property
    def sharing(self) -> int:
        """Heads of queries that share keys and values."""
        return self.config.num_attention_heads // self.config.num_key_value_heads

    @property
    def shares_rows(self) -> bool:
        """Whether heads that share keys are in rows of the array, where one token is decoded."""
        halves = (self.sharing - 1) * self.words(self.config.head_dim // 2)
        values = self.config.num_key_value_heads * self.head_words
        return 2 <= self.sharing <= self.params.rows and self.step_tiles > 1 and halves <= values

    @cached_property
    def feed_row(self) -> int:
        """What the part behind attention uses, whose results are activations by then."""
        return self._free_row

    @cached_property
    def window_words(self) -> int:
        """Keys in fp16 that offsets are learned from, of all heads."""
        return self.config.num_key_value_heads * self.step_tiles * self.head_words

    @cached_property
    def open_words(self) -> int:
        """Values in fp16 of the group that is not finished, of all heads."""
        loops = self.params.converter.loops
        return self.config.num_key_value_heads * loops * self.head_words

    # Rows of the operand memories: the cache of all heads of a layer, then two halves for weights.

    @cached_property
    def key_rows(self) -> int:
        """Rows of a tile of keys."""
        return groups_of(self.params, self.config.head_dim)

    @cached_property
    def value_rows(self) -> int:
        """Rows of a group of values."""
        return tiles_of(self.params, self.config.head_dim)

    @cached_property
    def _head_rows(self) -> tuple[int, int]:
        """High halves of K and of V of one head."""
        p = self.params
        keys = tiles_of(p, self.context) * self.key_rows
        return keys, groups_of(p, self.context) * self.value_rows

    def keys_row(self, head: int) -> int:
        return head * sum(self._head_rows)

    def values_row(self, head: int) -> int:
        return self.keys_row(head) + self._head_rows[0]

    @cached_property
    def high_rows(self) -> int:
        """High halves, signs and exponents of all heads, in whole lines."""
        return self._whole(self.keys_row(self.config.num_key_value_heads))

    @cached_property
    def _low_head_rows(self) -> tuple[int, int]:
        p = self.params
        keys = p.low_slots(Operand.KEYS) * self.key_rows
        return keys, p.low_slots(Operand.VALUES) * self.value_rows

    def low_keys_row(self, head: int) -> int:
        return self.high_rows + head * sum(self._low_head_rows)

    def low_values_row(self, head: int) -> int:
        return self.low_keys_row(head) + self._low_head_rows[0]

    @cached_property
    def cache_rows(self) -> int:
        return self._whole(self.low_keys_row(self.config.num_key_value_heads))

    def _whole(self, rows: int) -> int:
        """``rows`` up to a number that fills lines, whatever the memory."""
        step = max(self.rows_of_a_line(m) for m in Memory if m >= Memory.OPERANDS)
        return -(-rows // step) * step

    def rows_of_a_line(self, memory: Memory) -> int:
        return max(1, self.params.line_bits // self.params.row_bits(memory))

    @cached_property
    def _beat_rows(self) -> int:
        p = self.params
        return max(1, p.beat_rows(Memory.OPERANDS), p.beat_rows(Memory.SCALES))

    @cached_property
    def _halves(self) -> tuple[int, int]:
        """The first row of weights, and the rows of one part.

        Both halves have regions of the memory for themselves where there are enough, so that one
        is loaded while the other is used.
        """
        p, step = self.params, self.params.region_rows(Memory.OPERANDS)
        first = -(-self.cache_rows // step) * step
        regions = (p.operand_rows - first) // step
        if regions < 2:
            step = self._beat_rows
            first = -(-self.cache_rows // step) * step
            regions = max(0, p.operand_rows - first) // step
        return first, regions // 2 * step

    @property
    def half_rows(self) -> int:
        return self._halves[1]

    def half_row(self, half: int) -> int:
        first, rows = self._halves
        return first + half * rows

    # Matrices.

    @cached_property
    def matrices(self) -> dict[str, Matrix]:
        """Those of a layer, and the ``head``."""
        c = self.config
        width, heads = c.hidden_size, c.num_attention_heads * c.head_dim
        sizes = {
            "qkv": (heads + 2 * c.num_key_value_heads * c.head_dim, width),
            "output": (width, heads),
            "gate": (c.intermediate_size, width),
            "up": (c.intermediate_size, width),
            "down": (width, c.intermediate_size),
        }
        found = {name: self._matrix(name, *size, self.weight_bits) for name, size in sizes.items()}
        return found | {"head": self._matrix("head", c.vocab_size, width, self.head_bits)}

    @cached_property
    def head_parts(self) -> int:
        """Parts of the head that hold words of the vocabulary; what fills it up holds none."""
        matrix = self.matrices["head"]
        return -(-self.config.vocab_size // (matrix.part_tiles * self.params.columns))

    def _matrix(self, name: str, outputs: int, inputs: int, bits: int) -> Matrix:
        p = self.params
        groups, tiles = groups_of(p, inputs) * (bits // 4), tiles_of(p, outputs)
        most = self.half_rows // groups
        require(
            most >= 1,
            f"{name}: {inputs} inputs of {bits} bits need {groups} operand rows of {p.slug} beside "
            f"the cache of {self.context} tokens, there are {self.half_rows}; a shorter context "
            "leaves more",
        )
        least = -(-tiles // most)
        least += least % 2
        # Of a few numbers of parts, the one that fills the last part best.
        parts = min(range(least, least + 6, 2), key=lambda n: -(-tiles // n) * n)
        part_tiles = -(-tiles // parts)
        rows = part_tiles * groups
        scales = p.beat_line(p.lines(Memory.OPERANDS, rows))
        lines = p.beat_line(scales + p.lines(Memory.SCALES, rows))
        return Matrix(name, outputs, inputs, bits, groups, parts, part_tiles, lines, scales)

    def _require_room(self) -> None:
        p, c, m = self.params, self.config, self.matrices
        inner = 2 * self.output_words(m["gate"])
        inner += max(self.output_words(m["gate"]), self.output_words(m["down"]))
        bias = self.output_words(m["qkv"]) if c.query_bias else 0
        feed = self.output_words(m["output"]) * self.step_tiles + 2 * self.width_words + inner
        scratch = 2 * self.width_words, self.rotation_words, self._attention_words, bias
        halves = max(
            self.scratch_row + max(scratch),
            self.feed_row + feed,
            self.width_words * 3 + m["head"].part_tiles * p.tile_words,
        )
        activations = max(
            self.step_tiles * max(m["qkv"].groups, m["output"].groups),
            m["down"].groups,
            m["gate"].groups,
            m["head"].groups,
            self.key_rows + groups_of(p, self.context),
        )
        for name, rows, depth in (
            ("fp16", halves, p.halves_rows),
            ("activation", activations, p.activation_rows),
        ):
            require(
                rows <= depth,
                f"{c.name}: a layer with {self.context} tokens needs {rows} {name} rows of "
                f"{p.slug}, there are {depth}",
            )
