"""One more token of all heads of a layer, over caches of any length, as one program.

Every sequence of a batch has a cache for each head of keys and values, in the form that
:mod:`tilewright.golden.harmonia_machine.streamed_attention` takes, with the keys in fp16 that
offsets are learned from and the values in fp16 of the group that is not complete. The program
appends the newest token to all of them and leaves its results.

A projection leaves the heads of a token beside each other, in the token's own bank. Loads spread
them over the banks, so that all heads of queries that share a cache meet its keys at once, a head
in each row of the array; results stay where they are, a head in each bank.

Parts of all caches follow each other without a gap. In every step the array takes the keys of a
part and the values of the one two before it; the vector unit raises the scores between them, the
converter makes activations of the powers and, while they are raised, converts what is new, and the
next parts come.
"""

from collections import defaultdict
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
    OPERAND_MEMORIES,
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
from tilewright.golden.params.vector import Operation

__all__ = ["LayerAttention", "layer_attention"]

Write: TypeAlias = Callable[[], None]  # one instruction
# Scalar registers. Two of a kind are those of even and of odd steps: the largest score up to a part
# and of a part alone, and what is scaled with when it is added; a part's sum, and that of all.
_TOPS, _OWN, _SCALES = (0, 1), (2, 3), (4, 5)
_TOTAL, _SUMS = 6, 7


class _Cache(NamedTuple):
    """First lines of what a head of one sequence has in external memory."""

    tensors: dict[Operand, CachedTensor]
    window: int
    open_values: int


class _Tiles(NamedTuple):
    """First lines of the newest tokens of a head, each in its sequence's bank."""

    key: int
    value: int
    queries: int


class _Item(NamedTuple):
    """Heads of queries of a sequence that meet a cache at once."""

    tokens: int  # with the newest
    learnt: int  # tokens that offsets are learned from
    source: int  # the bank in which the projections have the newest token
    cache: _Cache
    key: int  # lines
    value: int
    queries: tuple[int, ...]
    results: int
    appends: bool  # the newest token to the cache


class _Step(NamedTuple):
    """A part of an item's cache."""

    item: int
    part: int
    first: bool
    last: bool


