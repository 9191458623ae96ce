"""Where a language model lies on the accelerator: rows of its buffers, and parts of its weights.

A *step* passes one token through all decoder layers, or up to a token tile of a prompt's. Of one
token all banks hold the same, and all rows of the matrix unit compute it, so that every bank has
the queries that attention wants there, and any bank can keep the token's key and value. Tokens of a
prompt lie in a bank each, as in a tile of the cache; their queries go to every bank through
external memory. All layers have the same form: index register 1 moves from one layer's weights to
the next, index register 2 from one layer's cache to the next, and index register 3 from one bank's
queries to the next.

Weights have 4 or 8 bits. The matrix unit multiplies 4-bit integers, so a weight of 8 bits is two of
them, ``16 * high + low``, which meet the same activations one after the other within one sum.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

from tilewright.golden.anda_machine.attention_writer import Room
from tilewright.golden.anda_machine.block import Mantissas
from tilewright.golden.anda_machine.isa import groups_of, words_of
from tilewright.golden.params.anda import MAX_MANTISSA_BITS
from tilewright.golden.params.anda_machine import FP16_ROWS, AndaParams, Memory, group_rows
from tilewright.golden.params.block import require
from tilewright.golden.params.llm import LlmShape

__all__ = ["BANK_INDEX", "CACHE_INDEX", "LAYER_INDEX", "MATRICES", "Matrix", "Plan"]

MATRICES = ("qkv", "output", "gate", "up", "down")  # of a layer, in the order they are used
LAYER_INDEX, CACHE_INDEX, BANK_INDEX = 1, 2, 3  # index registers
MODULES = {"qkv": "qkv", "output": "o", "gate": "u", "up": "u", "down": "d"}
MANTISSA = 8  # bits, unless others are asked for


@dataclass(frozen=True)
class Matrix:
    """Weights (outputs, inputs) in an even number of parts of ``part_tiles`` tiles of columns.

    While one part is used, the next comes into the other half of the weight buffer. The last part
    may have fewer tiles.
    """

    name: str
    outputs: int
    inputs: int
    bits: int
    mantissa: int  # of the activations
    groups: int  # of one output, both halves of 8-bit weights
    tiles: int
    parts: int
    part_tiles: int
    beats: int  # rows of the weight buffer of a tile's group
    columns: int

    @property
    def copies(self) -> int:
        """How often the activations lie behind each other: once for each 4 bits of a weight."""
        return self.bits // 4

    def tiles_of(self, part: int) -> int:
        return max(0, min(self.part_tiles, self.tiles - part * self.part_tiles))

    def rows_of(self, part: int) -> int:
        """Rows of a part's weights."""
        return self.tiles_of(part) * self.groups * self.beats

    def scales_of(self, part: int) -> int:
        """Rows of a part's scales."""
        return self.tiles_of(part) * self.groups


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A model of one shape on an accelerator of one size, for up to ``context`` tokens."""

    params: AndaParams
    config: LlmShape
    context: int
    weight_bits: int = 4
    head_bits: int = 8
    mantissas: Mantissas = field(
        default_factory=lambda: Mantissas(MANTISSA, MANTISSA, MANTISSA, MANTISSA)
    )
    single_tokens: bool = False  # no step has several

    def __post_init__(self) -> None:
        p, c = self.params, self.config
        require(
            c.model_type in ("llama", "mistral", "qwen2") and c.rotary and c.gated,
            f"a model of type {c.model_type} is not supported: LLaMA, Mistral and Qwen2 are",
        )
        require(
            not (c.output_bias or c.feed_forward_bias or c.query_norm),
            f"{c.name}: of projections, queries, keys and values alone may have biases, and norms"
            " of queries are not supported",
        )
        require(not c.experts and not c.latent, f"{c.name}: experts and latents are not supported")
        for name, bits in (("weights", self.weight_bits), ("head", self.head_bits)):
            require(bits in (4, 8), f"{name} have 4 or 8 bits, not {bits!r}")
        unit = max(1, p.line_bits // p.row_bits(Memory.ACTIVATIONS)) * p.vector.row_lanes
        require(
            c.head_dim % max(unit, 2 * p.vector.row_lanes) == 0,
            f"head_dim is {c.head_dim}; on {p.slug} it must be a multiple of {unit}",
        )
        for name, value in (
            ("hidden_size", c.hidden_size),
            ("intermediate_size", c.intermediate_size),
            ("the channels of all keys", c.num_key_value_heads * c.head_dim),
            ("the channels of all queries", c.num_attention_heads * c.head_dim),
        ):
            require(value % p.group == 0, f"{name} is {value}, no multiple of {p.group}, the group")
        require(
            1 <= self.context <= c.max_position_embeddings,
            f"context must be 1..{c.max_position_embeddings}, not {self.context!r}",
        )
        for bits in vars(self.mantissas).values():
            require(1 <= bits <= MAX_MANTISSA_BITS, f"a mantissa has 1..16 bits, not {bits}")
        self._require_room()

    step_tiles = 1

    @cached_property
    def step_tokens(self) -> int:
        """Tokens of a step: a tile, or one where the buffer has no room for a tile's queries."""
        if self.single_tokens:
            return 1
        try:
            self.prompt_room.part  # noqa: B018  (refuses a buffer without room)
        except ValueError:
            return 1
        entering = self.params.rows * self.width_rows + 1 + self.params.rows + FP16_ROWS
        return self.params.rows if entering <= 2 * self.region else 1

    # Sizes in rows of the activation buffer.

    def words(self, elements: int) -> int:
        return words_of(self.params, elements)

    def tensor_rows(self, elements: int) -> int:
        """Rows that an instruction writes: whole groups."""
        return groups_of(self.params, elements) * FP16_ROWS

    @cached_property
    def width_rows(self) -> int:
        return self.tensor_rows(self.config.hidden_size)

    @cached_property
    def inner_rows(self) -> int:
        return self.tensor_rows(self.config.intermediate_size)

    @cached_property
    def head_words(self) -> int:
        return self.words(self.config.head_dim)

    @property
    def rotated(self) -> int:
        """Channels of all queries and keys."""
        c = self.config
        return (c.num_attention_heads + c.num_key_value_heads) * c.head_dim

    @property
    def keys(self) -> int:
        """Channels of all keys."""
        return self.config.num_key_value_heads * self.config.head_dim

    def planes(self, matrix: Matrix) -> int:
        """Rows of a product's compressed activations, with their copies."""
        groups = groups_of(self.params, matrix.inputs)
        return matrix.copies * groups * group_rows(matrix.mantissa)

    # Rows of the activation buffer. The lower two regions are for work, and for the cache that
    # streams in; tokens, projections and what attention needs lie above.

    @cached_property
    def region(self) -> int:
        return self.params.region_rows(Memory.ACTIVATIONS)

    @property
    def tokens_row(self) -> int:
        return 2 * self.region

    @property
    def projections_row(self) -> int:
        """Queries, keys, values; in place of the queries, later, the results of heads."""
        return self.tokens_row + self.width_rows

    @property
    def attended_row(self) -> int:
        return self.projections_row

    @cached_property
    def rotated_row(self) -> int:
        """Queries and keys behind the rotation."""
        return self.projections_row + self.tensor_rows(self.rotated + self.keys)

    @cached_property
    def room(self) -> Room:
        return Room(
            params=self.params,
            head_dim=self.config.head_dim,
            stream=(0, self.region),
            first=self.rotated_row + self.tensor_rows(self.rotated),
            end=self.params.activation_rows,
        )

    # Of a prompt's tokens.

    @cached_property
    def queries_row(self) -> int:
        """Queries of all banks in every bank: word by word those of bank 0, 1, ...

        Behind the results of heads, in place of projections, which are in external memory then.
        """
        return self.attended_row + self.tensor_rows(self.queries)

    @property
    def queries(self) -> int:
        """Channels of all queries."""
        return self.config.num_attention_heads * self.config.head_dim

    @property
    def query_rows(self) -> int:
        return self.words(self.queries) * self.params.rows

    @property
    def one_row(self) -> int:
        """What the heads of one token's queries give, in every bank."""
        return self.queries_row + self.query_rows

    @cached_property
    def prompt_room(self) -> Room:
        return replace(self.room, first=self.one_row + self.tensor_rows(self.queries))

    def _require_room(self) -> None:
        p = self.params
        require(p.regions == 4, f"a model needs 4 regions of buffers, not {p.regions}")
        self.room.part  # noqa: B018  (refuses a buffer without room)
        rotation = 3 * self.tensor_rows(self.rotated)
        qkv, down = self.matrices["qkv"], self.matrices["down"]
        front = 2 * self.width_rows + self.planes(self.matrices["gate"])
        bias = self.tensor_rows(self.rotated + self.keys) if self.config.query_bias else 0
        needs = {
            "projections": rotation + max(2 * self.width_rows + self.planes(qkv), bias),
            "rotations": rotation + self.tensor_rows(self.rotated),
            "the cache": 4 * self.tensor_rows(self.keys) + 1 + p.rows + FP16_ROWS,
            "the feed-forward part": max(front, self.planes(down)) + 3 * self.inner_rows,
        }
        for name, rows in needs.items():
            require(
                rows <= 2 * self.region,
                f"{name} of {self.config.name} need {rows} rows of activations; {p.slug} has"
                f" {2 * self.region} for them",
            )

    # Matrices.

    @property
    def half_rows(self) -> int:
        """Rows of one half of the weight buffer."""
        return 2 * self.params.region_rows(Memory.WEIGHTS)

    @property
    def half_scales(self) -> int:
        return 2 * self.params.region_rows(Memory.SCALES)

    @cached_property
    def matrices(self) -> dict[str, Matrix]:
        """Those of a layer, and the ``head``."""
        c = self.config
        width, heads = c.hidden_size, c.num_attention_heads * c.head_dim
        sizes = {
            "qkv": (self.rotated + self.keys, width),
            "output": (width, heads),
            "gate": (c.intermediate_size, width),
            "up": (c.intermediate_size, width),
            "down": (width, c.intermediate_size),
        }
        found = {
            name: self._matrix(
                name, *size, self.weight_bits, getattr(self.mantissas, MODULES[name])
            )
            for name, size in sizes.items()
        }
        found["head"] = self._matrix(
            "head", c.vocab_size, width, self.head_bits, self.mantissas.qkv
        )
        return found

    def _matrix(self, name: str, outputs: int, inputs: int, bits: int, mantissa: int) -> Matrix:
        p = self.params
        groups = bits // 4 * groups_of(p, inputs)
        beats = p.mxu.weight_beats
        tiles = -(-outputs // p.columns)
        unit = p.group // p.columns  # tiles of a group of results, which a product writes
        most = min(self.half_rows // (groups * beats), self.half_scales // groups) // unit * unit
        require(most >= 1, f"{name}: {inputs} inputs do not fit half of the weight buffer")
        parts = 2 * -(-tiles // (2 * most))
        each = -(-tiles // parts)
        part_tiles = -(-each // unit) * unit
        return Matrix(
            *(name, outputs, inputs, bits, mantissa, groups, tiles, parts, part_tiles, beats),
            columns=p.columns,
        )
