"""One more token of many heads, each with a cache of its own, as one program.

Heads are those of a layer, of one sequence or of several. The cache of each lies in external
memory: keys and values in the form of the operand memories, with the places of their low halves
behind them, the keys in fp16 that offsets are learned from, and the values in fp16 of the group
that is not complete. The program appends the token to all of them and leaves its results.

Token t of a sequence lies in bank t mod ``rows``, and so do its query, key and value. Sequences
that are a token apart have banks of their own in one token tile: the array takes them one by one,
since each meets its own keys, but all of their scores are raised and converted at once.

The units work on different heads: while the array has the scores of one, the vector unit and the
converter work on the one before, the array then weighs values of an earlier one, and the caches of
the next come.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.harmonia.cache import KvCache
from tilewright.golden.harmonia_machine.builder import Builder
from tilewright.golden.harmonia_machine.isa import groups_of, tiles_of, words_of
from tilewright.golden.harmonia_machine.layout import halves_rows
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

Write: TypeAlias = Callable[[], None]  # one instruction
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


class _Cache(NamedTuple):
    """First lines of what a head of one sequence has in external memory."""

    keys: dict[Memory, int]
    values: dict[Memory, int]
    window: int
    open_values: int


class _Tiles(NamedTuple):
    """First lines of what a head has for all sequences: their newest tokens in their banks."""

    key: int
    value: int
    queries: int
    results: int


class _Item(NamedTuple):
    """A head of queries of a sequence."""

    head: int  # of keys and values
    query: int  # among those that share them
    sequence: int


@dataclass(frozen=True)
class DecodeAttention:
    """A program, what it starts with and where its results are."""

    builder: Builder
    caches: tuple[tuple[_Cache, ...], ...]  # by head and sequence
    tiles: tuple[_Tiles, ...]  # by head
    banks: tuple[int, ...]  # of the sequences
    sharing: int
    channels: int

    def attended(self, memory: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """fp16 patterns (heads of keys and values, heads that share them, sequences, channels)."""
        b, rows = self.builder, self.builder.params.rows
        found = [
            b.halves_results(memory, tiles.results, self.sharing * rows, self.channels)
            for tiles in self.tiles
        ]
        shape = (len(found), self.sharing, rows, self.channels)
        return np.stack(found).reshape(shape)[:, :, list(self.banks)]


def decode_attention(
    params: HarmoniaParams,
    tokens: Sequence[int],
    heads: Sequence[Sequence[CachedHead]],
    *,
    checked: bool = True,
) -> DecodeAttention:
    """Sequences have ``tokens`` tokens each, the newest among them; ``heads`` are by sequence too.

    Their newest tokens lie in different banks of one token tile. Whether the program's result
    depends on timing is asked where it is ``checked``.
    """
    p, b = params, Builder(params)
    sharing, channels = heads[0][0].queries.shape
    require(
        min(tokens) >= 1 and len({(n - 1) // p.rows for n in tokens}) == 1,
        f"sequences of {', '.join(map(str, tokens))} tokens do not end in one token tile",
    )
    require(len(set(tokens)) == len(tokens), "two sequences end in the same bank")
    require(
        channels % p.group == 0 and channels <= p.channels,
        f"channels must be a multiple of {p.group}, at most {p.channels}, not {channels}",
    )
    program = _Program(b, tokens, sharing, channels, [len(head.window) for head in heads[0]])
    caches = tuple(tuple(map(program.place, head)) for head in heads)
    tiles = tuple(program.place_tiles(head) for head in heads)
    program.write(caches, tiles)
    if checked:
        b.halt()
    else:
        b.emit(Opcode.HALT)
    return DecodeAttention(b, caches, tiles, tuple(program.banks), sharing, channels)


class _Program:
    """Writes the instructions."""

    def __init__(
        self,
        builder: Builder,
        tokens: Sequence[int],
        sharing: int,
        channels: int,
        windows: Sequence[int],
    ):
        p = builder.params
        self.builder, self.params = builder, p
        self.tokens, self.sharing, self.channels = tokens, sharing, channels
        self.windows = windows  # tokens that offsets are learned from, of every sequence
        self.most = max(tokens)
        self.tile = (self.most - 1) // p.rows
        self.banks = [(n - 1) % p.rows for n in tokens]
        self.words, self.groups = words_of(p, channels), groups_of(p, channels)
        self.across = {Operand.KEYS: self.groups, Operand.VALUES: tiles_of(p, channels)}
        self.units = {operand: -(-self.most // p.unit(operand)) for operand in self.across}
        self.window_tiles = max(1, -(-max(windows) // p.rows))
        self.score_rows = tiles_of(p, self.most) * p.tile_words
        operands = [(self.across[o] * (self.units[o] + p.low_slots(o)), 2) for o in self.across]
        keys, values = self._rows(Memory.OPERANDS, *operands)
        self.rows = {Operand.KEYS: keys, Operand.VALUES: values}
        beside = (self.window_tiles + 2 + p.converter.loops) * self.words
        scores = self.score_rows + self.words
        self.beside, self.scores = self._rows(Memory.FP16, (beside, 2), (scores, 2))
        powers = groups_of(p, self.most)
        self.activations, self.powers = self._rows(Memory.MANTISSAS, (self.groups, 2), (powers, 2))
        # Scores of an item are raised behind those of its last sequence, and meet values a step
        # later.
        self.behind = len(tokens) + 1

    def _rows(self, memory: Memory, *tensors: tuple[int, int]) -> list[list[int]]:
        """In regions of their own, or behind each other where these do not suffice."""
        depth, name = self.params.depth(memory), memory.name.lower()
        found = places(depth, self.params.region_rows(memory), *tensors)
        found = found or places(depth, 1, *tensors)
        need = sum(rows * copies for rows, copies in tensors)
        require(
            found is not None,
            f"heads of {self.most} tokens need {need} {name} rows, there are {depth}",
        )
        assert found is not None
        return found

    # External memory.

    def place(self, head: CachedHead) -> _Cache:
        """Put the cache of a head and sequence into external memory."""
        p = self.params
        open_tiles = np.zeros((p.group, self.channels), np.uint16)
        open_tiles[: len(head.open_values)] = head.open_values
        window = np.zeros((self.window_tiles * p.rows, self.channels), np.uint16)
        window[: len(head.window)] = head.window
        return _Cache(
            self._place_units(Operand.KEYS, head.keys),
            self._place_units(Operand.VALUES, head.values),
            self._place_rows(window),
            self._place_rows(open_tiles),
        )

    def place_tiles(self, heads: Sequence[CachedHead]) -> _Tiles:
        """Put the newest tokens of all sequences of a head into external memory."""
        b = self.builder
        newest = np.zeros((2 + self.sharing, self.params.rows, self.channels), np.uint16)
        for bank, head in zip(self.banks, heads, strict=True):
            newest[0, bank], newest[1, bank] = head.key, head.value
            newest[2:, bank] = head.queries
        key, value = (self._place_rows(tile) for tile in newest[:2])
        queries = b.place_halves(newest[2:].reshape(-1, self.channels))
        return _Tiles(key, value, queries, b.reserve(self.sharing * self._tile_lines))

    @property
    def _tile_lines(self) -> int:
        return self.builder.halves_lines(self.channels)

    def _place_rows(self, values: NDArray[np.uint16]) -> int:
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
            lines[memory] = self.builder.place(memory, content, len(content))
            # A changed unit is stored with its neighbours: whole lines, also behind the last.
            each = max(1, p.line_bits // p.row_bits(memory))
            self.builder.reserve(
                p.lines(memory, len(content) + each) - p.lines(memory, len(content))
            )
        return lines

    # Instructions.

    def write(self, caches: Sequence[Sequence[_Cache]], tiles: Sequence[_Tiles]) -> None:
        """All heads; in every step the array takes scores of one item and values of another."""
        self.caches, self.tiles = caches, tiles
        sequences = range(len(self.tokens))
        self.items = [
            _Item(head, query, sequence)
            for head in range(len(tiles))
            for query in range(self.sharing)
            for sequence in sequences
        ]
        for move in (*self._beside_loads(0), *self._unit_loads(Operand.KEYS, 0)):
            move()
        self._learn(0, range(self._learnt(0)))
        self._append_key(0)
        self._convert_query(0)
        self._score(0)
        for step in range(len(self.items) + self.behind):
            self._step(step, step + 1, step + 1 - self.behind)
        for move in self._stores(Operand.VALUES, len(self.items) - 1):
            move()

    def _step(self, scored: int, following: int, weighed: int) -> None:
        """While the array has the scores of one item, prepare the next and weigh another.

        Units take instructions in the order of the program, and one that waits for its unit holds
        up those behind it. So moves stand between conversions, each a few behind a long one.
        """
        before = self._ends(scored - 1)
        if before:
            self._raise(scored - 1)
        self._append_value(weighed)
        # A store is of the place that a load fills.
        *stores, opened = self._stores(Operand.VALUES, weighed - 1) or [_nothing]
        opened()
        loads = [*self._beside_loads(following), *self._open_loads(weighed + 1)]
        _write(loads, self._stores(Operand.KEYS, scored - 1))
        if before:
            self._convert_powers(scored - 1)
        _write(self._unit_loads(Operand.KEYS, following), stores)
        loads = self._unit_loads(Operand.VALUES, weighed + 1)
        tiles = self._learnt(following)
        early = range(max(0, tiles - 1))
        for tile in early:
            self._learn(following, range(tile, tile + 1))
            _write(loads[:1], [])
            del loads[:1]
        _write(loads, [])
        self._weigh(weighed)
        self._learn(following, range(len(early), tiles))
        self._append_key(following)
        self._convert_query(following)
        self._finish(weighed)
        self._score(following)

    def _is_item(self, number: int) -> bool:
        return 0 <= number < len(self.items)

    def _ends(self, number: int) -> bool:
        """Whether this item is the last sequence of a head of queries."""
        return self._is_item(number) and self.items[number].sequence == len(self.tokens) - 1

    def _fresh(self, number: int) -> bool:
        """Whether an item's cache comes for it; else it is there from the query before."""
        return self._is_item(number) and (len(self.tokens) > 1 or self.items[number].query == 0)

    def _appends(self, number: int) -> bool:
        return self._is_item(number) and self.items[number].query == 0

    def _slot(self, number: int) -> int:
        """Which of two places an item's cache has."""
        return (number if len(self.tokens) > 1 else self.items[number].head) % 2

    def _place(self, number: int) -> int:
        """Which of two places the scores of an item have."""
        return number // len(self.tokens) % 2

    def _lines(self, operand: Operand, number: int) -> dict[Memory, int]:
        item = self.items[number]
        cache = self.caches[item.head][item.sequence]
        return cache.keys if operand is Operand.KEYS else cache.values

    def _load(self, memory: Memory, row: int, rows: int, line: int, banks: Sequence[int]) -> None:
        """Load rows, of these banks alone."""
        self.builder.configure(lanes=banks)
        self.builder.load(memory, row, rows, line)

    def _unit_loads(self, operand: Operand, number: int) -> list[Write]:
        """Keys or values of an item, with all places of low halves."""
        if not self._fresh(number):
            return []
        lines, row = self._lines(operand, number), self.rows[operand][self._slot(number)]
        rows = self.units[operand] * self.across[operand]
        low = self.params.low_slots(operand) * self.across[operand]
        load = self.builder.load
        high = partial(load, Memory.OPERANDS, row, rows + low, lines[Memory.OPERANDS])
        return [high, *(partial(load, memory, row, rows, lines[memory]) for memory in _METADATA)]

    def _beside_loads(self, number: int) -> list[Write]:
        """The window and the newest key; and queries, with the first sequence."""
        if not self._is_item(number):
            return []
        item, row, every = (
            self.items[number],
            self.beside[self._slot(number)],
            range(self.params.rows),
        )
        load, moves = partial(self._load, Memory.FP16, banks=every), list[Write]()
        tiles = self.tiles[item.head]
        if self._appends(number):
            rows = self.window_tiles * self.words
            moves.append(partial(load, row, rows, self.caches[item.head][item.sequence].window))
            moves.append(partial(load, self._key_row(number), self.words, tiles.key))
        if item.sequence == 0:
            line = tiles.queries + item.query * self._tile_lines
            moves.append(partial(load, self._query_row(number), self.words, line))
        return moves

    def _open_loads(self, number: int) -> list[Write]:
        """The unfinished group of values, and in it the newest."""
        if not self._appends(number):
            return []
        item, load = self.items[number], partial(self._load, Memory.FP16)
        cache, rows = (
            self.caches[item.head][item.sequence],
            self.params.converter.loops * self.words,
        )
        every, own = range(self.params.rows), [self.banks[item.sequence]]
        line = self.tiles[item.head].value
        return [
            partial(load, self._open_row(number), rows, cache.open_values, banks=every),
            partial(load, self._value_row(number), self.words, line, banks=own),
        ]

    def _key_row(self, number: int) -> int:
        return self.beside[self._slot(number)] + self.window_tiles * self.words

    def _query_row(self, number: int) -> int:
        return self._key_row(number) + self.words

    def _open_row(self, number: int) -> int:
        """The unfinished group of values: away from the keys that come meanwhile."""
        beside = self.beside[(self._slot(number) + self.behind + 1) % 2]
        return beside + (self.window_tiles + 2) * self.words

    def _value_row(self, number: int) -> int:
        """The newest token's tile in it."""
        return self._open_row(number) + self.tile % self.params.converter.loops * self.words

    def _unit_row(self, operand: Operand, number: int, unit: int) -> int:
        return self.rows[operand][self._slot(number)] + unit * self.across[operand]

    def _low_row(self, operand: Operand, number: int, unit: int | None = None) -> int:
        """Low halves of a unit; without one the first of their places."""
        slot = 0 if unit is None else self.params.low_slot(operand, unit)
        first = self._unit_row(operand, number, self.units[operand])
        return first + slot * self.across[operand]

    def _learnt(self, number: int) -> int:
        """Token tiles that an item learns offsets from."""
        if not self._appends(number):
            return 0
        return -(-self.windows[self.items[number].sequence] // self.params.rows)

    def _learn(self, number: int, tiles: range) -> None:
        """Learn offsets from some token tiles of the window."""
        b, p = self.builder, self.params
        for tile in tiles:
            window = self.windows[self.items[number].sequence]
            b.configure(lanes=range(min(p.rows, window - tile * p.rows)))
            b.emit(
                Opcode.LEARN,
                source=self.beside[self._slot(number)] + tile * self.words,
                elements=self.channels,
                first=int(tile == 0),
                last=int(tile + 1 == self._learnt(number)),
            )

    def _convert_query(self, number: int) -> None:
        """Queries of all sequences, with the first of them."""
        if self._is_item(number) and self.items[number].sequence == 0:
            self.builder.convert(
                Conversion.ACTIVATIONS,
                source=self._query_row(number),
                elements=self.channels,
                destination=self.activations[self._place(number)],
            )

    def _append_key(self, number: int) -> None:
        if not self._appends(number):
            return
        b, p, sequence = self.builder, self.params, self.items[number].sequence
        unit, part = divmod(self.tile, p.parts)
        row, tokens = self._unit_row(Operand.KEYS, number, unit), self.tokens[sequence]
        b.configure(lanes=[self.banks[sequence]])
        b.convert(
            Conversion.KEYS,
            source=self._key_row(number),
            elements=self.channels,
            destination=row,
            low_halves=self._low_row(Operand.KEYS, number, unit),
            metadata=row,
            part=part,
        )
        left = self._left(tokens)
        if left is not None:
            # The window is whole token tiles long, so this token has the new one's lane.
            b.emit(
                Opcode.CLEAR,
                low_halves=self._low_row(Operand.KEYS, number, left),
                rows=self.groups,
                part=(tokens - 1 - p.local) // p.rows % p.parts,
            )

    def _left(self, tokens: int) -> int | None:
        """The tile of keys that one leaves the window from which others have not left yet."""
        p, leaving = self.params, tokens - 1 - self.params.local
        unit = leaving // p.columns
        aged = leaving >= p.initial and p.has_low(Operand.KEYS, unit, tokens)
        return unit if aged else None

    def _append_value(self, number: int) -> None:
        if not self._appends(number):
            return
        p, tokens = self.params, self.tokens[self.items[number].sequence]
        group = (tokens - 1) // p.group
        row = self._unit_row(Operand.VALUES, number, group)
        self.builder.convert(
            Conversion.VALUES,
            source=self._open_row(number),
            elements=self.channels,
            destination=row,
            low_halves=self._low_row(Operand.VALUES, number, group),
            metadata=row,
            tokens=tokens - group * p.group,
        )

    def _sees(self, number: int) -> None:
        """Let the array take an item's tokens, and write to its bank alone."""
        sequence = self.items[number].sequence
        bank, tokens = self.banks[sequence], self.tokens[sequence]
        self.builder.configure(lanes=[bank], tokens=tokens)

    def _score(self, number: int) -> None:
        if not self._is_item(number):
            return
        self._sees(number)
        place, keys = self._place(number), self._unit_row(Operand.KEYS, number, 0)
        self.builder.gemm(
            Operand.KEYS,
            source=self.activations[place],
            operands=keys,
            low_halves=self._low_row(Operand.KEYS, number),
            metadata=keys,
            destination=self.scores[place],
            groups=self.groups,
            tiles=self.units[Operand.KEYS],
            # Of several sequences each would write over the others' largest scores.
            maxima=2 * place if len(self.tokens) == 1 else None,
        )

    def _raise(self, number: int) -> None:
        """The largest score of every sequence, powers and their sums, of all at once."""
        b, place = self.builder, self._place(number)
        row, largest, limit = self.scores[place], 2 * place, self.tile * self.params.rows + 1
        b.configure(lanes=self.banks)
        if len(self.tokens) > 1:
            b.vector(Operation.LARGEST, largest, row, elements=self.most, causal_limit=limit)
        b.vector(
            Operation.POWERS,
            row,
            row,
            scalar=largest,
            elements=self.most,
            causal_limit=limit,
            total=largest + 1,
        )

    def _convert_powers(self, number: int) -> None:
        place = self._place(number)
        self.builder.convert(
            Conversion.ACTIVATIONS,
            source=self.scores[place],
            elements=self.most,
            destination=self.powers[place],
        )

    def _weigh(self, number: int) -> None:
        """The powers and V."""
        if not self._is_item(number):
            return
        self._sees(number)
        b, place = self.builder, self._place(number)
        values, result = self._unit_row(Operand.VALUES, number, 0), self._result_row(place)
        b.gemm(
            Operand.VALUES,
            source=self.powers[place],
            operands=values,
            low_halves=self._low_row(Operand.VALUES, number),
            metadata=values,
            destination=result,
            groups=self.units[Operand.VALUES],
            tiles=self.across[Operand.VALUES],
        )

    def _finish(self, number: int) -> None:
        """Results of all sequences of an item that is complete, divided by their sums."""
        if not self._ends(number):
            return
        b, place, item = self.builder, self._place(number), self.items[number]
        b.configure(lanes=self.banks)
        b.normalise(self._result_row(place), self.channels, 2 * place + 1)
        line = self.tiles[item.head].results + item.query * self._tile_lines
        b.store(Memory.FP16, self._result_row(place), self.words, line)

    def _result_row(self, place: int) -> int:
        return self.scores[place] + self.score_rows

    def _stores(self, operand: Operand, number: int) -> list[Write]:
        """What the newest token has changed in an item's keys or values."""
        if not self._appends(number):
            return []
        store, p, item = self.builder.store, self.params, self.items[number]
        across, tokens = self.across[operand], self.tokens[item.sequence]
        unit, lines = (tokens - 1) // p.unit(operand), self._lines(operand, number)
        left = self._left(tokens) if operand is Operand.KEYS else None
        low = [self.units[operand] + p.low_slot(operand, u) for u in (unit, left) if u is not None]
        moves: list[Write] = []
        for memory in (Memory.OPERANDS, *_METADATA):
            each = max(1, p.line_bits // p.row_bits(memory))
            for changed in (unit, *(low if memory is Memory.OPERANDS else ())):
                begin = changed * across // each * each
                end = -(-(changed + 1) * across // each) * each
                row = self.rows[operand][self._slot(number)] + begin
                line = lines[memory] + p.lines(memory, begin)
                moves.append(partial(store, memory, row, end - begin, line))
        if operand is Operand.VALUES:
            line = self.caches[item.head][item.sequence].open_values
            line += p.lines(Memory.FP16, self.tile % p.converter.loops * self.words)
            row = self._value_row(number)
            moves.append(partial(store, Memory.FP16, row, self.words, line))
        return moves


def _nothing() -> None:
    """No instruction."""


def _write(some: Sequence[Write], others: Sequence[Write]) -> None:
    """Write moves of two kinds in turn."""
    for pair in zip_longest(some, others):
        for write in pair:
            if write is not None:
                write()
