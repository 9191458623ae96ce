"""The newest token's keys and values into caches of any length, which lie in external memory.

A cache has the form that :mod:`tilewright.golden.harmonia_machine.streamed_attention` takes. Of
each head the units that the token belongs to come, with all places of low halves, the keys in fp16
that offsets are learned from, and the values in fp16 of the group that is not complete. They are
converted and leave again; the next head's come meanwhile.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.harmonia_machine.builder import Builder
from tilewright.golden.harmonia_machine.decode_attention import CachedHead
from tilewright.golden.harmonia_machine.isa import groups_of, tiles_of, words_of
from tilewright.golden.harmonia_machine.layout import halves_rows
from tilewright.golden.harmonia_machine.streamed_attention import (
    PART,
    CachedTensor,
    OperandUnits,
)
from tilewright.golden.machine.tiling import places
from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia_machine import (
    Conversion,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
)

__all__ = ["AppendedToken", "append_token"]

Write: TypeAlias = Callable[[], None]  # one instruction
_MEMORIES = (Memory.OPERANDS, Memory.OPERAND_SIGNS, Memory.OPERAND_EXPONENTS)
_PLACES = 3  # on chip: of the head that comes, is converted, leaves


@dataclass(frozen=True)
class AppendedToken:
    """A program, what it starts with and where the caches are, head by head."""

    builder: Builder
    caches: tuple[dict[Operand, CachedTensor], ...]


class _Span(NamedTuple):
    """Rows of a part that move: those of a unit, in whole lines of every memory."""

    part: int
    first: int  # row of the unit, in the part
    begin: int
    end: int


class _Lines(NamedTuple):
    """First lines of what a head has in external memory."""

    tensors: dict[Operand, CachedTensor]
    window: int
    open_values: int
    key: int
    value: int


def append_token(
    params: HarmoniaParams,
    tokens: int,
    heads: Sequence[CachedHead],
    *,
    part: int = PART,
    checked: bool = True,
) -> AppendedToken:
    """Heads of one sequence, which has ``tokens`` tokens with the newest; they have those before.

    Whether the program's result depends on timing is asked where it is ``checked``.
    """
    require(tokens >= 2, f"tokens must be at least 2, not {tokens!r}")
    channels = len(heads[0].key)
    b = Builder(params)
    program = _Program(b, tokens, channels, len(heads[0].window), part)
    lines = [program.place(head) for head in heads]
    program.write(lines)
    if checked:
        b.halt()
    else:
        b.emit(Opcode.HALT)
    return AppendedToken(b, tuple(head.tensors for head in lines))


class _Program:
    """Writes the instructions."""

    def __init__(self, builder: Builder, tokens: int, channels: int, window: int, part: int):
        p = builder.params
        self.builder, self.params = builder, p
        self.tokens, self.channels, self.window, self.part = tokens, channels, window, part
        self.tile, self.bank = divmod(tokens - 1, p.rows)
        self.words = words_of(p, channels)
        self.across = {
            Operand.KEYS: groups_of(p, channels),
            Operand.VALUES: tiles_of(p, channels),
        }
        self.window_tiles = -(-window // p.rows)
        self.spans = {operand: self._span(operand) for operand in self.across}
        sizes = [s.end - s.begin + self._low_rows(o) for o, s in self.spans.items()]
        halves = (self.window_tiles + 1 + p.converter.loops) * self.words
        self.operand_rows = self._places(Memory.OPERANDS, sum(sizes))
        self.value_offset = sizes[0]  # values lie behind keys
        self.half_rows = self._places(Memory.FP16, halves)

    def _span(self, operand: Operand) -> _Span:
        p, across = self.params, self.across[operand]
        size = self.part // p.unit(operand)
        part, unit = divmod((self.tokens - 1) // p.unit(operand), size)
        each = max(max(1, p.line_bits // p.row_bits(memory)) for memory in _MEMORIES)
        first = unit * across
        return _Span(part, first, first // each * each, -(-(first + across) // each) * each)

    def _low_rows(self, operand: Operand) -> int:
        return self.params.low_slots(operand) * self.across[operand]

    def _places(self, memory: Memory, rows: int) -> list[int]:
        """In regions of their own, or behind each other where these do not suffice."""
        depth = self.params.depth(memory)
        found = places(depth, self.params.region_rows(memory), (rows, _PLACES))
        found = found or places(depth, 1, (rows, _PLACES))
        need, name = _PLACES * rows, memory.name.lower()
        require(found is not None, f"a token needs {need} {name} rows, there are {depth}")
        assert found is not None
        return found[0]

    # External memory.

    def place(self, head: CachedHead) -> _Lines:
        """Put what a head brings into external memory."""
        p = self.params
        window = np.zeros((max(1, self.window_tiles) * p.rows, self.channels), np.uint16)
        window[: len(head.window)] = head.window
        opened = np.zeros((p.group, self.channels), np.uint16)
        opened[: len(head.open_values)] = head.open_values
        newest = np.zeros((2, p.rows, self.channels), np.uint16)
        newest[:, self.bank] = head.key, head.value
        tensors = {
            operand: self._tensor(operand, units)
            for operand, units in ((Operand.KEYS, head.keys), (Operand.VALUES, head.values))
        }
        rows = (window, opened, *newest)
        return _Lines(tensors, *(self._place_halves(x) for x in rows))

    def _tensor(self, operand: Operand, units: OperandUnits) -> CachedTensor:
        """With room for the newest token's unit, and for whole lines of every part."""
        p, across = self.params, self.across[operand]
        rows = -(-self.tokens // p.unit(operand)) * across
        rows = max(
            rows,
            self.spans[operand].part * self.part // p.unit(operand) * across
            + self.spans[operand].end,
        )

        def padded(x: NDArray) -> NDArray:
            return np.concatenate([x, np.zeros((rows - len(x), *x.shape[1:]), x.dtype)])

        whole = OperandUnits(
            padded(units.high), units.low, padded(units.signs), padded(units.exponents)
        )
        return CachedTensor(self.builder, operand, across, self.part, whole)

    def _place_halves(self, values: NDArray[np.uint16]) -> int:
        rows = halves_rows(self.params, values)
        self.builder.align()
        return self.builder.place(Memory.FP16, rows, len(rows))

    # Instructions.

    def write(self, heads: Sequence[_Lines]) -> None:
        """Each head's conversions, beside stores of the one before and loads of the next."""
        for move in self._loads(0, heads[0]):
            move()
        for k in range(len(heads)):
            stores = self._stores(k - 1, heads[k - 1]) if k else []
            loads = self._loads(k + 1, heads[k + 1]) if k + 1 < len(heads) else []
            pairs = zip_longest(stores, loads)
            moves = [move for pair in pairs for move in pair if move is not None]
            work = self._conversions(k)
            done = 0
            for number, convert in enumerate(work, 1):
                convert()
                share = len(moves) * number // len(work)
                for move in moves[done:share]:
                    move()
                done = share
        for move in self._stores(len(heads) - 1, heads[-1]):
            move()

    def _window_row(self, number: int) -> int:
        return self.half_rows[number % _PLACES]

    def _key_row(self, number: int) -> int:
        return self._window_row(number) + self.window_tiles * self.words

    def _open_row(self, number: int) -> int:
        return self._key_row(number) + self.words

    def _value_row(self, number: int) -> int:
        """The newest token's tile of the open group."""
        return self._open_row(number) + self.tile % self.params.converter.loops * self.words

    def _base(self, operand: Operand, number: int) -> int:
        offset = 0 if operand is Operand.KEYS else self.value_offset
        return self.operand_rows[number % _PLACES] + offset

    def _unit_row(self, operand: Operand, number: int) -> int:
        span = self.spans[operand]
        return self._base(operand, number) + span.first - span.begin

    def _low_row(self, operand: Operand, number: int, unit: int) -> int:
        span, slot = self.spans[operand], self.params.low_slot(operand, unit)
        base = self._base(operand, number) + span.end - span.begin
        return base + slot * self.across[operand]

    def _load_halves(self, row: int, rows: int, line: int, banks: Sequence[int]) -> None:
        self.builder.configure(lanes=banks)
        self.builder.load(Memory.FP16, row, rows, line)

    def _loads(self, number: int, head: _Lines) -> list[Write]:
        p, every = self.params, range(self.params.rows)
        load, halves = self.builder.load, partial(self._load_halves, banks=every)
        loops = p.converter.loops * self.words
        moves: list[Write] = []
        if self.window_tiles:
            rows = self.window_tiles * self.words
            moves.append(partial(halves, self._window_row(number), rows, head.window))
        moves.append(partial(halves, self._key_row(number), self.words, head.key))
        moves.extend(self._tensor_moves(load, number, head))
        moves.append(partial(halves, self._open_row(number), loops, head.open_values))
        own = partial(self._load_halves, banks=[self.bank])
        moves.append(partial(own, self._value_row(number), self.words, head.value))
        return moves

    def _low_moves(
        self, move: Callable[..., None], tensor: CachedTensor, number: int
    ) -> list[Write]:
        """Low halves that the token changes: of its unit, and of the one it takes keys from."""
        p, operand, across = self.params, tensor.operand, tensor.across
        units = [(self.tokens - 1) // tensor.unit]
        left = self._left() if operand is Operand.KEYS else None
        if left is not None and p.low_slot(operand, left) != p.low_slot(operand, units[0]):
            units.append(left)
        each = p.lines(Memory.OPERANDS, across)
        return [
            partial(
                move,
                Memory.OPERANDS,
                self._low_row(operand, number, unit),
                across,
                tensor.low_lines + p.low_slot(operand, unit) * each,
            )
            for unit in units
        ]

    def _conversions(self, number: int) -> list[Write]:
        """Offsets are learned from the window; then the key and the open group of values."""
        learns = [partial(self._learn, number, tile) for tile in range(self.window_tiles)]
        return [*learns, partial(self._key, number), partial(self._values, number)]

    def _learn(self, number: int, tile: int) -> None:
        b, rows = self.builder, self.params.rows
        b.configure(lanes=range(min(rows, self.window - tile * rows)))
        b.emit(
            Opcode.LEARN,
            source=self._window_row(number) + tile * self.words,
            elements=self.channels,
            first=int(tile == 0),
            last=int(tile + 1 == self.window_tiles),
        )

    def _key(self, number: int) -> None:
        b, p = self.builder, self.params
        row, unit = self._unit_row(Operand.KEYS, number), self.tile // p.parts
        b.configure(lanes=[self.bank])
        b.convert(
            Conversion.KEYS,
            source=self._key_row(number),
            elements=self.channels,
            destination=row,
            low_halves=self._low_row(Operand.KEYS, number, unit),
            metadata=row,
            part=self.tile % p.parts,
        )
        left = self._left()
        if left is not None:
            b.emit(
                Opcode.CLEAR,
                low_halves=self._low_row(Operand.KEYS, number, left),
                rows=self.across[Operand.KEYS],
                part=(self.tokens - 1 - p.local) // p.rows % p.parts,
            )

    def _left(self) -> int | None:
        """The tile of keys that one leaves the window from which others have not left yet."""
        p, leaving = self.params, self.tokens - 1 - self.params.local
        unit = leaving // p.columns
        aged = leaving >= p.initial and p.has_low(Operand.KEYS, unit, self.tokens)
        return unit if aged else None

    def _values(self, number: int) -> None:
        p, row = self.params, self._unit_row(Operand.VALUES, number)
        group = (self.tokens - 1) // p.group
        self.builder.convert(
            Conversion.VALUES,
            source=self._open_row(number),
            elements=self.channels,
            destination=row,
            low_halves=self._low_row(Operand.VALUES, number, group),
            metadata=row,
            tokens=self.tokens - group * p.group,
        )

    def _tensor_moves(
        self, move: Callable[..., None], number: int, head: _Lines
    ) -> Iterator[Write]:
        """Loads or stores, as ``move`` is, of the newest token's parts of the keys and values."""
        p = self.params
        for operand, tensor in head.tensors.items():
            base, span = self._base(operand, number), self.spans[operand]
            size = span.end - span.begin
            for memory in _MEMORIES:
                line = tensor.lines[memory][span.part] + p.lines(memory, span.begin)
                yield partial(move, memory, base, size, line)
            yield from self._low_moves(move, tensor, number)

    def _stores(self, number: int, head: _Lines) -> list[Write]:
        """What the newest token has changed."""
        p, store = self.params, self.builder.store
        moves = list(self._tensor_moves(store, number, head))
        line = head.open_values + p.lines(Memory.FP16, self.tile % p.converter.loops * self.words)
        moves.append(partial(store, Memory.FP16, self._value_row(number), self.words, line))
        return moves
