"""Attention over a cache of any length, which streams from external memory.

The cache lies in external memory in *parts* of some hundred tokens, each in the form of the operand
memories. Of a decoded token, the heads that share K and V fill the rows of the array; of a prompt,
its tokens do, a token tile at a time, and each sees the tokens up to itself. The softmax is scaled
as it goes (:mod:`tilewright.golden.harmonia.streamed_attention`). The program has no length limit
either: it streams as well.

In every step the array takes the keys of a part and the values of the one two before it. Beside
that, the vector unit raises the scores of the part between them, the converter makes activations of
the powers, and the next parts come. What works at the same time lies in different regions of the
memories, where these are large enough.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.harmonia.cache import KvCache
from tilewright.golden.harmonia.mixed import MixedBlocks
from tilewright.golden.harmonia_machine.builder import Builder
from tilewright.golden.harmonia_machine.isa import Instruction, groups_of, tiles_of, words_of
from tilewright.golden.machine.assembly import ONE
from tilewright.golden.machine.tiling import places
from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia import ACTIVATION_BITS, OPERAND_BITS
from tilewright.golden.params.harmonia_machine import (
    Conversion,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
)
from tilewright.golden.params.machine import Kind
from tilewright.golden.params.vector import Operation

__all__ = [
    "CachedTensor",
    "OperandUnits",
    "StreamedAttention",
    "cached_units",
    "streamed_attention",
    "streamed_program",
]

PART = 512  # tokens: long beside the array's latency, short beside a cache
OPERAND_MEMORIES = (Memory.OPERANDS, Memory.OPERAND_SIGNS, Memory.OPERAND_EXPONENTS)
# Scalar registers. Two of a kind are those of even and of odd parts: the largest score up to a part
# and of a part alone, and what is scaled with when it is added; a part's sum, and that of all.
_TOPS, _OWN, _SCALES = (0, 1), (2, 3), (4, 5)
_TOTAL, _SUMS = 6, 7


_Load: TypeAlias = tuple[Memory, int, int, int]  # memory, row, rows, line


class OperandUnits(NamedTuple):
    """K or V as rows of the operand memories, unit after unit."""

    high: NDArray
    low: NDArray
    signs: NDArray
    exponents: NDArray


class CachedTensor:
    """K or V: its parts in external memory, and where they come to on chip."""

    def __init__(
        self, builder: Builder, operand: Operand, across: int, part: int, rows: OperandUnits
    ):
        p = builder.params
        self.builder, self.operand, self.across = builder, operand, across
        self.unit = p.unit(operand)
        self.part_units = part // self.unit
        self.part_rows = self.part_units * across
        self.rows = (0, 0)  # of even and of odd parts, in all memories; set by the program
        self.lines: dict[Memory, list[int]] = {}
        by_memory = (rows.high, rows.signs, rows.exponents)
        for memory, content in zip(OPERAND_MEMORIES, by_memory, strict=True):
            self.lines[memory] = []
            for first in range(0, len(content), self.part_rows):
                piece = content[first : first + self.part_rows]
                builder.align()
                self.lines[memory].append(builder.place(memory, piece, len(piece)))
        self.low_lines = builder.place(Memory.OPERANDS, rows.low, across)

    def loads(self, part: int, units: int) -> Iterator[_Load]:
        """What brings a part of so many units."""
        for memory in OPERAND_MEMORIES:
            row = self.rows[part % 2]
            yield memory, row, units * self.across, self.lines[memory][part]

    @property
    def place_rows(self) -> int:
        """Rows of a part and, behind it, of its low halves."""
        return self.part_rows + self.builder.params.low_slots(self.operand) * self.across

    def low_row(self, part: int) -> int:
        return self.rows[part % 2] + self.part_rows

    def clear_low(self, low_row: int) -> None:
        """Low halves of zero for the first units of a part, whose low halves lie at this row.

        The array counts units from the part's first on, and so takes them for those of the initial
        window. In the later parts with recent tokens their own low halves replace the zeros.
        """
        b, p = self.builder, self.builder.params
        rows = p.initial_slots(self.operand) * self.across
        for columns in range(p.parts):
            b.emit(Opcode.CLEAR, low_halves=low_row, rows=rows, part=columns)

    def bring_low(self, part: int, units: int, tokens: int) -> None:
        """Low halves of a part, where it has any."""
        b, p = self.builder, self.builder.params
        first = part * self.part_units
        for unit in range(units):
            if p.has_low(self.operand, first + unit, tokens):
                source = p.low_slot(self.operand, first + unit) * p.lines(
                    Memory.OPERANDS, self.across
                )
                row = self.low_row(part) + p.low_slot(self.operand, unit) * self.across
                b.load(Memory.OPERANDS, row, self.across, self.low_lines + source)


@dataclass(frozen=True)
class StreamedAttention:
    """A program, what it starts with and where its results are."""

    builder: Builder
    heads: int
    channels: int
    results: int  # line

    def attended(self, memory: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """fp16 patterns (heads, channels)."""
        return self.builder.halves_results(memory, self.results, self.heads, self.channels)


def streamed_attention(
    params: HarmoniaParams,
    queries: NDArray[np.uint16],
    cache: KvCache,
    *,
    part: int = PART,
    first: int | None = None,
) -> StreamedAttention:
    """Queries (heads, channels) are fp16 patterns of the newest token, of heads that share K and V.

    With ``first`` they are those of a token tile of one head: query k is of token ``first`` + k and
    sees no later one. ``part`` tokens of the cache come at a time, a multiple of the group.
    """
    p, (heads, channels) = params, queries.shape
    require(1 <= heads <= p.rows, f"heads must be 1..{p.rows}, not {heads!r}")
    require(
        part > 0 and part % p.group == 0,
        f"part must be a multiple of {p.group}, the group, not {part!r}",
    )
    require(channels % p.group == 0, f"channels must be a multiple of {p.group}, not {channels!r}")
    if first is not None:
        require(
            first % p.rows == 0 and first >= 0 and first + heads <= cache.tokens,
            f"queries of tokens {first} and behind are no token tile of {cache.tokens} tokens",
        )
    b = Builder(params)
    keys, values = _tensors(b, cache, part)
    query_line = b.place_halves(queries)
    results = b.reserve(b.halves_lines(channels))
    program = _Program(b, heads, channels, cache.tokens, part, keys, values, first)
    program.write(query_line, results)
    return StreamedAttention(b, heads, channels, results)


def streamed_program(
    params: HarmoniaParams, heads: int, channels: int, tokens: int, first: int | None = None
) -> list[Instruction]:
    """The instructions for a cache of zeros of ``tokens`` tokens, to count cycles of.

    Of a token tile of a prompt only the tokens that it sees, and lines of none, are written.
    """
    p, b = params, Builder(params)
    seen = tokens if first is None else first + heads

    def empty(operand: Operand, across: int) -> OperandUnits:
        rows = -(-seen // p.unit(operand)) * across
        nothing = np.zeros((rows, p.columns, p.group), np.uint8)
        low = np.zeros((p.low_slots(operand) * across, p.columns, p.group), np.uint8)
        return OperandUnits(nothing, low, nothing, nothing[..., 0])

    sizes = ((Operand.KEYS, groups_of(p, channels)), (Operand.VALUES, tiles_of(p, channels)))
    keys, values = (CachedTensor(b, o, across, PART, empty(o, across)) for o, across in sizes)
    query_line, results = (b.reserve(b.halves_lines(channels)) for _ in range(2))
    _Program(b, heads, channels, tokens, PART, keys, values, first).write(query_line, results)
    return b.program


class _Program:
    """Writes the instructions."""

    def __init__(
        self,
        builder: Builder,
        heads: int,
        channels: int,
        tokens: int,
        part: int,
        keys: CachedTensor,
        values: CachedTensor,
        first: int | None = None,
    ):
        self.builder, self.heads, self.channels = builder, heads, channels
        self.first = first  # token of the first query of a prompt
        self.seen = tokens if first is None else first + heads
        self.tokens, self.part, self.keys, self.values = tokens, part, keys, values
        p = builder.params
        words = words_of(p, channels)
        score_rows = tiles_of(p, part) * p.tile_words
        operands = ((keys.place_rows, 2), (values.place_rows, 2))
        halves = ((3 * words, 1), (score_rows, 3))
        activations = ((groups_of(p, channels), 1), (groups_of(p, part), 2))

        def rows_of(name: str, memory: Memory, *tensors: tuple[int, int]) -> list[list[int]]:
            """In regions of their own, or behind each other where these do not suffice."""
            depth = p.depth(memory)
            found = places(depth, p.region_rows(memory), *tensors) or places(depth, 1, *tensors)
            need = sum(rows * copies for rows, copies in tensors)
            require(
                found is not None,
                f"parts of {part} tokens need {need} {name} rows, there are {depth}",
            )
            assert found is not None
            return found

        for tensor, rows in zip(
            (keys, values), rows_of("operand", Memory.OPERANDS, *operands), strict=True
        ):
            tensor.rows = (rows[0], rows[1])
        (self.queries,), self.scores = rows_of("fp16", Memory.FP16, *halves)
        self.sums, self.result = self.queries + words, self.queries + 2 * words
        (self.activations,), self.powers = rows_of("activation", Memory.MANTISSAS, *activations)

    def write(self, queries: int, results: int) -> None:
        b, words = self.builder, words_of(self.builder.params, self.channels)
        parts = -(-self.seen // self.part)
        b.configure(lanes=range(self.heads))
        b.load(Memory.FP16, self.queries, words, queries)
        b.convert(
            Conversion.ACTIVATIONS,
            source=self.queries,
            elements=self.channels,
            destination=self.activations,
        )
        self._bring(self.keys, 0)
        for step in range(parts + 2):
            raised, weighed = step - 1, step - 2
            if step < parts:
                self._gemm(self.keys, step)
            if 0 <= raised < parts:
                self._raise(raised)
                self._bring(self.keys, step + 1)
                self._convert(raised)
                self._add_results(weighed - 1)
                self._add_sums(raised)
            else:
                self._bring(self.keys, step + 1)
                self._add_results(weighed - 1)
            if weighed >= 0:
                self._gemm(self.values, weighed)
            if 0 <= raised < parts:
                self._bring(self.values, raised)
        self._add_results(parts - 1)
        b.normalise(self.sums, self.channels, _SUMS)
        b.store(Memory.FP16, self.sums, words, results)
        b.halt()

    def _bring(self, tensor: CachedTensor, part: int) -> None:
        """A part, and its low halves where it has any."""
        if part * self.part >= self.seen:
            return
        b, units = self.builder, self._units(tensor, part)
        for load in tensor.loads(part, units):
            b.load(*load)
        if part in (1, 2):  # behind them no place holds low halves of the initial window
            b.configure(lanes=range(b.params.rows))
            tensor.clear_low(tensor.low_row(part))
            b.configure(lanes=range(self.heads))
        tensor.bring_low(part, units, self.tokens)

    def _size(self, part: int) -> int:
        """Tokens of a part."""
        return min(self.part, self.seen - part * self.part)

    def _limit(self, part: int) -> int:
        """Tokens of a part that the first query sees, where others see more; else 0."""
        if self.first is None or (part + 1) * self.part < self.seen:
            return 0
        return self.first + 1 - part * self.part

    def _units(self, tensor: CachedTensor, part: int) -> int:
        return -(-self._size(part) // tensor.unit)

    def _scores(self, part: int) -> int:
        """Rows of a part's scores."""
        return self.scores[part % 3]

    def _raise(self, part: int) -> None:
        """Powers of a part's scores, and their sum."""
        b, row, tokens = self.builder, self._scores(part), self._size(part)
        top = _TOPS[part % 2]
        if part:
            b.scalar_vector(Operation.MAXIMUM, top, _TOPS[1 - part % 2], _OWN[part % 2])
        total, limit = _TOTAL if part else _SUMS, self._limit(part)
        b.vector(
            *(Operation.POWERS, row, row),
            scalar=top,
            elements=tokens,
            total=total,
            causal_limit=limit,
        )

    def _add_sums(self, part: int) -> None:
        """Scale the sum of the parts before this one, and add its own."""
        if part <= 0:
            return
        b, scale, top = self.builder, _SCALES[part % 2], _TOPS[part % 2]
        b.scalar_vector(Operation.SUBTRACT, scale, _TOPS[1 - part % 2], top)
        b.scalar_vector(Operation.EXPONENTIAL, scale, scale)
        b.scalar_vector(Operation.MULTIPLY, _SUMS, _SUMS, scale)
        b.scalar_vector(Operation.ADD, _SUMS, _SUMS, _TOTAL)

    def _convert(self, part: int) -> None:
        self.builder.convert(
            Conversion.ACTIVATIONS,
            source=self._scores(part),
            elements=self._size(part),
            destination=self.powers[part % 2],
        )

    def _gemm(self, tensor: CachedTensor, part: int) -> None:
        b, units = self.builder, self._units(tensor, part)
        maxima: int | None
        # Windows are counted from the part's first token on.
        of_keys = tensor.operand is Operand.KEYS
        limit = self._limit(part) if of_keys else 0
        b.configure(tokens=self.tokens - part * self.part, causal_limit=limit)
        if of_keys:
            source, destination = self.activations, self._scores(part)
            maxima = _OWN[part % 2] if part else _TOPS[0]
            groups, tiles = groups_of(b.params, self.channels), units
        else:
            source, destination = self.powers[part % 2], self.result if part else self.sums
            maxima = None
            groups, tiles = units, tiles_of(b.params, self.channels)
        b.gemm(
            tensor.operand,
            source=source,
            operands=tensor.rows[part % 2],
            low_halves=tensor.low_row(part),
            metadata=tensor.rows[part % 2],
            destination=destination,
            groups=groups,
            tiles=tiles,
            maxima=maxima,
        )

    def _add_results(self, part: int) -> None:
        """Scale the results of the parts before this one, and add its own."""
        if part <= 0:
            return
        scale = _SCALES[part % 2]
        self.builder.vector(
            Operation.MULTIPLY, self.sums, self.sums, scalar=scale, elements=self.channels
        )
        tensors = (Kind.TENSOR, self.sums), (Kind.TENSOR, self.result)
        self._vector(Operation.ADD, self.sums, *tensors, self.channels)

    def _vector(
        self,
        operation: Operation,
        destination: int,
        a: tuple[Kind, int],
        b: tuple[Kind, int],
        elements: int,
    ) -> None:
        self.builder.emit(
            Opcode.VECTOR,
            operation=int(operation),
            a_kind=int(a[0]),
            b_kind=int(b[0]),
            a=a[1],
            b=b[1],
            destination=destination,
            elements=elements,
            scale=ONE,
            causal_limit=0,
            total=0,
        )


