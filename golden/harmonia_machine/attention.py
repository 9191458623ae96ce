"""One head of attention as a program: a prompt, then token after token, then a linear layer.

The cache lies in external memory in the form of the operand memories, a *unit* (a tile of K tokens
or a group of V tokens) from the start of a line on; every token that arrives stores what it
changes. On chip a copy of it stays from one token to the next; a program that resumes a head, after
others have used the machine, fetches it first.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.harmonia_machine.builder import Builder
from tilewright.golden.harmonia_machine.isa import groups_of, tiles_of, words_of
from tilewright.golden.machine.tiling import places
from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia_machine import (
    Conversion,
    Dataflow,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
)
from tilewright.golden.params.vector import Operation
from tilewright.golden.weights import Weights, quantise

EARLY_GROUPS = 6  # of V, converted before the first queries: their products are short
_METADATA = (Memory.OPERAND_SIGNS, Memory.OPERAND_EXPONENTS)


class _Move(NamedTuple):
    """A load or store of rows."""

    memory: Memory
    row: int
    rows: int
    line: int


class _Store:
    """K or V of one head: its rows on chip and its lines in external memory."""

    def __init__(self, builder: Builder, operand: Operand, across: int, units: int):
        p = builder.params
        self.builder, self.operand = builder, operand
        self.across = across  # rows of a unit
        self.units = units
        self.operands = self.low_halves = self.metadata = 0  # rows, set by the head
        self.lines = {
            memory: self._reserve(memory, units) for memory in (Memory.OPERANDS, *_METADATA)
        }
        self.low_lines = self._reserve(Memory.OPERANDS, p.low_slots(operand))

    def _reserve(self, memory: Memory, units: int) -> int:
        return self.builder.reserve(units * self._unit_lines(memory))

    def _unit_lines(self, memory: Memory) -> int:
        return self.builder.params.lines(memory, self.across)

    def row(self, unit: int) -> int:
        return self.operands + unit * self.across

    def metadata_row(self, unit: int) -> int:
        return self.metadata + unit * self.across

    def low_row(self, unit: int) -> int:
        slot = self.builder.params.low_slot(self.operand, unit)
        return self.low_halves + slot * self.across

    def has_low(self, unit: int, tokens: int) -> bool:
        return self.builder.params.has_low(self.operand, unit, tokens)

    def store(self, unit: int, tokens: int) -> None:
        """Store a unit in external memory."""
        b = self.builder
        line = self.lines[Memory.OPERANDS] + unit * self._unit_lines(Memory.OPERANDS)
        b.store(Memory.OPERANDS, self.row(unit), self.across, line)
        for memory in _METADATA:
            line = self.lines[memory] + unit * self._unit_lines(memory)
            b.store(memory, self.metadata_row(unit), self.across, line)
        if self.has_low(unit, tokens):
            self.store_low(unit)

    def stores(self, units: int, tokens: int) -> Iterator[_Move]:
        """Moves that store the first units, as few as there can be."""
        for memory in (Memory.OPERANDS, *_METADATA):
            first = self.operands if memory is Memory.OPERANDS else self.metadata
            step = units if self._fills_lines(memory) else 1
            for unit in range(0, units, step):
                line = self.lines[memory] + unit * self._unit_lines(memory)
                yield _Move(memory, first + unit * self.across, step * self.across, line)
        for unit in range(units):
            if self.has_low(unit, tokens):
                slot = self.builder.params.low_slot(self.operand, unit)
                line = self.low_lines + slot * self._unit_lines(Memory.OPERANDS)
                yield _Move(Memory.OPERANDS, self.low_row(unit), self.across, line)

    def _fills_lines(self, memory: Memory) -> bool:
        """Whether the rows of a unit are whole lines, so that units follow each other."""
        p = self.builder.params
        return self.across * p.row_bits(memory) % p.line_bits == 0

    def store_low(self, unit: int) -> None:
        slot = self.builder.params.low_slot(self.operand, unit)
        line = self.low_lines + slot * self._unit_lines(Memory.OPERANDS)
        self.builder.store(Memory.OPERANDS, self.low_row(unit), self.across, line)

    def load(self, units: int, tokens: int) -> None:
        """Load all units, with low halves where there are any."""
        p = self.builder.params
        for memory in (Memory.OPERANDS, *_METADATA):
            first = self.operands if memory is Memory.OPERANDS else self.metadata
            self._load(memory, first, self.lines[memory], 0, units)
        slots = [
            p.low_slot(self.operand, unit) for unit in range(units) if self.has_low(unit, tokens)
        ]
        while slots:  # runs of neighbouring places
            run = 1
            while run < len(slots) and slots[run] == slots[0] + run:
                run += 1
            self._load(Memory.OPERANDS, self.low_halves, self.low_lines, slots[0], run)
            del slots[:run]

    def load_empty(self, tokens: int) -> None:
        """Places of tokens that may come behind the first, as external memory has them at first.

        Units that these fill need none.
        """
        full = tokens // self.builder.params.unit(self.operand)
        for memory in (Memory.OPERANDS, *_METADATA):
            first = self.operands if memory is Memory.OPERANDS else self.metadata
            if full < self.units:
                self._load(memory, first, self.lines[memory], full, self.units - full)
        slots = self.builder.params.low_slots(self.operand)
        self._load(Memory.OPERANDS, self.low_halves, self.low_lines, 0, slots)

    def _load(self, memory: Memory, row: int, line: int, first: int, units: int) -> None:
        """Units from ``first`` on: at once where every unit fills its lines."""
        step = units if self._fills_lines(memory) else 1
        for unit in range(first, first + units, step):
            self.builder.load(
                memory,
                row + unit * self.across,
                step * self.across,
                line + unit * self._unit_lines(memory),
            )


class _Place(NamedTuple):
    """Where a token tile of queries is worked on."""

    queries: int  # rows of fp16
    activations: int  # of the activation memories
    scores: int  # of fp16
    powers: int  # of the activation memories
    largest: int  # scalar register: the largest score of every query
    total: int  # scalar register: the sum of its powers


class Head:
    """Writes the program of one head for at most ``capacity`` tokens of ``channels`` channels."""

    def __init__(self, builder: Builder, channels: int, capacity: int):
        p = builder.params
        require(
            channels % p.group == 0 and channels <= p.channels,
            f"channels must be a multiple of {p.group}, at most {p.channels}, not {channels!r}",
        )
        require(capacity >= 1, f"capacity must be at least 1, not {capacity!r}")
        self.builder, self.channels = builder, channels
        self.tokens = 0
        self._new_values = False  # a token of V that is not converted yet
        self._values_line, self._values_left = 0, range(0)  # groups of a prompt, likewise
        self.words = words_of(p, channels)
        self.groups = groups_of(p, channels)
        self.keys = _Store(builder, Operand.KEYS, self.groups, tiles_of(p, capacity))
        self.values = _Store(builder, Operand.VALUES, tiles_of(p, channels), groups_of(p, capacity))
        self._place_rows(capacity)

    def _place_rows(self, capacity: int) -> None:
        p = self.builder.params
        stores = (self.keys, self.values)
        sizes = [(store.across * (store.units + p.low_slots(store.operand)), 1) for store in stores]
        need = sum(rows for rows, _ in sizes)
        self._require(capacity, "operand", need, p.operand_rows)
        apart = places(p.operand_rows, p.region_rows(Memory.OPERANDS), *sizes)
        self.converts_beside = apart is not None  # V, while the array has K
        found = apart or [[0], [sizes[0][0]]]
        for store, (row,) in zip(stores, found, strict=True):
            store.operands = store.metadata = row
            store.low_halves = row + store.units * store.across
        scores, powers = tiles_of(p, capacity) * p.tile_words, groups_of(p, capacity)
        if self._place_apart(scores, powers):
            return
        self._place_together()
        self._require(capacity, "fp16", self.places[0].scores + scores, p.halves_rows)
        self._require(capacity, "activation", self.places[0].powers + powers, p.activation_rows)

    def _require(self, capacity: int, name: str, rows: int, depth: int) -> None:
        require(
            rows <= depth,
            f"{capacity} tokens of {self.channels} channels need {rows} {name} rows, "
            f"there are {depth}",
        )

    def _place_apart(self, scores: int, powers: int) -> bool:
        """Rows of two token tiles, in regions in which units work at the same time, if they fit.

        While the scores of one tile are computed, those of the other are raised and converted.
        """
        p = self.builder.params
        values = p.converter.loops * self.words
        halves = places(
            p.halves_rows,
            p.region_rows(Memory.FP16),
            *((2 * self.words + values, 1), (self.words, 1), (scores, 2)),
        )
        activations = places(
            p.activation_rows,
            p.region_rows(Memory.MANTISSAS),
            *((2 * self.groups, 2), (powers, 2)),
        )
        self.overlaps = halves is not None and activations is not None
        if halves is None or activations is None:
            return False
        (first,), (self.result_row,), score_rows = halves
        queries, power_rows = activations
        self.token_row, self.value_row = first, first + 2 * self.words
        self.staging = list(score_rows)  # of a prompt's K and V: two places
        self.staging_rows = scores
        self.places = [
            _Place(
                first + k * self.words,
                queries[k],
                score_rows[k],
                power_rows[k],
                largest=2 * k,
                total=2 * k + 1,
            )
            for k in range(2)
        ]
        self.kept_row = queries[1] + self.groups
        return True

    def _place_together(self) -> None:
        """Rows of one token tile, one after the other."""
        p = self.builder.params
        self.token_row = 0  # fp16: a token tile of K or Q
        self.value_row = self.words  # the newest group of V
        self.result_row = self.value_row + p.converter.loops * self.words
        self.staging, self.staging_rows = [self.value_row], self.words
        scores = self.result_row + self.words
        self.places = [_Place(self.token_row, 0, scores, self.groups, largest=0, total=1)]
        self.kept_row = 0

    def prompt(self, tokens: int, keys: int, values: int) -> None:
        """The first tokens; K and V in fp16 are at these lines.

        Units are stored as a whole, also places of tokens that are yet to come: they are zero.
        """
        p = self.builder.params
        for store in (self.keys, self.values):
            store.load_empty(tokens)
        self._learn(tokens, keys)
        tiles, groups = -(-tokens // p.rows), groups_of(p, tokens)
        self._convert_all_keys(tiles, keys)
        self._clear_boundary()
        stores = deque(self.keys.stores(-(-tokens // p.columns), tokens))
        # V of later tokens is converted when the first queries need it, where that goes beside.
        early = min(groups, EARLY_GROUPS) if self._defers else groups
        self._values_line, self._values_left = values, range(early, groups)
        rows = [self.staging[group % len(self.staging)] for group in range(groups)]
        rows[-1] = self.value_row  # tokens that come later join the last group, at its place
        self._load_group(0, values, rows[0])
        for group in range(early):
            if len(self.staging) == 1 and group:
                self._load_group(group, values, rows[group])
            self._convert_values(group, rows[group])
            if len(self.staging) > 1 and group + 1 < early:
                self._load_group(group + 1, values, rows[group + 1])
            for _ in range(-(-len(stores) // (early - group))):
                self.builder.store(*stores.popleft())
        if not self._values_left:
            self._store_values()

    @property
    def _defers(self) -> bool:
        return self.overlaps and self.converts_beside

    def _store_values(self) -> None:
        """All groups of V."""
        for move in self.values.stores(groups_of(self.builder.params, self.tokens), self.tokens):
            self.builder.store(*move)

    def _convert_all_keys(self, tiles: int, keys: int) -> None:
        """What is next comes while the converter works, several token tiles at once."""
        b, p = self.builder, self.builder.params
        size = b.halves_lines(self.channels)
        whole = self.words * p.row_bits(Memory.FP16) == size * p.line_bits
        several = max(1, min(4, self.staging_rows // self.words)) if whole else 1
        pieces = [range(k, min(tiles, k + several)) for k in range(0, tiles, several)]

        def load(number: int) -> None:
            piece = pieces[number]
            b.configure(lanes=range(p.rows))
            row = self.staging[number % len(self.staging)]
            b.load(Memory.FP16, row, len(piece) * self.words, keys + piece[0] * size)

        load(0)
        for number, piece in enumerate(pieces):
            if len(self.staging) == 1 and number:
                load(number)
            elif number + 1 < len(pieces) and len(self.staging) > 1:
                load(number + 1)
            row = self.staging[number % len(self.staging)]
            for k, tile in enumerate(piece):
                self._write_tokens_of(tile)
                self._convert_keys(tile, row + k * self.words)

    def resume(self, tokens: int, prompt: int, keys: int, values: int) -> None:
        """The state in which the head was left with ``tokens`` tokens, of a prompt this long."""
        p = self.builder.params
        self._learn(prompt, keys)
        self.tokens = tokens
        self.builder.configure(tokens=tokens)
        if tokens % p.group:
            self._load_group(tokens // p.group, values, self.value_row)
        for store in (self.keys, self.values):
            store.load(-(-tokens // p.unit(store.operand)), tokens)

    def append(self, keys: int, values: int) -> None:
        """One more token, from the same tensors of K and V as the prompt's.

        Its V is converted while the next scores are computed.
        """
        b, p = self.builder, self.builder.params
        position = self.tokens
        self.tokens += 1
        tile, lane = divmod(position, p.rows)
        b.configure(lanes=[lane], tokens=self.tokens)
        loop = tile % p.converter.loops
        for line, row in ((keys, self.token_row), (values, self.value_row + loop * self.words)):
            b.load(Memory.FP16, row, self.words, line + tile * b.halves_lines(self.channels))
        self._convert_keys(tile, self.token_row)
        self._new_values = True
        self.keys.store(position // p.columns, self.tokens)
        leaving = position - p.local
        if leaving >= p.initial and self.keys.has_low(leaving // p.columns, self.tokens):
            # The window is whole token tiles long, so this token has the new one's lane.
            self._clear(leaving // p.rows)
            self.keys.store_low(leaving // p.columns)

    def attend(self, tile: int, first: int, queries: int) -> None:
        """Token tile ``tile`` of queries, those from ``first`` on; results are at result_row.

        Queries are fp16 at line ``queries``; they are the newest tokens of the cache.
        """
        self._load_tokens(tile, queries, self.places[0].queries, self.tokens, first)
        self._attend(tile)

    def attend_heads(self, heads: int, queries: int) -> None:
        """Queries of several heads that share K and V, all of the newest token, in one token tile.

        They are fp16 at line ``queries``, head h in bank h; so are the results at result_row. All
        heads take as long as one.
        """
        b = self.builder
        require(1 <= heads <= b.params.rows, f"heads must be 1..{b.params.rows}, not {heads!r}")
        b.configure(lanes=range(heads))
        b.load(Memory.FP16, self.places[0].queries, self.words, queries)
        self._attend(None)

    def _attend(self, tile: int | None) -> None:
        """One token tile of queries that are there; None: each sees all tokens."""
        p, place = self.builder.params, self.places[0]
        self._convert_queries(place)
        newest = (self.tokens - 1) // p.group
        if self._new_values:
            self._convert_values(newest, self.value_row)
        self._score(tile, place)
        if self._new_values:
            self.values.store(newest, self.tokens)
            self._new_values = False
        self._raise(tile, place)
        self._convert_powers(tile, place)
        self._weigh(tile, place)
        self._normalise(place)

    def attend_prompt(self, queries: int, keep: Callable[[int], None]) -> None:
        """All token tiles of the prompt; ``keep`` has each one's results at result_row.

        In two places: while the array has one tile's scores or weighs the values of another, the
        vector unit and the converter work on those between them, and queries come.
        """
        tiles = -(-self.tokens // self.builder.params.rows)
        if not self.overlaps:
            for tile in range(tiles):
                self.attend(tile, 0, queries)
                keep(tile)
            return
        for tile in range(min(2, tiles)):
            self._bring_queries(tile, queries)
        self._write_tokens_of(0)
        self._score(0, self._place(0))
        for tile in range(tiles):
            self._write_tokens_of(tile)
            self._raise(tile, self._place(tile))
            if tile:
                self._write_tokens_of(tile - 1)
                self._weigh(tile - 1, self._place(tile - 1))
            self._convert_powers(tile, self._place(tile))
            if tile + 1 < tiles:
                self._write_tokens_of(tile + 1)
                self._score(tile + 1, self._place(tile + 1))
            if tile:
                self._finish(tile - 1, keep)
            if tile + 2 < tiles:
                self._bring_queries(tile + 2, queries)
            self._bring_values(tile)
        self._write_tokens_of(tiles - 1)
        self._weigh(tiles - 1, self._place(tiles - 1))
        self._finish(tiles - 1, keep)
        if self._values_left:
            self._values_left = range(0)
            self._store_values()

    def _bring_values(self, tile: int) -> None:
        """Beside the work on a token tile of queries: a group of V, which the next tile needs."""
        loops = self.builder.params.converter.loops
        group, within = divmod(tile, loops)
        if within == 0 and group in self._values_left:
            self._convert_values(group, self.value_row)
        if within == min(1, loops - 1) and group + 1 in self._values_left:
            self._load_group(group + 1, self._values_line, self.value_row)

    def _bring_queries(self, tile: int, queries: int) -> None:
        place = self._place(tile)
        self._load_tokens(tile, queries, place.queries, self.tokens)
        self._convert_queries(place)

    def _finish(self, tile: int, keep: Callable[[int], None]) -> None:
        """Results of a token tile are divided by the sums of its powers, and kept."""
        self._write_tokens_of(tile)
        self._normalise(self._place(tile))
        keep(tile)

    def _normalise(self, place: "_Place") -> None:
        self.builder.normalise(self.result_row, self.channels, place.total)

    def _place(self, tile: int) -> "_Place":
        return self.places[tile % len(self.places)]

    def _write_tokens_of(self, tile: int) -> None:
        """Let results be written for the tokens of a tile alone, of which the last has fewer."""
        rows = self.builder.params.rows
        self.builder.configure(lanes=range(min(rows, self.tokens - tile * rows)))

    def _visible(self, tile: int | None) -> int:
        """Keys that some query of a token tile sees; all behind them are masked for all of it."""
        if tile is None:
            return self.tokens
        return min(self.tokens, (tile + 1) * self.builder.params.rows)

    def _convert_queries(self, place: "_Place") -> None:
        self.builder.convert(
            Conversion.ACTIVATIONS,
            source=place.queries,
            elements=self.channels,
            destination=place.activations,
        )

    def _score(self, tile: int | None, place: "_Place") -> None:
        """Scores, and the largest of every query."""
        self.builder.configure(causal_limit=self._causal_limit(tile))
        self.builder.gemm(
            Operand.KEYS,
            source=place.activations,
            operands=self.keys.operands,
            low_halves=self.keys.low_halves,
            metadata=self.keys.metadata,
            destination=place.scores,
            groups=self.groups,
            tiles=tiles_of(self.builder.params, self._visible(tile)),
            maxima=place.largest,
        )

    def _causal_limit(self, tile: int | None) -> int:
        """Keys that the first query of a token tile sees; 0: all see all."""
        return 0 if tile is None else tile * self.builder.params.rows + 1

    def _raise(self, tile: int | None, place: "_Place") -> None:
        """Powers of the scores, and their sums."""
        self.builder.vector(
            Operation.POWERS,
            place.scores,
            place.scores,
            scalar=place.largest,
            elements=self._visible(tile),
            causal_limit=self._causal_limit(tile),
            total=place.total,
        )

    def _convert_powers(self, tile: int | None, place: "_Place") -> None:
        self.builder.convert(
            Conversion.ACTIVATIONS,
            source=place.scores,
            elements=self._visible(tile),
            destination=place.powers,
        )

    def _weigh(self, tile: int | None, place: "_Place") -> None:
        """The powers and V; results are at result_row."""
        self.builder.gemm(
            Operand.VALUES,
            source=place.powers,
            operands=self.values.operands,
            low_halves=self.values.low_halves,
            metadata=self.values.metadata,
            destination=self.result_row,
            groups=groups_of(self.builder.params, self._visible(tile)),
            tiles=self.values.across,
        )

    def _load_tokens(self, tile: int, line: int, row: int, end: int, first: int = 0) -> None:
        """A token tile of an fp16 tensor; only tokens ``first`` to ``end`` are written."""
        b, p = self.builder, self.builder.params
        tokens = range(max(first, tile * p.rows), min(end, (tile + 1) * p.rows))
        b.configure(lanes=[token % p.rows for token in tokens])
        b.load(Memory.FP16, row, self.words, line + tile * b.halves_lines(self.channels))

    def _load_group(self, group: int, values: int, row: int) -> None:
        """Tokens of a V group, as far as there are any."""
        p = self.builder.params
        for loop in range(p.converter.loops):
            tile = group * p.converter.loops + loop
            if tile * p.rows < self.tokens:
                self._load_tokens(tile, values, row + loop * self.words, self.tokens)

    def _learn(self, tokens: int, keys: int) -> None:
        """Offsets of a prompt of so many tokens."""
        b, p = self.builder, self.builder.params
        self.tokens = tokens
        b.configure(tokens=tokens)
        window = min(tokens, p.initial)
        for tile in range(-(-window // p.rows)):
            self._load_tokens(tile, keys, self.token_row, window)
            b.emit(
                Opcode.LEARN,
                source=self.token_row,
                elements=self.channels,
                first=int(tile == 0),
                last=int((tile + 1) * p.rows >= window),
            )

    def _convert_keys(self, tile: int, row: int) -> None:
        p = self.builder.params
        unit, part = divmod(tile, p.parts)
        self.builder.convert(
            Conversion.KEYS,
            source=row,
            elements=self.channels,
            destination=self.keys.row(unit),
            low_halves=self.keys.low_row(unit),
            metadata=self.keys.metadata_row(unit),
            part=part,
            short=not self.keys.has_low(unit, self.tokens),
        )

    def _convert_values(self, group: int, row: int) -> None:
        p = self.builder.params
        self.builder.convert(
            Conversion.VALUES,
            source=row,
            elements=self.channels,
            destination=self.values.row(group),
            low_halves=self.values.low_row(group),
            metadata=self.values.metadata_row(group),
            tokens=min(p.group, self.tokens - group * p.group),
            short=not self.values.has_low(group, self.tokens),
        )

    def _clear_boundary(self) -> None:
        """Low halves of a prompt's old tokens that share a tile with recent ones."""
        b, p = self.builder, self.builder.params
        boundary = self.tokens - p.local  # the first recent token
        start = boundary - boundary % p.columns
        if boundary <= p.initial:
            return
        for token in range(start, boundary, p.rows):
            b.configure(lanes=range(min(p.rows, boundary - token)))
            self._clear(token // p.rows)

    def _clear(self, tile: int) -> None:
        """The lanes of a token tile of K."""
        unit, part = divmod(tile, self.builder.params.parts)
        self.builder.emit(
            Opcode.CLEAR, low_halves=self.keys.low_row(unit), rows=self.groups, part=part
        )


@dataclass(frozen=True)
class AttentionProgram:
    """A program, what it starts with and where its results are."""

    builder: Builder
    head: Head
    tokens: int
    results: int  # line of the head's results, fp16
    outputs: int  # line of the linear layer's results

    def attended(self, memory: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """fp16 patterns (tokens, channels)."""
        return self.builder.halves_results(memory, self.results, self.tokens, self.head.channels)


def attention_program(
    params: HarmoniaParams,
    queries: NDArray[np.uint16],
    keys: NDArray[np.uint16],
    values: NDArray[np.uint16],
    *,
    prompt: int,
    weights: Weights,
    dataflow: Dataflow = Dataflow.COLUMN_MAJOR,
    keep: int = 1,
    start: int = 0,
) -> AttentionProgram:
    """Q, K, V are fp16 patterns (tokens, channels), the first ``prompt`` tokens at once.

    Then the others one by one; then a linear layer of all results. With ``start`` the program
    resumes: an earlier one with the same arguments has left so many tokens in external memory.
    """
    tokens, channels = keys.shape
    require(1 <= prompt <= tokens, f"prompt must be 1..{tokens}, the tokens, not {prompt!r}")
    require(
        start == 0 or prompt <= start <= tokens,
        f"start must be 0 or {prompt}..{tokens}, not {start!r}",
    )
    require(
        weights.inputs == channels, f"{channels} channels meet weights of {weights.inputs} inputs"
    )
    p, b = params, Builder(params)
    q, k, v = (b.place_halves(x) for x in (queries, keys, values))
    head = Head(b, channels, tokens)
    tiles = -(-tokens // p.rows)
    results = b.reserve(tiles * b.halves_lines(channels))
    source = b.reserve(tiles * b.activation_lines(head.groups))

    def keep_results(tile: int) -> None:
        """A token tile of results, in fp16 and as the linear layer's activations."""
        line = results + tile * b.halves_lines(channels)
        b.store(Memory.FP16, head.result_row, head.words, line)
        b.convert(
            Conversion.ACTIVATIONS,
            source=head.result_row,
            elements=channels,
            destination=head.kept_row,
        )
        line = source + tile * b.activation_lines(head.groups)
        b.move_activations(Opcode.STORE, head.kept_row, head.groups, line)

    if start:
        head.resume(start, prompt, k, v)
        b.configure(lanes=range(p.rows))
        line = results + start // p.rows * b.halves_lines(channels)
        b.load(Memory.FP16, head.result_row, head.words, line)
    else:
        head.prompt(prompt, k, v)
        head.attend_prompt(q, keep_results)
    for position in range(start or prompt, tokens):
        head.append(k, v)
        head.attend(position // p.rows, position, q)
        keep_results(position // p.rows)
    outputs = b.tiled_gemm(source, tokens, weights, dataflow, keep)
    b.halt()
    return AttentionProgram(b, head, tokens, results, outputs)


def heavy_tailed(rng: Generator, tokens: int, channels: int) -> NDArray[np.uint16]:
    """fp16 patterns like queries, keys and values: a few channels are far larger."""
    values = rng.standard_normal((tokens, channels))
    values *= np.where(rng.random(channels) < 0.1, 8.0, 1.0)
    return values.astype(np.float16).view(np.uint16)


def random_attention(
    params: HarmoniaParams, seed: int, *, more: int = 0, dataflow: Dataflow = Dataflow.ROW_MAJOR
) -> AttentionProgram:
    """A prompt that leaves the local window twice, then a group and a half of tokens.

    At the paper's size 160 and 48 tokens; ``more`` makes the prompt longer. All channels that the
    accelerator knows, random Q, K, V and weights.
    """
    rng, channels = np.random.default_rng(seed), params.channels
    prompt = params.initial + 2 * params.local + more
    tokens = prompt + 3 * params.group // 2
    q, k, v = (heavy_tailed(rng, tokens, channels) for _ in range(3))
    weights = quantise(rng.standard_normal((2 * params.columns + 2, channels)), 4, group=channels)
    return attention_program(
        params, q, k, v, prompt=prompt, weights=weights, dataflow=dataflow, keep=2
    )
