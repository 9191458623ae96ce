"""One more token of many heads, each with a cache of its own, as one program.

Heads are those of a layer, and of all sequences of a batch. The cache of each lies in external
memory: keys and values in the form of the operand memories, with the places of their low halves
behind them, the keys in fp16 that offsets are learned from, and the values in fp16 of the group
that is not complete. The program appends the token to all of them and leaves its results.

The units work on different heads: while the array has the scores of one, the vector unit and the
converter work on the powers of the one before, and the caches of the next come. Token t of a
sequence lies in bank t mod ``rows``: in that of its query, key and value too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.harmonia.cache import KvCache
from tilewright.golden.harmonia_machine.builder import Builder
from tilewright.golden.harmonia_machine.isa import groups_of, tiles_of, words_of
from tilewright.golden.harmonia_machine.layout import halves_rows, to_bytes
from tilewright.golden.harmonia_machine.streamed_attention import OperandUnits, cached_units
from tilewright.golden.machine.tiling import places
from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia_machine import (
    Conversion,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
)
from tilewright.golden.params.vector import Operation

__all__ = ["CachedHead", "DecodeAttention", "decode_attention"]

_METADATA = (Memory.OPERAND_SIGNS, Memory.OPERAND_EXPONENTS)


@dataclass(frozen=True, eq=False)
class CachedHead:
    """What one head of keys and values brings to a step: its cache and its newest token."""

    keys: OperandUnits  # of the tokens before the newest
    values: OperandUnits
    window: NDArray[np.uint16]  # (tokens, channels), fp16: the keys of which offsets are learned
    open_values: NDArray[np.uint16]  # (tokens, channels), fp16: of the unfinished group
    key: NDArray[np.uint16]  # (channels,), of the newest token
    value: NDArray[np.uint16]
    queries: NDArray[np.uint16]  # (heads that share keys and values, channels)

    @classmethod
    def of(
        cls,
        params: HarmoniaParams,
        cache: KvCache,
        keys: NDArray[np.uint16],
        values: NDArray[np.uint16],
        queries: NDArray[np.uint16],
        prompt: int,
    ) -> "CachedHead":
        """Return the head of a cache that has all but the last of these tokens.

        ``prompt`` tokens came first, at once.
        """
        units = cached_units(params, cache)
        complete = cache.tokens // params.group * params.group
        window = keys[: min(prompt, params.initial)]
        return cls(*units, window, values[complete:-1], keys[-1], values[-1], queries)

    @classmethod
    def empty(
        cls, params: HarmoniaParams, tokens: int, channels: int, sharing: int
    ) -> "CachedHead":
        """Return a head of zeros with so many tokens before the newest, to count cycles of."""
        p = params

        def units(operand: Operand, across: int) -> OperandUnits:
            rows = -(-tokens // p.unit(operand)) * across
            nothing = np.zeros((rows, p.columns, p.group), np.uint8)
            low = np.zeros((p.low_slots(operand) * across, p.columns, p.group), np.uint8)
            return OperandUnits(nothing, low, nothing, nothing[..., 0])

        fp16 = np.zeros((max(tokens, sharing, 1), channels), np.uint16)
        return cls(
            units(Operand.KEYS, groups_of(p, channels)),
            units(Operand.VALUES, tiles_of(p, channels)),
            fp16[: min(tokens, p.initial)],
            fp16[: tokens % p.group],
            fp16[0],
            fp16[0],
            fp16[:sharing],
        )


class _Lines(NamedTuple):
    """First lines of what a head has in external memory."""

    keys: dict[Memory, int]
    values: dict[Memory, int]
    window: int
    open_values: int
    key: int
    value: int
    queries: int
    results: int


@dataclass(frozen=True)
class DecodeAttention:
    """A program, what it starts with and where its results are."""

    builder: Builder
    heads: tuple[_Lines, ...]
    bank: int
    sharing: int
    channels: int

    def attended(self, memory: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """fp16 patterns (heads of keys and values, heads that share them, channels)."""
        b, rows = self.builder, self.builder.params.rows
        found = [
            b.halves_results(memory, lines.results, self.sharing * rows, self.channels)
            for lines in self.heads
        ]
        return np.stack(found).reshape(len(found), self.sharing, rows, -1)[:, :, self.bank]


def decode_attention(
    params: HarmoniaParams, tokens: int, heads: Sequence[CachedHead], *, checked: bool = True
) -> DecodeAttention:
    """All heads have ``tokens`` tokens, the newest among them, and as many channels.

    Whether the program's result depends on timing is asked where it is ``checked``.
    """
    b, sharing, channels = Builder(params), *heads[0].queries.shape
    require(tokens >= 1, f"tokens must be at least 1, not {tokens!r}")
    require(
        channels % params.group == 0 and channels <= params.channels,
        f"channels must be a multiple of {params.group}, at most {params.channels}, not {channels}",
    )
    program = _Program(b, tokens, sharing, channels)
    lines = tuple(program.place(head) for head in heads)
    program.write(lines, len(heads[0].window))
    if checked:
        b.halt()
    else:
        b.emit(Opcode.HALT)
    return DecodeAttention(b, lines, program.bank, sharing, channels)


class _Program:
    """Writes the instructions."""

    def __init__(self, builder: Builder, tokens: int, sharing: int, channels: int):
        p = builder.params
        self.builder, self.params = builder, p
        self.tokens, self.sharing, self.channels = tokens, sharing, channels
        self.tile, self.bank = divmod(tokens - 1, p.rows)
        self.words, self.groups = words_of(p, channels), groups_of(p, channels)
        self.across = {Operand.KEYS: self.groups, Operand.VALUES: tiles_of(p, channels)}
        self.units = {operand: -(-tokens // p.unit(operand)) for operand in self.across}
        window = -(-min(p.initial, max(1, tokens - 1)) // p.rows)
        self.score_rows = tiles_of(p, tokens) * p.tile_words
        beside = (window + p.converter.loops + 1 + 2) * self.words
        operands = [(self.across[o] * (self.units[o] + p.low_slots(o)), 2) for o in self.across]
        keys, values = self._rows(Memory.OPERANDS, *operands)
        self.rows = {Operand.KEYS: keys, Operand.VALUES: values}
        self.beside, self.scores = self._rows(
            Memory.FP16, (beside, 2), (self.score_rows + self.words, 2)
        )
        self.activations, self.powers = self._rows(
            Memory.MANTISSAS, (self.groups, 2), (groups_of(p, tokens), 2)
        )
        self.window_tiles = window

    def _rows(self, memory: Memory, *tensors: tuple[int, int]) -> list[list[int]]:
        """In regions of their own, or behind each other where these do not suffice."""
        depth, name = self.params.depth(memory), memory.name.lower()
        found = places(depth, self.params.region_rows(memory), *tensors)
        found = found or places(depth, 1, *tensors)
        need = sum(rows * copies for rows, copies in tensors)
        require(
            found is not None,
            f"heads of {self.tokens} tokens need {need} {name} rows, there are {depth}",
        )
        assert found is not None
        return found

    # External memory.

    def place(self, head: CachedHead) -> _Lines:
        """Put a head into external memory."""
        b = self.builder
        newest = np.zeros((2, self.params.rows, self.channels), np.uint16)
        newest[0, self.bank], newest[1, self.bank] = head.key, head.value
        queries = np.zeros((self.sharing, self.params.rows, self.channels), np.uint16)
        queries[:, self.bank] = head.queries
        open_tiles = np.zeros((self.params.group, self.channels), np.uint16)
        open_tiles[: len(head.open_values)] = head.open_values
        window = np.zeros((self.window_tiles * self.params.rows, self.channels), np.uint16)
        window[: len(head.window)] = head.window[: len(window)]
        return _Lines(
            self._place_units(Operand.KEYS, head.keys),
            self._place_units(Operand.VALUES, head.values),
            self._place_tiles(window),
            self._place_tiles(open_tiles),
            self._place_tiles(newest[0]),
            self._place_tiles(newest[1]),
            b.place_halves(queries.reshape(-1, self.channels)),
            b.reserve(self.sharing * b.halves_lines(self.channels)),
        )

    def _place_tiles(self, values: NDArray[np.uint16]) -> int:
        """Token tiles one behind the other, without gaps between them."""
        rows = halves_rows(self.params, values)
        self.builder.align()
        return self.builder.place(Memory.FP16, rows, len(rows))

    def _place_units(self, operand: Operand, units: OperandUnits) -> dict[Memory, int]:
        """High halves with the places of low ones behind them, signs, exponents."""
        rows, p = self.units[operand] * self.across[operand], self.params
        high, signs, exponents = (
            np.concatenate([x, np.zeros((rows - len(x), *x.shape[1:]), x.dtype)])
            for x in (units.high, units.signs, units.exponents)
        )
        lines = {}
        contents = (np.concatenate([high, units.low]), signs, exponents)
        for memory, content in zip((Memory.OPERANDS, *_METADATA), contents, strict=True):
            self.builder.align()
            # Whole lines, so that a changed unit is stored with its neighbours.
            each = max(1, p.line_bits // p.row_bits(memory))
            padding = -len(content) % each
            padded = np.concatenate([content, content[:1].repeat(padding, axis=0)])
            lines[memory] = self.builder._place(to_bytes(p, memory, padded))
        return lines

    # Instructions.

    def write(self, heads: Sequence[_Lines], window: int) -> None:
        """All heads; an item is a head of queries."""
        b = self.builder
        items = [(number, query) for number in range(len(heads)) for query in range(self.sharing)]
        b.configure(tokens=self.tokens)
        self._bring(Operand.KEYS, heads, 0)
        self._bring_beside(heads, 0)
        self._bring(Operand.VALUES, heads, 0)
        for i in range(len(items) + 1):
            new = i < len(items) and items[i][1] == 0
            if i:
                self._raise(i - 1)
            if i < len(items):
                number, query = items[i]
                if new:
                    self._append_key(number, window)
                self._score(i, number, query, heads)
            if i:
                self._convert_powers(i - 1)
            if new and items[i][0]:
                self._keep(heads, items[i][0] - 1)
            if new:
                self._bring(Operand.KEYS, heads, items[i][0] + 1)
                self._bring_beside(heads, items[i][0] + 1)
                self._append_value(items[i][0])
            if i:
                self._weigh(i - 1, *items[i - 1], heads)
            if new:
                self._bring(Operand.VALUES, heads, items[i][0] + 1)
        self._keep(heads, len(heads) - 1)

    def _bring(self, operand: Operand, heads: Sequence[_Lines], number: int) -> None:
        """Keys or values of a head."""
        if number >= len(heads):
            return
        lines = heads[number].keys if operand is Operand.KEYS else heads[number].values
        row, rows = self.rows[operand][number % 2], self.units[operand] * self.across[operand]
        low = self.params.low_slots(operand) * self.across[operand]
        self.builder.load(Memory.OPERANDS, row, rows + low, lines[Memory.OPERANDS])
        for memory in _METADATA:
            self.builder.load(memory, row, rows, lines[memory])

    def _bring_beside(self, heads: Sequence[_Lines], number: int) -> None:
        """The window, the unfinished group of values, and the newest token of a head."""
        if number >= len(heads):
            return
        b, words, row = self.builder, self.words, self.beside[number % 2]
        lines, loops = heads[number], self.params.converter.loops
        b.configure(lanes=range(self.params.rows))
        b.load(Memory.FP16, row, self.window_tiles * words, lines.window)
        b.load(Memory.FP16, self._open_row(number), loops * words, lines.open_values)
        b.load(Memory.FP16, self._key_row(number), words, lines.key)
        b.configure(lanes=[self.bank])
        b.load(Memory.FP16, self._value_row(number), words, lines.value)

    def _open_row(self, number: int) -> int:
        return self.beside[number % 2] + self.window_tiles * self.words

    def _value_row(self, number: int) -> int:
        """The newest token's place in the unfinished group."""
        return self._open_row(number) + self.tile % self.params.converter.loops * self.words

    def _key_row(self, number: int) -> int:
        return self._open_row(number) + self.params.converter.loops * self.words

    def _query_row(self, item: int, number: int) -> int:
        return self._key_row(number) + (1 + item % 2) * self.words

    def _unit_row(self, operand: Operand, number: int, unit: int) -> int:
        return self.rows[operand][number % 2] + unit * self.across[operand]

    def _low_row(self, operand: Operand, number: int, unit: int | None = None) -> int:
        """Low halves of a unit; without one the first of their places."""
        slot = 0 if unit is None else self.params.low_slot(operand, unit)
        first = self._unit_row(operand, number, self.units[operand])
        return first + slot * self.across[operand]

    def _append_key(self, number: int, window: int) -> None:
        b, p = self.builder, self.params
        tiles = -(-window // p.rows)
        for tile in range(tiles):
            b.configure(lanes=range(min(p.rows, window - tile * p.rows)))
            b.emit(
                Opcode.LEARN,
                source=self.beside[number % 2] + tile * self.words,
                elements=self.channels,
                first=int(tile == 0),
                last=int(tile + 1 == tiles),
            )
        unit, part = divmod(self.tile, p.parts)
        row = self._unit_row(Operand.KEYS, number, unit)
        b.configure(lanes=[self.bank])
        b.convert(
            Conversion.KEYS,
            source=self._key_row(number),
            elements=self.channels,
            destination=row,
            low_halves=self._low_row(Operand.KEYS, number, unit),
            metadata=row,
            part=part,
        )
        leaving = self.tokens - 1 - p.local
        left = leaving // p.columns
        if leaving >= p.initial and p.has_low(Operand.KEYS, left, self.tokens):
            # The window is whole token tiles long, so this token has the new one's lane.
            b.emit(
                Opcode.CLEAR,
                low_halves=self._low_row(Operand.KEYS, number, left),
                rows=self.groups,
                part=leaving // p.rows % p.parts,
            )

    def _append_value(self, number: int) -> None:
        p, group = self.params, (self.tokens - 1) // self.params.group
        row = self._unit_row(Operand.VALUES, number, group)
        self.builder.convert(
            Conversion.VALUES,
            source=self._open_row(number),
            elements=self.channels,
            destination=row,
            low_halves=self._low_row(Operand.VALUES, number, group),
            metadata=row,
            tokens=self.tokens - group * p.group,
        )

    def _score(self, item: int, number: int, query: int, heads: Sequence[_Lines]) -> None:
        b, row = self.builder, self._query_row(item, number)
        b.configure(lanes=[self.bank])
        line = heads[number].queries + query * b.halves_lines(self.channels)
        b.load(Memory.FP16, row, self.words, line)
        b.convert(
            Conversion.ACTIVATIONS,
            source=row,
            elements=self.channels,
            destination=self.activations[item % 2],
        )
        keys = self.rows[Operand.KEYS][number % 2]
        b.gemm(
            Operand.KEYS,
            source=self.activations[item % 2],
            operands=keys,
            low_halves=self._low_row(Operand.KEYS, number),
            metadata=keys,
            destination=self.scores[item % 2],
            groups=self.groups,
            tiles=self.units[Operand.KEYS],
            maxima=2 * (item % 2),
        )

    def _raise(self, item: int) -> None:
        row, largest = self.scores[item % 2], 2 * (item % 2)
        self.builder.vector(
            Operation.POWERS,
            row,
            row,
            scalar=largest,
            elements=self.tokens,
            total=largest + 1,
        )

    def _convert_powers(self, item: int) -> None:
        self.builder.convert(
            Conversion.ACTIVATIONS,
            source=self.scores[item % 2],
            elements=self.tokens,
            destination=self.powers[item % 2],
        )

    def _weigh(self, item: int, number: int, query: int, heads: Sequence[_Lines]) -> None:
        """The powers and V; the results are divided by the sum and stored."""
        b, values = self.builder, self.rows[Operand.VALUES][number % 2]
        result = self.scores[item % 2] + self.score_rows
        b.gemm(
            Operand.VALUES,
            source=self.powers[item % 2],
            operands=values,
            low_halves=self._low_row(Operand.VALUES, number),
            metadata=values,
            destination=result,
            groups=self.units[Operand.VALUES],
            tiles=self.across[Operand.VALUES],
        )
        b.normalise(result, self.channels, 2 * (item % 2) + 1)
        line = heads[number].results + query * b.halves_lines(self.channels)
        b.store(Memory.FP16, result, self.words, line)

    def _keep(self, heads: Sequence[_Lines], number: int) -> None:
        """What the newest token has changed in a head's cache."""
        b, p, lines = self.builder, self.params, heads[number]
        for operand, stored in ((Operand.KEYS, lines.keys), (Operand.VALUES, lines.values)):
            unit, across = (self.tokens - 1) // p.unit(operand), self.across[operand]
            slots = [self.units[operand] * across + p.low_slot(operand, unit) * across]
            leaving = (self.tokens - 1 - p.local) // p.columns
            aged = operand is Operand.KEYS and leaving >= p.initial_slots(operand)
            if aged and p.has_low(operand, leaving, self.tokens):
                low = p.low_slot(operand, leaving) * across
                slots.append(self.units[operand] * across + low)
            for memory in (Memory.OPERANDS, *_METADATA):
                each = max(1, p.line_bits // p.row_bits(memory))
                changed = [unit * across, *(slots if memory is Memory.OPERANDS else ())]
                for first in changed:
                    begin = first // each * each
                    end = -(-(first + across) // each) * each
                    row = self.rows[operand][number % 2] + begin
                    line = stored[memory] + p.lines(memory, begin)
                    b.store(memory, row, end - begin, line)
        row = self._value_row(number)
        tile = self.tile % p.converter.loops
        b.store(
            Memory.FP16,
            row,
            self.words,
            lines.open_values + p.lines(Memory.FP16, tile * self.words),
        )