@dataclass(frozen=True)
class LayerAttention:
    """A program, what it starts with and where its results are."""

    builder: Builder
    caches: tuple[tuple[dict[Operand, CachedTensor], ...], ...]  # by head and sequence
    results: tuple[tuple[tuple[int, ...], ...], ...]  # lines, by head, sequence and row of queries
    sharing: int
    channels: int

    def attended(self, memory: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """fp16 patterns (heads of keys and values, sequences, heads that share them, channels)."""
        b, rows = self.builder, self.builder.params.rows

        def one(lines: Sequence[int]) -> NDArray[np.uint16]:
            found = [b.halves_results(memory, line, rows, self.channels) for line in lines]
            return np.concatenate(found)[: self.sharing]

        return np.stack([np.stack([one(lines) for lines in head]) for head in self.results])


def layer_attention(
    params: HarmoniaParams,
    tokens: Sequence[int],
    heads: Sequence[Sequence[CachedHead]],
    *,
    part: int = PART,
    checked: bool = True,
) -> LayerAttention:
    """Sequences have ``tokens`` tokens each, the newest among them; ``heads`` are by sequence too.

    ``part`` tokens of a cache come at a time, a multiple of the group. Whether the program's result
    depends on timing is asked where it is ``checked``.
    """
    p, b = params, Builder(params)
    sharing, channels = heads[0][0].queries.shape
    require(min(tokens) >= 2, f"tokens must be at least 2, not {min(tokens)!r}")
    require(
        part > 0 and part % p.group == 0,
        f"part must be a multiple of {p.group}, the group, not {part!r}",
    )
    require(
        channels % p.group == 0 and channels <= p.channels,
        f"channels must be a multiple of {p.group}, at most {p.channels}, not {channels!r}",
    )
    memory = _Placed(b, tokens, sharing, channels, part)
    items, caches, results = list[_Item](), [], []
    for head in heads:
        placed = [memory.cache(n, one) for n, one in zip(tokens, head, strict=True)]
        tiles = memory.tiles(head)
        found = [memory.items(k, placed[k], tiles, len(one.window)) for k, one in enumerate(head)]
        items += [item for several in found for item in several]
        caches.append(tuple(cache.tensors for cache in placed))
        results.append(tuple(tuple(item.results for item in several) for several in found))
    _Program(b, items, channels, part).write()
    if checked:
        b.halt()
    else:
        b.emit(Opcode.HALT)
    return LayerAttention(b, tuple(caches), tuple(results), sharing, channels)


@dataclass(frozen=True)
class _Placed:
    """Puts what a program starts with into external memory."""

    builder: Builder
    tokens: Sequence[int]
    sharing: int
    channels: int
    part: int

    def cache(self, tokens: int, head: CachedHead) -> _Cache:
        """A head of a sequence of so many tokens, which has those before the newest."""
        p = self.builder.params
        window = np.zeros((max(1, -(-len(head.window) // p.rows)) * p.rows, self.channels), "u2")
        window[: len(head.window)] = head.window
        opened = np.zeros((p.group, self.channels), np.uint16)
        opened[: len(head.open_values)] = head.open_values
        tensors = {
            operand: self._tensor(tokens, operand, units)
            for operand, units in ((Operand.KEYS, head.keys), (Operand.VALUES, head.values))
        }
        return _Cache(tensors, self._halves(window), self._halves(opened))

    def tiles(self, heads: Sequence[CachedHead]) -> _Tiles:
        """The newest tokens of all sequences, as projections leave them."""
        rows = self.builder.params.rows
        count = -(-len(heads) // rows) * rows
        newest = np.zeros((2 + self.sharing, count, self.channels), np.uint16)
        for k, head in enumerate(heads):
            newest[0, k], newest[1, k] = head.key, head.value
            newest[2:, k] = head.queries
        key, value = (self.builder.place_halves(tile) for tile in newest[:2])
        return _Tiles(key, value, self.builder.place_halves(newest[2:].reshape(-1, self.channels)))

    def items(self, sequence: int, cache: _Cache, tiles: _Tiles, learnt: int) -> list[_Item]:
        """As many heads of queries at once as the array has rows."""
        b, rows = self.builder, self.builder.params.rows
        lines = b.halves_lines(self.channels)
        count = -(-len(self.tokens) // rows)  # token tiles of a head
        tile, source = divmod(sequence, rows)
        queries = [tiles.queries + (q * count + tile) * lines for q in range(self.sharing)]
        return [
            _Item(
                self.tokens[sequence],
                learnt,
                source,
                cache,
                tiles.key + tile * lines,
                tiles.value + tile * lines,
                tuple(queries[k : k + rows]),
                b.reserve(lines),
                k == 0,
            )
            for k in range(0, self.sharing, rows)
        ]

    def _tensor(self, tokens: int, operand: Operand, units: OperandUnits) -> CachedTensor:
        """With room for the newest token's unit, and for whole lines of the last part."""
        p, b = self.builder.params, self.builder
        keys = operand is Operand.KEYS
        across = groups_of(p, self.channels) if keys else tiles_of(p, self.channels)
        whole = _whole_rows(p, -(-tokens // p.unit(operand)) * across)

        def padded(x: NDArray) -> NDArray:
            return np.concatenate([x, np.zeros((whole - len(x), *x.shape[1:]), x.dtype)])

        high, signs, exponents = map(padded, (units.high, units.signs, units.exponents))
        content = OperandUnits(high, units.low, signs, exponents)
        return CachedTensor(b, operand, across, self.part, content)

    def _halves(self, values: NDArray[np.uint16]) -> int:
        rows = halves_rows(self.builder.params, values)
        self.builder.align()
        return self.builder.place(Memory.FP16, rows, len(rows))


def _line_rows(params: HarmoniaParams) -> int:
    """Rows that fill lines of each of the operand memories."""
    return max(max(1, params.line_bits // params.row_bits(memory)) for memory in OPERAND_MEMORIES)


def _whole_rows(params: HarmoniaParams, rows: int) -> int:
    """``rows`` and those behind them up to the end of a line, whatever the memory."""
    each = _line_rows(params)
    return -(-rows // each) * each


class _Program:
    """Writes the instructions."""

    def __init__(self, builder: Builder, items: Sequence[_Item], channels: int, part: int):
        p = builder.params
        self.builder, self.params, self.items = builder, p, items
        self.channels, self.part = channels, part
        self.words, self.groups = words_of(p, channels), groups_of(p, channels)
        self.steps = list[_Step]()
        self.begins = list[int]()  # the first step of every item
        for number, item in enumerate(items):
            parts = -(-item.tokens // part)
            self.begins.append(len(self.steps))
            self.steps += [_Step(number, k, k == 0, k == parts - 1) for k in range(parts)]
        window = max(1, -(-max(item.learnt for item in items) // p.rows))
        tensors = items[0].cache.tensors
        score_rows = tiles_of(p, part) * p.tile_words
        scores = score_rows + p.converter.loops * self.words
        operands = [(tensor.place_rows, 2) for tensor in tensors.values()]
        found = self._rows(Memory.OPERANDS, *operands)
        self.rows = dict(zip(tensors, found, strict=True))
        beside = (4 + window) * self.words
        (first,), self.scores = self._rows(Memory.FP16, (beside, 1), (scores, 3))
        self.score_rows = score_rows
        activations = (self.groups, 2), (groups_of(p, part), 2)
        self.queries, self.powers = self._rows(Memory.MANTISSAS, *activations)
        self.query_row, self.sums_row, self.result_row, self.key_row, self.window_row = (
            first + k * self.words for k in range(5)
        )
        # Whether a place of keys or values may have low halves where the initial window has them.
        self.dirty = {operand: [True, True] for operand in tensors}
        # Loads and stores of what is new, and what offsets are learned from, by step.
        self.loads, self.stores, self.learns = (defaultdict[int, list[Write]](list) for _ in "123")

    def _rows(self, memory: Memory, *tensors: tuple[int, int]) -> list[list[int]]:
        """In regions of their own, or behind each other where these do not suffice."""
        depth, name = self.params.depth(memory), memory.name.lower()
        found = places(depth, self.params.region_rows(memory), *tensors)
        found = found or places(depth, 1, *tensors)
        need = sum(rows * copies for rows, copies in tensors)
        require(
            found is not None,
            f"parts of {self.part} tokens need {need} {name} rows, there are {depth}",
        )
        assert found is not None
        return found

    def write(self) -> None:
        self._plan()
        for step in range(-2, len(self.steps) + 3):  # results follow three steps behind
            self._step(step)

    def _step(self, step: int) -> None:
        """The array has the keys of this step, and values of the one two before.

        Units take instructions in the order of the program, and one that waits for its unit holds
        up those behind it. So what is new is converted while scores are raised, and moves stand
        behind the conversion of powers, where the array is busy for longest.
        """
        self._score(step)
        self._add_results(step - 3)
        if self._is(step - 2) and self.steps[step - 2].first:
            self.builder.scalar_vector(Operation.COPY, _SUMS, _TOTAL)
        self._raise(step - 1)
        for learn in self.learns[step]:
            learn()
        self._convert_query(step + 1)
        self._bring(Operand.KEYS, step + 1)
        self._append_key(step + 1)
        self._convert_powers(step - 1)
        _write(self.loads[step], self.stores[step])
        self._add_sums(step - 1)
        self._weigh(step - 2)
        self._bring(Operand.VALUES, step - 1)
        self._append_value(step - 1)

    def _is(self, step: int) -> bool:
        return 0 <= step < len(self.steps)

    def _item(self, step: int) -> _Item:
        return self.items[self.steps[step].item]

    def _bank(self, item: _Item) -> int:
        """The bank that the newest token has in its cache."""
        return (item.tokens - 1) % self.params.rows

    def _own_lanes(self, item: _Item) -> None:
        self.builder.configure(lanes=range(len(item.queries)))

    # What is new: loads, and conversions beside the powers.

    def _plan(self) -> None:
        """Which steps load and learn what; each load is behind the last use of its rows."""
        p = self.params
        for number, item in enumerate(self.items):
            begin = self.begins[number]
            end = begin + -(-item.tokens // self.part)
            free = self.begins[number - 1] - 1 if number else begin - 2  # queries were converted
            for k, load in enumerate(self._query_loads(item)):
                self.loads[max(free, begin - 3 - k // 2)].append(load)
            if not item.appends:
                continue
            tiles = -(-item.learnt // p.rows)
            slots = self._learning_steps(begin, end, tiles)
            self.loads[min(slots.start - 1, begin)] += self._key_loads(item, tiles)
            self.loads[end - 2] += self._value_loads(item, end - 1)
            for tile in range(tiles):
                learn = partial(self._learn, item, tile, tiles)
                self.learns[slots[tile * len(slots) // tiles]].append(learn)

    def _learning_steps(self, begin: int, end: int, tiles: int) -> range:
        """Steps that learn offsets of an item, between the key before it and its own.

        Best are those in which the converter has neither that key nor values of the item before.
        """
        if end - begin - 4 >= tiles:
            return range(begin + 2, begin + 2 + tiles)
        return range(begin, end - 1) if end - begin > 1 else range(begin - 1, begin)

    def _query_loads(self, item: _Item) -> list[Write]:
        load = partial(self._spread, row=self.query_row, source=item.source)
        return [partial(load, line, bank=bank) for bank, line in enumerate(item.queries)]

    def _key_loads(self, item: _Item, tiles: int) -> list[Write]:
        load = partial(self._spread, item.key, row=self.key_row, source=item.source)
        window = partial(self._whole, self.window_row, tiles * self.words, item.cache.window)
        return [*([window] if tiles else []), partial(load, bank=self._bank(item))]

    def _value_loads(self, item: _Item, last: int) -> list[Write]:
        """The group that is not complete, and in it the newest, for the item's last step."""
        rows = self.params.converter.loops * self.words
        row = self._value_row(item, last)
        load = partial(self._spread, item.value, row=row, source=item.source)
        opened = partial(self._whole, self._open_row(last), rows, item.cache.open_values)
        return [opened, partial(load, bank=self._bank(item))]

    def _open_row(self, step: int) -> int:
        """Values of the group that is not complete, beside scores that an item's last step has."""
        return self.scores[step % 3] + self.score_rows

    def _value_row(self, item: _Item, step: int) -> int:
        """The token tile of the newest value among them."""
        tile = (item.tokens - 1) // self.params.rows % self.params.converter.loops
        return self._open_row(step) + tile * self.words

    def _whole(self, row: int, rows: int, line: int) -> None:
        self.builder.configure(lanes=range(self.params.rows))
        self.builder.load(Memory.FP16, row, rows, line)

    def _spread(self, line: int, *, row: int, source: int, bank: int) -> None:
        """One head of a token tile's bank ``source`` to another bank."""
        self.builder.configure(lanes=[bank])
        self.builder.load(Memory.FP16, row, self.words, line, bank=source)

    def _learn(self, item: _Item, tile: int, tiles: int) -> None:
        b, rows = self.builder, self.params.rows
        b.configure(lanes=range(min(rows, item.learnt - tile * rows)))
        b.emit(
            Opcode.LEARN,
            source=self.window_row + tile * self.words,
            elements=self.channels,
            first=int(tile == 0),
            last=int(tile + 1 == tiles),
        )

    def _convert_query(self, step: int) -> None:
        """With an item's first step."""
        if self._is(step) and self.steps[step].first:
            self.builder.convert(
                Conversion.ACTIVATIONS,
                source=self.query_row,
                elements=self.channels,
                destination=self.queries[self.steps[step].item % 2],
            )

    def _append_key(self, step: int) -> None:
        """The newest key to the last part, and zero to a low half that leaves the window."""
        if not self._is(step) or not self._item(step).appends:
            return
        b, p, item, part = self.builder, self.params, self._item(step), self.steps[step].part
        tensor = item.cache.tensors[Operand.KEYS]
        unit, left = (item.tokens - 1) // p.columns, self._left(item.tokens)
        changed = []
        if self.steps[step].last:
            b.configure(lanes=[self._bank(item)])
            row = self._unit_row(tensor, step, unit)
            b.convert(
                Conversion.KEYS,
                source=self.key_row,
                elements=self.channels,
                destination=row,
                low_halves=self._low_row(tensor, step, unit),
                metadata=row,
                part=(item.tokens - 1) // p.rows % p.parts,
            )
            changed = [unit]
            self.stores[step - 1] += self._unit_stores(tensor, step, unit)
        if left is not None and left // tensor.part_units == part:
            # The window is whole token tiles long, so this token has the new one's lane.
            b.configure(lanes=[self._bank(item)])
            b.emit(
                Opcode.CLEAR,
                low_halves=self._low_row(tensor, step, left),
                rows=tensor.across,
                part=(item.tokens - 1 - p.local) // p.rows % p.parts,
            )
            changed += [left] if left != unit else []
        self.stores[step - 1] += [self._low_store(tensor, step, low) for low in changed]

    def _left(self, tokens: int) -> int | None:
        """The tile of keys that one leaves the window from which others have not left yet."""
        p, leaving = self.params, tokens - 1 - self.params.local
        unit = leaving // p.columns
        aged = leaving >= p.initial and p.has_low(Operand.KEYS, unit, tokens)
        return unit if aged else None

    def _append_value(self, step: int) -> None:
        """The group that is not complete, again, with the newest value."""
        if not self._is(step) or not self.steps[step].last or not self._item(step).appends:
            return
        p, item = self.params, self._item(step)
        tensor, group = item.cache.tensors[Operand.VALUES], (item.tokens - 1) // p.group
        row = self._unit_row(tensor, step, group)
        self.builder.convert(
            Conversion.VALUES,
            source=self._open_row(step),
            elements=self.channels,
            destination=row,
            low_halves=self._low_row(tensor, step, group),
            metadata=row,
            tokens=item.tokens - group * p.group,
        )
        first = self._value_row(item, step)
        line = item.cache.open_values + p.lines(Memory.FP16, first - self._open_row(step))
        store = partial(self.builder.store, Memory.FP16, first, self.words, line)
        self.stores[step + 2].append(store)
        self.stores[step + 3] += self._unit_stores(tensor, step, group)
        self.stores[step + 3].append(self._low_store(tensor, step, group))

    # Where a part of a cache lies on chip, and units of it that have changed.

    def _place(self, operand: Operand, step: int) -> int:
        return self.rows[operand][step % 2]

    def _unit_row(self, tensor: CachedTensor, step: int, unit: int) -> int:
        """Of a unit of the cache, in the part that this step has."""
        within = unit - self.steps[step].part * tensor.part_units
        return self._place(tensor.operand, step) + within * tensor.across

    def _low_row(self, tensor: CachedTensor, step: int, unit: int) -> int:
        slot = self.params.low_slot(
            tensor.operand, unit - self.steps[step].part * tensor.part_units
        )
        low = self._place(tensor.operand, step) + tensor.part_rows
        return low + slot * tensor.across

    def _unit_stores(self, tensor: CachedTensor, step: int, unit: int) -> Iterator[Write]:
        """High halves, signs and exponents, in whole lines."""
        p, part, each = self.params, self.steps[step].part, _line_rows(self.params)
        first = (unit - part * tensor.part_units) * tensor.across
        begin, end = first // each * each, _whole_rows(p, first + tensor.across)
        end = min(end, tensor.part_rows)
        row = self._place(tensor.operand, step) + begin
        for memory in OPERAND_MEMORIES:
            line = tensor.lines[memory][part] + p.lines(memory, begin)
            yield partial(self.builder.store, memory, row, end - begin, line)

    def _low_store(self, tensor: CachedTensor, step: int, unit: int) -> Write:
        p, across = self.params, tensor.across
        slot = p.low_slot(tensor.operand, unit) * p.lines(Memory.OPERANDS, across)
        row, line = self._low_row(tensor, step, unit), tensor.low_lines + slot
        return partial(self.builder.store, Memory.OPERANDS, row, across, line)

    def _bring(self, operand: Operand, step: int) -> None:
        """A part of the keys or values, and its low halves where it has any."""
        if not self._is(step):
            return
        b, p, item, part = self.builder, self.params, self._item(step), self.steps[step].part
        tensor, place = item.cache.tensors[operand], self._place(operand, step)
        units = -(-self._size(step) // tensor.unit)
        rows = _whole_rows(p, units * tensor.across)  # those that are stored with the newest, too
        for memory in OPERAND_MEMORIES:
            b.load(memory, place, min(rows, tensor.part_rows), tensor.lines[memory][part])
        low_row, dirty = place + tensor.part_rows, self.dirty[operand]
        if part and dirty[step % 2]:
            b.configure(lanes=range(p.rows))
            tensor.clear_low(low_row)
            dirty[step % 2] = False
        first = part * tensor.part_units
        low = [unit for unit in range(units) if p.has_low(operand, first + unit, item.tokens)]
        dirty[step % 2] |= any(unit < p.initial_slots(operand) for unit in low)
        each = p.lines(Memory.OPERANDS, tensor.across)
        moves = [
            (
                low_row + p.low_slot(operand, unit) * tensor.across,
                tensor.across,
                tensor.low_lines + p.low_slot(operand, first + unit) * each,
            )
            for unit in low
        ]
        for move in self._joined(moves):
            b.load(Memory.OPERANDS, *move)

    def _joined(self, moves: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
        """Row, rows and line of loads, those that follow each other on both sides as one."""
        p, found = self.params, list[tuple[int, int, int]]()
        for row, rows, line in moves:
            if found and rows * p.row_bits(Memory.OPERANDS) % p.line_bits == 0:
                begin, count, start = found[-1]
                if (begin + count, start + p.lines(Memory.OPERANDS, count)) == (row, line):
                    found[-1] = begin, count + rows, start
                    continue
            found.append((row, rows, line))
        return iter(found)

    # Attention.

    def _size(self, step: int) -> int:
        """Tokens of a step's part."""
        return min(self.part, self._item(step).tokens - self.steps[step].part * self.part)

    def _gemm(
        self,
        operand: Operand,
        step: int,
        *,
        source: int,
        destination: int,
        maxima: int | None,
    ) -> None:
        item, place = self._item(step), self._place(operand, step)
        tensor = item.cache.tensors[operand]
        units = -(-self._size(step) // tensor.unit)
        of_keys = operand is Operand.KEYS
        # Windows are counted from the part's first token on.
        tokens = item.tokens - self.steps[step].part * self.part
        self.builder.configure(lanes=range(len(item.queries)), tokens=tokens)
        self.builder.gemm(
            operand,
            source=source,
            operands=place,
            low_halves=place + tensor.part_rows,
            metadata=place,
            destination=destination,
            groups=tensor.across if of_keys else units,
            tiles=units if of_keys else tensor.across,
            maxima=maxima,
        )

    def _score(self, step: int) -> None:
        if self._is(step):
            self._gemm(
                Operand.KEYS,
                step,
                source=self.queries[self.steps[step].item % 2],
                destination=self.scores[step % 3],
                maxima=_OWN[step % 2],
            )

    def _raise(self, step: int) -> None:
        """Powers of a part's scores, and their sum."""
        if not self._is(step):
            return
        b, top, own, row = self.builder, _TOPS[step % 2], _OWN[step % 2], self.scores[step % 3]
        self._own_lanes(self._item(step))
        if self.steps[step].first:
            b.scalar_vector(Operation.COPY, top, own)
        else:
            b.scalar_vector(Operation.MAXIMUM, top, _TOPS[1 - step % 2], own)
        b.vector(Operation.POWERS, row, row, scalar=top, elements=self._size(step), total=_TOTAL)

    def _convert_powers(self, step: int) -> None:
        if self._is(step):
            self.builder.convert(
                Conversion.ACTIVATIONS,
                source=self.scores[step % 3],
                elements=self._size(step),
                destination=self.powers[step % 2],
            )

    def _add_sums(self, step: int) -> None:
        """Scale the sum of the parts before this one, and add its own."""
        if not self._is(step) or self.steps[step].first:
            return
        b, scale, top = self.builder, _SCALES[step % 2], _TOPS[step % 2]
        b.scalar_vector(Operation.SUBTRACT, scale, _TOPS[1 - step % 2], top)
        b.scalar_vector(Operation.EXPONENTIAL, scale, scale)
        b.scalar_vector(Operation.MULTIPLY, _SUMS, _SUMS, scale)
        b.scalar_vector(Operation.ADD, _SUMS, _SUMS, _TOTAL)

    def _weigh(self, step: int) -> None:
        """The powers and V."""
        if self._is(step):
            self._gemm(
                Operand.VALUES,
                step,
                source=self.powers[step % 2],
                destination=self.sums_row if self.steps[step].first else self.result_row,
                maxima=None,
            )

    def _add_results(self, step: int) -> None:
        """Scale the results of the parts before this one, and add its own; behind all, divide."""
        if not self._is(step):
            return
        b, item, row = self.builder, self._item(step), self.sums_row
        self._own_lanes(item)
        if not self.steps[step].first:
            scale = _SCALES[step % 2]
            b.vector(Operation.MULTIPLY, row, row, scalar=scale, elements=self.channels)
            b.work(Operation.ADD, row, row, self.result_row, elements=self.channels)
        if self.steps[step].last:
            b.normalise(row, self.channels, _SUMS)
            b.store(Memory.FP16, row, self.words, item.results)


def _write(some: Sequence[Write], others: Sequence[Write]) -> None:
    """Write moves of two kinds in turn."""
    for pair in zip_longest(some, others):
        for write in pair:
            if write is not None:
                write()