def cached_units(params: HarmoniaParams, cache: KvCache) -> tuple[OperandUnits, OperandUnits]:
    """K and V of a cache, unit after unit."""
    return (
        _rows(params, Operand.KEYS, cache.keys(), cache.tokens),
        _rows(params, Operand.VALUES, cache.values(), cache.tokens),
    )


def _tensors(builder: Builder, cache: KvCache, part: int) -> tuple[CachedTensor, CachedTensor]:
    p = builder.params
    groups, channel_tiles = groups_of(p, cache.channels), tiles_of(p, cache.channels)
    key_rows, value_rows = cached_units(p, cache)
    return (
        CachedTensor(builder, Operand.KEYS, groups, part, key_rows),
        CachedTensor(builder, Operand.VALUES, channel_tiles, part, value_rows),
    )


def _rows(
    params: HarmoniaParams, operand: Operand, blocks: MixedBlocks, tokens: int
) -> OperandUnits:
    """A row of a unit is a group of K, or a tile of channels of V."""
    p, of_keys = params, operand is Operand.KEYS

    def by_unit(x: NDArray) -> NDArray:
        """(columns, groups, ...) as (units, rows of a unit, columns of a tile, ...)."""
        columns = -(-len(x) // p.columns) * p.columns
        padded = np.zeros((columns, *x.shape[1:]), x.dtype)
        padded[: len(x)] = x
        tiles = padded.reshape(-1, p.columns, *x.shape[1:]).swapaxes(1, 2)
        return tiles if of_keys else tiles.swapaxes(0, 1)

    long = (blocks.bits == ACTIVATION_BITS)[..., np.newaxis]
    low_mask = np.uint8((1 << OPERAND_BITS) - 1)
    high = by_unit(np.where(long, blocks.mantissa >> OPERAND_BITS, blocks.mantissa))
    low = by_unit(np.where(long, blocks.mantissa & low_mask, 0).astype(np.uint8))
    places = np.zeros((p.low_slots(operand), *low.shape[1:]), np.uint8)
    for unit in range(len(low)):
        if p.has_low(operand, unit, tokens):
            places[p.low_slot(operand, unit)] = low[unit]

    def flat(x: NDArray) -> NDArray:
        return x.reshape(-1, *x.shape[2:])

    return OperandUnits(
        flat(high).astype(np.uint8),
        flat(places),
        flat(by_unit(blocks.sign)).astype(np.uint8),
        flat(by_unit(blocks.exponent)),
    )
