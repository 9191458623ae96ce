"""The Harmonia accelerator to the compiler: fp16, activations, and operands that cache and weights
share."""

from dataclasses import asdict
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.machine import Bytes, Machine, SumKind
from tilewright.compiler.schedule import Access, Item
from tilewright.compiler.sizes import Matrix, Sizes, Step, Token
from tilewright.golden.harmonia_machine import cycles, isa
from tilewright.golden.harmonia_machine.executor import Machine as Executor
from tilewright.golden.harmonia_machine.isa import Instruction, Settings, groups_of, tiles_of
from tilewright.golden.harmonia_machine.layout import halves_rows, halves_values, weight_rows
from tilewright.golden.machine.layout import from_bytes, to_bytes
from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia import ACTIVATION_BITS
from tilewright.golden.params.harmonia_machine import (
    Conversion,
    Dataflow,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
)
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.machine import SCALARS
from tilewright.golden.weights import Weights

CACHED = (Memory.OPERANDS, Memory.OPERAND_SIGNS, Memory.OPERAND_EXPONENTS)
PART_TOKENS = 1024  # tokens of a part of the cache, at most


class Cached(NamedTuple):
    """Keys or values of a head: rows and lines of a part, and of its low halves."""

    operand: Operand
    unit: int  # tokens that share a precision
    across: int  # rows of a unit
    part_units: int
    part_rows: int  # with those that fill the last lines up
    lines: dict[Memory, int]  # from the first line of a part
    part_lines: int
    low_lines: int  # of a unit's low halves
    parts: int

    @property
    def size(self) -> int:
        """Lines of all parts; low halves follow."""
        return self.parts * self.part_lines


