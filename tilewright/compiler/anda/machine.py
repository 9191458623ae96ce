"""The Anda accelerator to the compiler: one buffer of activations, weights, scales."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.machine import Bytes, Machine, SumKind
from tilewright.compiler.rows import Rows
from tilewright.compiler.schedule import Access, Item
from tilewright.compiler.sizes import Matrix, Sizes, Step, Token
from tilewright.golden.anda_machine import cycles, isa
from tilewright.golden.anda_machine.executor import Machine as Executor
from tilewright.golden.anda_machine.isa import Formats, Instruction
from tilewright.golden.anda_machine.layout import fp16_rows, fp16_values, weight_rows
from tilewright.golden.bits import encode
from tilewright.golden.machine.layout import element_dtype, from_bytes, to_bytes
from tilewright.golden.params.anda import MAX_MANTISSA_BITS
from tilewright.golden.params.anda_machine import (
    FP16_ROWS,
    AndaParams,
    Mantissas,
    Memory,
    Opcode,
    group_rows,
)
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.weights import Weights

MODULES = {
    **{"q": "qkv", "k": "qkv", "v": "qkv", "head": "qkv"},
    **{"output": "o", "gate": "u", "up": "u", "down": "d"},
}
MOST_TOKENS = 128  # of a step: tiles of queries that share what streams from the cache


class AndaMachine(Machine):
    """An Anda accelerator, and the mantissas of its activations."""

    name = "anda"
    units = ("load", "gemm", "vector", "store")
    memory, opcode, instruction = Memory, Opcode, Instruction
    weights_memory, scales_memory = Memory.WEIGHTS, Memory.SCALES
    fp16_memory = Memory.ACTIVATIONS
    cycles, isa, golden = cycles, isa, Executor
    defaults = (0, 0)
    query_scale = 1.0  # sums of products are scaled instead

    def __init__(self, params: AndaParams, mantissas: Mantissas | None = None):
        super().__init__(params, mantissas or Mantissas(8, 8, 8, 8))
        for bits in vars(self.mantissas).values():
            require(1 <= bits <= MAX_MANTISSA_BITS, f"a mantissa has 1..16 bits, not {bits}")
        self.row_values, self.step_unit = params.group // FP16.bits, params.rows
        self.beat_values = lanes = params.vector.row_lanes
        self.output_unit = self.chunk_unit = params.group
        self.shared_tokens = 1 << params.spans[-1]
        # Tokens of a prompt have banks of their own if rows of keys can be loaded one by one, and
        # tiles of keys begin with a word.
        whole = params.row_bits(Memory.ACTIVATIONS) % params.line_bits == 0
        require(whole or params.beat_words == 1, "with wide beats, a row must be whole lines")
        self.queries_in_banks = whole and params.rows % lanes == 0
        self.step_tokens = MOST_TOKENS if self.queries_in_banks else 1
        self.part_rows = params.region_rows(Memory.WEIGHTS)
        self.most_part_rows = params.weight_rows
        if params.row_groups > 1:  # a chunk is a tile for each; one is loaded during another
            self.chunk_unit = params.row_groups * params.columns
            self.part_rows = params.weight_rows // 4

    @property
    def mantissas(self) -> Mantissas:
        """Bits of activations by module."""
        return self.formats

    def mantissa(self, matrix: Matrix) -> int:
        """Bits of a product's activations."""
        return getattr(self.mantissas, MODULES[matrix.name])

    # Sizes.

    def rows_of(self, memory: Memory) -> Rows:
        rows = super().rows_of(memory)
        if memory is Memory.ACTIVATIONS:
            rows.align = self.params.beat_words
        return rows

    def beats(self, elements: int) -> int:
        """Beats of the vector unit that hold so many values of a token."""
        return isa.beats_of(self.params, elements)

    def fp16_rows(self, elements: int) -> int:
        return -(-elements // self.params.group) * FP16_ROWS

    def tile_weight_rows(self, groups: int) -> int:
        return groups * self.params.mxu.weight_beats

    def check_shape(self, shape: LlmShape) -> None:
        p = self.params
        unit = max(1, p.line_bits // p.row_bits(Memory.ACTIVATIONS)) * self.row_values
        unit = max(unit, 2 * self.beat_values)
        require(
            shape.head_dim % unit == 0,
            f"head_dim is {shape.head_dim}; on {p.slug} it must be a multiple of {unit}",
        )
        for name, value in (
            ("hidden_size", shape.hidden_size),
            ("intermediate_size", shape.intermediate_size),
            ("the channels of all keys", shape.kv_width),
            ("the channels of all queries", shape.query_width),
        ):
            require(value % p.group == 0, f"{name} is {value}, no multiple of {p.group}, the group")

    def few(self, step: Step) -> int:
        tokens = 1 << (len(step.tokens) - 1).bit_length()
        return tokens if super().few(step) else 0

    def piece(self, groups: int) -> int:
        # Whole beats of scales.
        p = self.params
        rows = self.tile_weight_rows(groups) * self.chunk_unit // p.columns
        if p.row_groups == 1 or rows <= self.part_rows:
            return 0
        beat = max(1, p.beat_rows(Memory.SCALES) // p.block_tiles)
        return -(-groups // -(-rows // self.part_rows) // beat) * beat

    # Layout.

    def vector_lines(self, elements: int) -> int:
        return self.lines(Memory.BROADCAST, self.words(elements))

    def vector_bytes(self, patterns: NDArray[np.uint16]) -> Bytes:
        rows = fp16_rows(self.params, patterns[np.newaxis])[: self.words(len(patterns))]
        return to_bytes(self.params, Memory.BROADCAST, rows[:, :1])

    def tile_values(self, data: Bytes, elements: int) -> NDArray[np.uint16]:
        rows = from_bytes(self.params, Memory.ACTIVATIONS, data, self.fp16_rows(elements))
        return fp16_values(self.params, rows, elements)

    def weight_rows(self, weights: Weights) -> tuple[NDArray, NDArray]:
        return weight_rows(self.params, weights)

    def packed_bytes(self, patterns: NDArray[np.uint16]) -> Bytes:
        words, hidden = patterns.shape
        data = np.zeros((words, self.vector_lines(hidden) * self.params.line_bytes), np.uint8)
        octets = np.ascontiguousarray(patterns, "<u2").view(np.uint8)
        data[:, : octets.shape[1]] = octets
        return data.reshape(-1)

    # Constants of attention: a row of ones, one in a single bank or in those of a token, masks.

    @cached_property
    def owners(self) -> list[slice]:
        """Banks with a one, row by row."""
        few = self.params.spans[1:] if self.params.row_groups > 1 else ()
        shared = [slice(k, None, 1 << span) for span in few for k in range(1 << span)]
        return [slice(None), *(slice(k, k + 1) for k in range(self.rows)), *shared]

    def constants(self, shape: LlmShape) -> Bytes:
        """Ones, rows with a one in a single bank; masks of unfinished tiles, lane by lane; and the
        mask of a tile of a prompt, in which bank r does not see the tokens after token r."""
        p = self.params
        lanes = self.beat_values
        minus = np.uint16(0x8000 | (FP16.infinity_bits or 0))
        ones = np.zeros((len(self.owners), p.rows, lanes), np.uint16)
        masks = np.zeros((lanes, p.rows, p.rows, lanes), np.uint16)
        for row, banks in zip(ones, self.owners, strict=True):
            row[banks] = int(encode(FP16, 1.0))
        for bank in range(p.rows):
            for lane in range(lanes):
                masks[lane, bank, bank:, lane] = minus
        prompt = np.zeros((p.rows, p.group), np.uint16)
        prompt[:, : p.rows][np.arange(p.rows) > np.arange(p.rows)[:, np.newaxis]] = minus
        later = prompt.reshape(p.rows, -1, lanes).swapaxes(0, 1)
        word = element_dtype(p, Memory.ACTIVATIONS)
        parts = [np.ascontiguousarray(v).view(word).swapaxes(1, 2) for v in (ones, *masks, later)]
        rows = [part.reshape(-1, p.rows) for part in parts]
        return np.concatenate([to_bytes(p, Memory.ACTIVATIONS, part) for part in rows])

    def mask_line(self, lane: int) -> int:
        """Lines from the first constant to the masks of a lane."""
        size = self.params.beat_words
        lines = self.lines(Memory.ACTIVATIONS, len(self.owners) * size)
        return lines + lane * self.lines(Memory.ACTIVATIONS, self.rows * size)

    @property
    def prompt_mask_line(self) -> int:
        return self.mask_line(self.beat_values)

    # The cache: tiles of tokens of K, then of V, head by head.

    def cache_lines(self, sizes: Sizes) -> int:
        return 2 * sizes.shape.num_key_value_heads * self.head_lines(sizes)

    def head_lines(self, sizes: Sizes) -> int:
        """Lines of the keys, or of the values, of one head."""
        return -(-sizes.context // self.rows) * self.cached_tile(sizes)

    def cached_tile(self, sizes: Sizes) -> int:
        return self.lines(Memory.ACTIVATIONS, self.words(sizes.shape.head_dim))

    def scratch_lines(self, sizes: Sizes) -> int:
        """Sums of the heads that share keys while banks are merged; new keys and values."""
        shape = sizes.shape
        sharing = shape.num_attention_heads // shape.num_key_value_heads
        tiles = -(-sizes.sequences // self.rows)
        return 2 * sharing * self.merged_lines(shape) + 2 * tiles * self.tile_lines(shape.kv_width)

    def merged_lines(self, shape: LlmShape) -> int:
        """Lines of a query's sums while they are merged."""
        rows = self.fp16_rows(shape.head_dim) + 2 * self.params.beat_words
        return self.lines(Memory.ACTIVATIONS, rows)

    # Programs.

    def row_accesses(self, item: Item) -> tuple[list[Access], list[Access]]:
        x = item.instruction
        reads, writes = (
            [Access(e.memory.buffer, e.first, e.end) for e in part]
            for part in isa.ranges(self.params, self.settings_of(item), x)
        )
        if x.opcode is Opcode.SHARED_GEMM:
            writes.append(Access("sums of the array", 0, 1))
        return reads, writes

    def deciding(self, item: Item) -> tuple:
        match item.instruction.opcode:
            case Opcode.GEMM | Opcode.SHARED_GEMM:
                return item.needs[:1]
            case Opcode.COMPRESS:
                return item.needs[1:]
        return ()

    def settings_of(self, item: Item) -> Formats:
        source, result = item.needs or (0, 0)
        return Formats(source or 0, result or 0)

    def configure(self, settings: tuple) -> Instruction:
        source, result = settings
        fields = {"source_mantissa": source, "result_mantissa": result}
        return Instruction(Opcode.CONFIGURE, fields)

    def acts_loads(self, matrix: Matrix) -> list[dict[str, int]]:
        each = group_rows(self.mantissa(matrix))
        planes = {"memory": int(Memory.ACTIVATIONS), "rows": matrix.groups * each, "stride": 1}
        return [planes, {"memory": int(Memory.EXPONENTS), "rows": matrix.groups, "stride": each}]

    def settings(self, x: Instruction) -> tuple:
        return x["source_mantissa"], x["result_mantissa"]

    def sums(self, item: Item) -> tuple[SumKind, int] | None:
        x = item.instruction
        if x.opcode not in isa.GEMMS:
            return None
        groups = -(-x["inputs"] // self.params.group)
        tiles = -(-x["outputs"] // self.params.columns)
        together = isa.pass_tiles(self.params, x)
        return (self.settings_of(item).source, together), groups * -(-tiles // together)

    def bank(self, token: Token, index: int, step: Step) -> int:
        return token.position % self.rows if step.kind == "prompt" else index % self.rows

    def with_mantissas(self, lengths: Mapping[str, int]) -> "AndaMachine":
        return AndaMachine(self.params, Mantissas(**asdict(self.mantissas) | dict(lengths)))

    def about(self) -> dict[str, Any]:
        return {"mantissas": asdict(self.mantissas), "cache": "fp16"}

    @property
    def activations(self) -> str:
        lengths = "/".join(map(str, asdict(self.mantissas).values()))
        return f"Anda, mantissas of {lengths} bits (qkv, o, u, d), groups of {self.params.group}"

    def planes(self, matrix: Matrix) -> int:
        """Rows of a product's activations, with their copies."""
        return matrix.groups * group_rows(self.mantissa(matrix))
