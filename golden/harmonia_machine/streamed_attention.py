"""A decoded token's attention over a cache of any length, which streams from external memory.

The cache lies in external memory in *parts* of a thousand tokens, each in the form of the operand
memories. While one part is worked on, the next comes into the other half of them; the powers of one
part are converted while the scores of the next are computed. The softmax is scaled as it goes
(:mod:`tilewright.golden.harmonia.streamed_attention`), and the heads that share K and V fill the
rows of the array. The program has no length limit either: it streams as well.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.harmonia.cache import KvCache
from tilewright.golden.harmonia.mixed import MixedBlocks
from tilewright.golden.harmonia_machine.builder import Builder
from tilewright.golden.harmonia_machine.isa import groups_of, tiles_of, words_of
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

__all__ = ["StreamedAttention", "streamed_attention"]

PART = 1024  # tokens
_MEMORIES = (Memory.OPERANDS, Memory.OPERAND_SIGNS, Memory.OPERAND_EXPONENTS)
# Scalar registers: the largest score up to now and that with this part, this part's sum, all sums,
# and what earlier parts are scaled with.
_TOP, _NEW, _TOTAL, _SUMS, _SCALE = range(5)


_Load: TypeAlias = tuple[Memory, int, int, int]  # memory, row, rows, line


class _Rows(NamedTuple):
    """K or V as rows of the operand memories, unit after unit."""

    high: NDArray
    low: NDArray
    signs: NDArray
    exponents: NDArray


class _Tensor:
    """K or V: its parts in external memory, and where they come to on chip."""

    def __init__(self, builder: Builder, operand: Operand, across: int, part: int, rows: _Rows):
        p = builder.params
        self.builder, self.operand, self.across = builder, operand, across
        self.unit = p.unit(operand)
        self.part_units = part // self.unit
        self.part_rows = self.part_units * across
        self.rows = (0, 0)  # of both halves, in all memories; set by the program
        self.low_row = 0
        self.lines: dict[Memory, list[int]] = {}
        by_memory = (rows.high, rows.signs, rows.exponents)
        for memory, content in zip(_MEMORIES, by_memory, strict=True):
            self.lines[memory] = []
            for first in range(0, len(content), self.part_rows):
                piece = content[first : first + self.part_rows]
                builder.align()
                self.lines[memory].append(builder.place(memory, piece, len(piece)))
        self.low_lines = builder.place(Memory.OPERANDS, rows.low, across)

    def loads(self, part: int, units: int) -> Iterator[_Load]:
        """What brings a part of so many units."""
        for memory in _MEMORIES:
            row = self.rows[part % 2]
            yield memory, row, units * self.across, self.lines[memory][part]

    def clear_low(self) -> None:
        """Low halves of zero for the first units of every part but the first.

        The array counts units from the part's first on, and so takes them for those of the initial
        window. In the later parts with recent tokens their own low halves replace the zeros.
        """
        b, p = self.builder, self.builder.params
        rows = p.initial_slots(self.operand) * self.across
        for columns in range(p.parts):
            b.emit(Opcode.CLEAR, low_halves=self.low_row, rows=rows, part=columns)

    def bring_low(self, part: int, units: int, tokens: int) -> None:
        """Low halves of a part."""
        b, p = self.builder, self.builder.params
        first = part * self.part_units
        for unit in range(units):
            if p.has_low(self.operand, first + unit, tokens):
                source = p.low_slot(self.operand, first + unit) * p.lines(
                    Memory.OPERANDS, self.across
                )
                row = self.low_row + p.low_slot(self.operand, unit) * self.across
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
    params: HarmoniaParams, queries: NDArray[np.uint16], cache: KvCache, *, part: int = PART
) -> StreamedAttention:
    """Queries (heads, channels) are fp16 patterns of the newest token, of heads that share K and V.

    ``part`` tokens of the cache come at a time, a multiple of the group.
    """
    p, (heads, channels) = params, queries.shape
    require(1 <= heads <= p.rows, f"heads must be 1..{p.rows}, not {heads!r}")
    require(
        part > 0 and part % p.group == 0,
        f"part must be a multiple of {p.group}, the group, not {part!r}",
    )
    require(channels % p.group == 0, f"channels must be a multiple of {p.group}, not {channels!r}")
    b = Builder(params)
    keys, values = _tensors(b, cache, part)
    query_line = b.place_halves(queries)
    results = b.reserve(b.halves_lines(channels))
    program = _Program(b, heads, channels, cache.tokens, part, keys, values)
    program.write(query_line, results)
    return StreamedAttention(b, heads, channels, results)


class _Program:
    """Writes the instructions."""

    def __init__(
        self,
        builder: Builder,
        heads: int,
        channels: int,
        tokens: int,
        part: int,
        keys: _Tensor,
        values: _Tensor,
    ):
        self.builder, self.heads, self.channels = builder, heads, channels
        self.tokens, self.part, self.keys, self.values = tokens, part, keys, values
        p = builder.params
        words = words_of(p, channels)
        self.queries, self.sums, self.result = 0, words, 2 * words
        self._place_parts(3 * words, tiles_of(p, part) * p.tile_words, groups_of(p, part))
        row = 0
        for half in range(2):
            for tensor in (keys, values):
                tensor.rows = (row, 0) if half == 0 else (tensor.rows[0], row)
                row += tensor.part_rows
        for tensor in (keys, values):
            tensor.low_row, row = row, row + p.low_slots(tensor.operand) * tensor.across
        for name, rows, depth in (
            ("operand", row, p.operand_rows),
            ("fp16", 3 * words + 2 * tiles_of(p, part) * p.tile_words, p.halves_rows),
            ("activation", groups_of(p, channels) + groups_of(p, part), p.activation_rows),
        ):
            require(
                rows <= depth,
                f"parts of {part} tokens need {rows} {name} rows, there are {depth}",
            )

    def _place_parts(self, first: int, scores: int, powers: int) -> None:
        """Rows of the scores and powers of two parts, behind ``first`` other rows of fp16.

        They are in regions of their own where these fit, so that units work at the same time.
        """
        p, queries = self.builder.params, groups_of(self.builder.params, self.channels)
        halves = places(p.halves_rows, p.region_rows(Memory.FP16), (first, 1), (scores, 2))
        self.scores = halves[1] if halves else [first, first + scores]
        region = p.region_rows(Memory.MANTISSAS)
        activations = places(p.activation_rows, region, (queries, 1), (powers, 2))
        self.powers = activations[1] if activations else [queries, queries]

    def write(self, queries: int, results: int) -> None:
        b, words = self.builder, words_of(self.builder.params, self.channels)
        parts = -(-self.tokens // self.part)
        b.configure(lanes=range(self.heads))
        b.load(Memory.FP16, self.queries, words, queries)
        b.convert(
            Conversion.ACTIVATIONS, source=self.queries, elements=self.channels, destination=0
        )
        self._bring(self._loads(self.keys, 0))
        self._bring_halves(0, None)
        values = self._loads(self.values, 0)
        self._bring(values, 1)
        self._gemm(self.keys, 0)
        for part in range(parts):
            # What comes beside the softmax: keys of the next part; and in the first, all values.
            coming = deque([*values, *self._loads(self.keys, part + 1)])
            self._softmax(part, coming)
            self._bring(coming)
            more = part + 1 < parts
            self._bring_halves(part + 1 if more else None, part)
            values = self._loads(self.values, part + 1)
            self._bring(values, 1)
            self._convert(part)
            if more:
                self._gemm(self.keys, part + 1)
            self._bring(values, 1)
            self._gemm(self.values, part)
            self._bring(values, 1)
            if part:
                self._accumulate()
        self.builder.scalar_vector(Operation.RECIPROCAL, _SUMS, _SUMS)
        b.vector(Operation.MULTIPLY, self.sums, self.sums, scalar=_SUMS, elements=self.channels)
        b.store(Memory.FP16, self.sums, words, results)
        b.halt()

    def _bring(self, loads: deque[_Load], most: int | None = None) -> None:
        """Issue the next loads."""
        for _ in range(len(loads) if most is None else min(most, len(loads))):
            self.builder.load(*loads.popleft())

    def _bring_halves(self, of_keys: int | None, of_values: int | None) -> None:
        """Low halves of a part of K and of one of V, where there are any."""
        b = self.builder
        wanted = ((self.keys, of_keys), (self.values, of_values))
        for tensor, part in wanted:
            if part == 1:
                b.configure(lanes=range(b.params.rows))
                tensor.clear_low()
        for tensor, part in wanted:
            if part is not None:
                tensor.bring_low(part, self._units(tensor, part), self.tokens)
        b.configure(lanes=range(self.heads))

    def _size(self, part: int) -> int:
        """Tokens of a part."""
        return min(self.part, self.tokens - part * self.part)

    def _units(self, tensor: _Tensor, part: int) -> int:
        return -(-self._size(part) // tensor.unit)

    def _loads(self, tensor: _Tensor, part: int) -> deque[_Load]:
        if part * self.part >= self.tokens:
            return deque()
        return deque(tensor.loads(part, self._units(tensor, part)))

    def _scores(self, part: int) -> int:
        """Rows of a part's scores; those of the next part lie beside them."""
        return self.scores[part % 2]

    def _softmax(self, part: int, coming: deque[_Load]) -> None:
        """Powers and their sum; loads go beside the pass over the scores."""
        b, row, tokens = self.builder, self._scores(part), self._size(part)
        if part:
            self.builder.scalar_vector(Operation.MAXIMUM, _NEW, _TOP, _NEW)
            self.builder.scalar_vector(Operation.SUBTRACT, _SCALE, _TOP, _NEW)
            self.builder.scalar_vector(Operation.EXPONENTIAL, _SCALE, _SCALE)
            self.builder.scalar_vector(Operation.COPY, _TOP, _NEW)
        self._bring(coming, 1)
        total = _TOTAL if part else _SUMS
        b.vector(Operation.POWERS, row, row, scalar=_TOP, elements=tokens, total=total)
        if part:
            self.builder.scalar_vector(Operation.MULTIPLY, _SUMS, _SUMS, _SCALE)
            self.builder.scalar_vector(Operation.ADD, _SUMS, _SUMS, _TOTAL)

    def _convert(self, part: int) -> None:
        self.builder.convert(
            Conversion.ACTIVATIONS,
            source=self._scores(part),
            elements=self._size(part),
            destination=self.powers[part % 2],
        )

    def _gemm(self, tensor: _Tensor, part: int) -> None:
        b, units = self.builder, self._units(tensor, part)
        maxima: int | None
        # Windows are counted from the part's first token on.
        b.configure(tokens=self.tokens - part * self.part)
        if tensor.operand is Operand.KEYS:
            source, destination = 0, self._scores(part)
            maxima = _NEW if part else _TOP
            groups, tiles = groups_of(b.params, self.channels), units
        else:
            source, destination = self.powers[part % 2], self.result if part else self.sums
            maxima = None
            groups, tiles = units, tiles_of(b.params, self.channels)
        b.gemm(
            tensor.operand,
            source=source,
            operands=tensor.rows[part % 2],
            low_halves=tensor.low_row,
            metadata=tensor.rows[part % 2],
            destination=destination,
            groups=groups,
            tiles=tiles,
            maxima=maxima,
        )

    def _accumulate(self) -> None:
        """Scale the results of the parts before this one, and add its own."""
        self.builder.vector(
            Operation.MULTIPLY, self.sums, self.sums, scalar=_SCALE, elements=self.channels
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


def _tensors(builder: Builder, cache: KvCache, part: int) -> tuple[_Tensor, _Tensor]:
    p = builder.params
    keys, values = cache.keys(), cache.values()
    groups, channel_tiles = keys.sign.shape[1], tiles_of(p, cache.channels)
    key_rows = _rows(p, Operand.KEYS, keys, cache.tokens)
    value_rows = _rows(p, Operand.VALUES, values, cache.tokens)
    return (
        _Tensor(builder, Operand.KEYS, groups, part, key_rows),
        _Tensor(builder, Operand.VALUES, channel_tiles, part, value_rows),
    )


def _rows(params: HarmoniaParams, operand: Operand, blocks: MixedBlocks, tokens: int) -> _Rows:
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

    return _Rows(
        flat(high).astype(np.uint8),
        flat(places),
        flat(by_unit(blocks.sign)).astype(np.uint8),
        flat(by_unit(blocks.exponent)),
    )