class HarmoniaMachine(Machine):
    """A Harmonia accelerator."""

    name = "harmonia"
    units = ("load", "gemm", "vector", "convert", "store")
    memory, opcode, instruction = Memory, Opcode, Instruction
    weights_memory, scales_memory = Memory.OPERANDS, Memory.SCALES
    fp16_memory = Memory.FP16
    cycles, isa, golden = cycles, isa, Executor
    query_scale = 0.0  # 1 / sqrt(C): the array has no scale of its own

    def __init__(self, params: HarmoniaParams, part: int | None = None):
        """``part``: tokens of a part of the cache; by default as many as there is room for."""
        require(
            part is None or (part > 0 and part % params.group == 0),
            f"part must be a multiple of {params.group}, the group, not {part!r}",
        )
        super().__init__(params, part)
        self.part = part
        # With several loads under way a long one would go before a short one that is waited for.
        self.counts_itself = params.loads == 1
        self.row_values = params.word_values
        # A tile of keys is a step: what is old and what is recent is the same for all of it.
        self.step_unit = self.step_tokens = params.columns
        self.chunk_unit = params.row_groups * params.columns
        self.output_unit = lcm(params.group, self.chunk_unit)
        self.part_rows = params.region_rows(Memory.OPERANDS)
        # With row groups a chunk is a tile of each at least, all of which the array reads at once.
        share = Fraction(1, 2) if params.row_groups == 1 else Fraction(3, 4)
        self.most_part_rows = int(share * params.operand_rows)
        self.shared_tokens = params.group_rows
        self.packed, self._tile_words = params.rows, params.tile_words
        self.defaults = ((1 << params.rows) - 1, 0, int(Dataflow.COLUMN_MAJOR), 0)

    # Sizes.

    def fp16_rows(self, elements: int) -> int:
        return -(-elements // self.step_unit) * self._tile_words

    def tile_weight_rows(self, groups: int) -> int:
        return groups

    def check_shape(self, shape: LlmShape) -> None:
        p = self.params
        require(
            shape.head_dim % p.group == 0 and shape.head_dim <= p.channels,
            f"head_dim is {shape.head_dim}; on {p.slug} it must be a multiple of {p.group}, "
            f"at most {p.channels}",
        )
        for name in ("hidden_size", "intermediate_size"):
            value = getattr(shape, name)
            require(value % p.group == 0, f"{name} is {value}, no multiple of {p.group}, the group")

    # Layout.

    def vector_lines(self, elements: int) -> int:
        return self.lines(Memory.FP16, self.words(elements))

    def vector_bytes(self, patterns: NDArray[np.uint16]) -> Bytes:
        rows = halves_rows(self.params, np.tile(patterns, (self.params.rows, 1)))
        return to_bytes(self.params, Memory.FP16, rows)

    def tile_values(self, data: Bytes, elements: int) -> NDArray[np.uint16]:
        words = self.words(elements)
        size = words * self.params.row_bits(Memory.FP16) // 8
        rows = from_bytes(self.params, Memory.FP16, data[:size], words)
        return halves_values(self.params, rows, elements)

    def weight_rows(self, weights: Weights) -> tuple[NDArray, NDArray]:
        return weight_rows(self.params, weights)

    def packed_lines(self, elements: int) -> int:
        return self.params.beat_line(self.vector_lines(elements))

    def packed_bytes(self, patterns: NDArray[np.uint16]) -> Bytes:
        count, elements = patterns.shape
        rows = self.params.rows
        words = halves_rows(self.params, patterns).astype("<u2")
        tiles = words.reshape(-(-count // rows), -1)
        data = np.zeros((len(tiles), self.packed_lines(elements) * self.params.line_bytes), "u1")
        data[:, : 2 * tiles.shape[1]] = tiles.view(np.uint8)
        return data.reshape(-1)

    # The cache of a head: keys and values in parts, low halves, values that are not converted yet.

    def part_tokens(self, sizes: Sizes) -> int:
        """Tokens of a part of the cache: all where keys, values and scores fit."""
        p, group = self.params, self.params.group
        if self.part is not None:
            return min(self.part, -(-sizes.context // group) * group)
        most = PART_TOKENS
        while most > group and 8 * self._cached_rows(sizes.shape, most) > 3 * p.operand_rows:
            most //= 2
        while most > group and 3 * most // p.word_values > p.halves_rows // 2:
            most //= 2
        return min(most, -(-sizes.context // group) * group)

    def _cached_rows(self, shape: LlmShape, tokens: int) -> int:
        p = self.params
        keys = tokens // p.columns + p.low_slots(Operand.KEYS)
        values = tokens // p.group + p.low_slots(Operand.VALUES)
        return keys * groups_of(p, shape.head_dim) + values * tiles_of(p, shape.head_dim)

    @cached_property
    def line_rows(self) -> int:
        """Rows that fill lines of each of the operand memories."""
        p = self.params
        return max(max(1, p.line_bits // p.row_bits(memory)) for memory in CACHED)

    def cached(self, sizes: Sizes, operand: Operand) -> Cached:
        p, channels = self.params, sizes.shape.head_dim
        across = groups_of(p, channels) if operand is Operand.KEYS else tiles_of(p, channels)
        unit, part = p.unit(operand), self.part_tokens(sizes)
        each, units = self.line_rows, -(-part // unit)
        rows = -(-units * across // each) * each
        found, line = {}, 0
        for memory in CACHED:
            found[memory] = line
            line = p.beat_line(line + self.lines(memory, rows))
        low, parts = self.lines(Memory.OPERANDS, across), -(-sizes.context // part)
        return Cached(operand, unit, across, units, rows, found, line, low, parts)

    def head_lines(self, sizes: Sizes) -> dict[str, int]:
        """First lines of a head's tensors from the head's first; ``end`` is the next head's."""
        p, line = self.params, 0
        found: dict[str, int] = {}
        for name, operand in (("k", Operand.KEYS), ("v", Operand.VALUES)):
            tensor = self.cached(sizes, operand)
            found[name] = line
            found[f"{name} low"] = line + tensor.size
            slots = p.low_slots(operand)
            line = p.beat_line(line + tensor.size + slots * tensor.low_lines)
        words = self.words(sizes.shape.head_dim)
        found["window"] = line
        line += self.lines(Memory.FP16, p.parts * words)
        found["open"] = line
        line += self.lines(Memory.FP16, p.converter.loops * words)
        return found | {"end": p.beat_line(line)}

    def cache_lines(self, sizes: Sizes) -> int:
        return sizes.shape.num_key_value_heads * self.head_lines(sizes)["end"]

    def scratch_lines(self, sizes: Sizes) -> int:
        """New keys and values of a batch, and results of heads on their way to a token's bank."""
        tiles = max(1, -(-sizes.sequences // self.rows))
        attended = sizes.shape.num_attention_heads * self.attended_lines(sizes.shape)
        return 2 * tiles * self.tile_lines(sizes.shape.kv_width) + tiles * self.rows * attended

    def attended_lines(self, shape: LlmShape) -> int:
        """Lines of the results of heads that share keys."""
        return self.params.beat_line(self.tile_lines(shape.head_dim))

    # Programs.

    def row_accesses(self, item: Item) -> tuple[list[Access], list[Access]]:
        """Rows, registers of maxima and offsets of keys."""
        x = item.instruction
        reads, writes = (
            [Access(e.memory, e.first, e.end) for e in part] for part in isa.ranges(self.params, x)
        )
        match x.opcode:
            case Opcode.GEMM if x["maxima"]:
                for k in range(x["token_tiles"]):
                    number = (x["register"] + k) % SCALARS
                    writes.append(Access("scalars", number, number + 1))
            case Opcode.LEARN:
                writes.append(Access("offsets", 0, 1))
            case Opcode.CONVERT if x["conversion"] == Conversion.KEYS:
                reads.append(Access("offsets", 0, 1))
        if x.opcode is Opcode.GEMM and self.params.row_groups > 1:  # sums that are left open
            (writes if isa.sums_of(x) else reads).append(Access("sums", 0, 1))
        return reads, writes

    def deciding(self, item: Item) -> tuple:
        x = item.instruction
        if x.opcode is not Opcode.GEMM:
            return ()
        _, tokens, flow, _ = item.needs or self.defaults
        cached = x["operand"] in isa.CACHED  # units of 8 bits are summed twice
        return cached and tokens, self.defaults[2] if flow is None else flow

    def settings_of(self, item: Item) -> Settings:
        given = zip(item.needs or self.defaults, self.defaults, strict=True)
        lanes, tokens, flow, limit = (d if n is None else n for n, d in given)
        return Settings(lanes, tokens, Dataflow(flow), limit)

    def configure(self, settings: tuple) -> Instruction:
        names = ("lanes", "tokens", "dataflow", "causal_limit")
        return Instruction(Opcode.CONFIGURE, dict(zip(names, settings, strict=True)))

    def settings(self, x: Instruction) -> tuple:
        return x["lanes"], x["tokens"], x["dataflow"], x["causal_limit"]

    def acts_loads(self, matrix: Matrix) -> list[dict[str, int]]:
        memories = (Memory.MANTISSAS, Memory.SIGNS, Memory.EXPONENTS)
        return [{"memory": int(memory), "rows": matrix.groups} for memory in memories]

    def sums(self, item: Item) -> tuple[SumKind, int] | None:
        """Keys and values of 8 bits are summed twice."""
        x, p = item.instruction, self.params
        if x.opcode is not Opcode.GEMM:
            return None
        operand = Operand(x["operand"])
        together = p.row_groups if operand is Operand.SHARED else 1
        count = x["groups"] * x["tiles"] // together
        if operand in isa.CACHED:
            keys = operand is Operand.KEYS
            units, across = (x["tiles"], x["groups"]) if keys else (x["groups"], x["tiles"])
            tokens = item.needs[1] or 0
            count += across * sum(p.has_low(operand, unit, tokens) for unit in range(units))
        return (ACTIVATION_BITS, together), count * x["token_tiles"]

    def copies(self, few: int) -> int:
        return self.params.row_groups if few else 1

    def bank(self, token: Token, index: int, step: Step) -> int:
        return index % self.rows if step.kind == "batch" else token.position % self.rows

    def about(self) -> dict[str, Any]:
        return {"cache": asdict(self.params.cache)}

    @property
    def activations(self) -> str:
        return f"block floating point, 8-bit mantissas, groups of {self.params.group}"
