"""Instructions of attention in fp16 on the vector lanes, over keys and values that stream in.

Keys lie in banks: a *tile* of ``rows`` tokens of K or V is what a gemm leaves, bank r holding token
r of it. A query is in every bank. DOTS gives the scores, element n of bank r that of token n *
``rows`` + r; the softmax of every bank is that of its own tokens; WEIGH sums V by the powers. So
all lanes work in every beat, whatever the number of queries. At the end the banks' sums are merged
as the parts of a streamed softmax are: they go to external memory and come back in every bank,
where one more WEIGH adds them with their weights.

K and V stream in blocks of a region, the next of which is loaded while one is worked on. Scores of
a query stay on chip; a context whose scores do not fit is worked on in parts, the results of which
are scaled and added.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.anda_machine.builder import Builder, Operand, Scalar, Tensor
from tilewright.golden.anda_machine.isa import words_of
from tilewright.golden.anda_machine.layout import to_bytes, word_dtype
from tilewright.golden.bits import encode
from tilewright.golden.params.anda_machine import FP16_ROWS, AndaParams, Memory, Opcode
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.vector import Operation

__all__ = ["AttentionWriter", "Cached", "Constants", "Query", "Room", "written_rows"]

LEAST = -60000.0  # a bank without tokens has this as its largest score
_BLOCKS, _BLOCK_ROWS = 4, 256  # a context is cut into so many blocks, unless they are shorter
# Scalar registers: of the part at work, of all parts before it, and the factors of both.
_TOP, _SUM, _ALL_TOP, _ALL_SUM, _OLD, _NEW = (Scalar(k) for k in range(6))


class Query(NamedTuple):
    """A query of one head."""

    row: int  # of its words, in every bank
    step: int  # rows from one to the next
    tokens: int  # that it sees
    result: int  # the row where its result goes
    bank: int | None = None  # to which the result goes; None: all
    clears: bool = True  # the other banks of the result get +0, else they stay


class Cached(NamedTuple):
    """Lines of the first tiles of K and V of one head."""

    keys: int
    values: int


@dataclass(frozen=True)
class Constants:
    """What attention needs in external memory besides the cache.

    A row of ones, then ``rows`` rows with a one in a single bank; and for every lane ``rows`` masks
    of a tile with 0, 1, ... tokens, whose scores are in that lane: -inf where they end.
    """

    params: AndaParams

    @property
    def _ones(self) -> int:
        return self.params.lines(Memory.ACTIVATIONS, 1 + self.params.rows)

    @property
    def _masks(self) -> int:
        return self.params.lines(Memory.ACTIVATIONS, self.params.rows)

    @property
    def lines(self) -> int:
        return self.mask(self.params.vector.row_lanes)

    def mask(self, lane: int) -> int:
        """The first line of a lane's masks."""
        return self._ones + lane * self._masks

    def data(self) -> NDArray[np.uint8]:
        p = self.params
        lanes = p.vector.row_lanes
        ones = np.zeros((1 + p.rows, p.rows, lanes), np.uint16)
        masks = np.zeros((lanes, p.rows, p.rows, lanes), np.uint16)
        ones[0] = one = int(encode(FP16, 1.0))
        for bank in range(p.rows):
            ones[1 + bank, bank] = one
            for lane in range(lanes):
                masks[lane, bank, bank:, lane] = 0x8000 | (FP16.infinity_bits or 0)
        parts = [values.view(word_dtype(p))[..., 0] for values in (ones, *masks)]
        return np.concatenate([to_bytes(p, Memory.ACTIVATIONS, rows) for rows in parts])


def written_rows(params: AndaParams, head_dim: int) -> int:
    """Rows that a vector instruction writes for a head's channels: whole groups."""
    return -(-head_dim // params.group) * FP16_ROWS


@dataclass(frozen=True, kw_only=True)
class Room:
    """Rows of the activation buffer that attention may use.

    ``stream`` are two regions; ``first`` to ``end`` are in others.
    """

    params: AndaParams
    head_dim: int
    stream: tuple[int, int]
    first: int
    end: int

    @cached_property
    def words(self) -> int:
        """Rows of a head's channels."""
        return words_of(self.params, self.head_dim)

    @cached_property
    def padded(self) -> int:
        """Those that a vector instruction writes: whole groups."""
        return written_rows(self.params, self.head_dim)

    @property
    def entry(self) -> int:
        """A query's sums: its channels, largest score and sum of powers, and what these clear."""
        return self.padded + 1 + FP16_ROWS

    @cached_property
    def block(self) -> int:
        """Tiles of K or V that a region holds, whole words of scores."""
        tiles = self.params.region_rows(Memory.ACTIVATIONS) // self.words
        return tiles // self.params.vector.row_lanes * self.params.vector.row_lanes

    def block_of(self, tiles: int, queries: int) -> int:
        """Tiles of a block where there are so many: the first is loaded before anything works."""
        lanes = self.params.vector.row_lanes
        if queries > _BLOCKS // 2:  # the load is short beside the work
            return self.block
        wanted = max(-(-tiles // _BLOCKS), -(-_BLOCK_ROWS // self.words))
        return min(self.block, -(-wanted // lanes) * lanes)

    # Constants and work space.

    @property
    def ones(self) -> int:
        return self.first

    @property
    def banks(self) -> int:
        return self.ones + 1

    @property
    def masks(self) -> int:
        return self.banks + self.params.rows

    @property
    def tops(self) -> int:
        """Largest scores of all banks, then sums, as elements."""
        return self.masks + self.params.rows + FP16_ROWS

    @cached_property
    def vector_rows(self) -> int:
        """A value of every bank, as elements."""
        return -(-self.params.rows // self.params.group) * FP16_ROWS

    @property
    def sums(self) -> int:
        return self.tops + self.vector_rows

    @property
    def spare(self) -> int:
        """A head's channels."""
        return self.sums + self.vector_rows

    @property
    def entries(self) -> int:
        return self.spare + self.padded

    def score_rows(self, tiles: int) -> int:
        """Scores of a query, in whole groups, and what the mask of the last tile clears."""
        group = self.params.group
        return (-(-tiles // group) + 1) * FP16_ROWS

    @cached_property
    def part(self) -> int:
        """Tiles of a part at most, of one query at a time."""
        groups = (self.end - self.entries - self.entry) // FP16_ROWS - 1
        require(groups >= 1 and self.block >= 1, "the activation buffer has no room for attention")
        return groups * self.params.group // self.block * self.block or groups * self.params.group

    def together(self, tiles: int) -> int:
        """Queries whose scores fit at the same time."""
        return max(1, (self.end - self.entries) // (self.score_rows(tiles) + self.entry))


class _Item(NamedTuple):
    """What is loaded into a region of the stream, and what is done with it."""

    memory: Memory
    rows: int
    line: int
    work: Callable[[int], None]
    late: bool = False  # only behind all before it


class AttentionWriter:
    """Collects the attention of many queries; ``flush`` writes it.

    ``index`` is the index register that lines of the cache move with.
    """

    def __init__(
        self, builder: Builder, room: Room, constants: int, scratch: int, *, index: int = 0
    ):
        self.b, self.room, self.params = builder, room, builder.params
        self.constants, self.scratch, self.index = constants, scratch, index
        self._items: list[_Item] = []
        self._merges: list[_Item] = []
        self._first_mask: int | None = None  # lanes whose masks are needed first, and are there
        self._mask_lane: int | None = None

    @property
    def scratch_lines(self) -> int:
        """Lines of a query's sums while they are merged."""
        return self.params.lines(Memory.ACTIVATIONS, self.room.padded + 2)

    def attend(self, cached: Cached, queries: Sequence[Query], *, scale: float = 1.0) -> None:
        """Queries that see the same tiles of one head's K and V, the last one perhaps not whole."""
        room, rows = self.room, self.params.rows
        tiles = {-(-query.tokens // rows) for query in queries}
        require(len(tiles) == 1, "queries of one call see the same tiles")
        (count,) = tiles
        if self._first_mask is None and any(query.tokens % rows for query in queries):
            self._first_mask = (self._last_part(count) - 1) % self.params.vector.row_lanes
        together = room.together(count)
        for first in range(0, len(queries), together):
            self._group(cached, queries[first : first + together], count, scale)

    def _last_part(self, tiles: int) -> int:
        """Tiles of the last part of a context."""
        part = self.room.part if self.room.together(tiles) == 1 else tiles
        return (tiles - 1) % part + 1

    def then(self, work: Callable[[], None]) -> None:
        """Do something behind the results of all queries so far."""
        item = self._merges[-1]

        def both(row: int) -> None:
            item.work(row)
            work()

        self._merges[-1] = item._replace(work=both)

    def flush(self) -> None:
        """Write everything; the load of an item goes behind the first instruction of the last."""
        self._items += self._merges
        items, self._items, self._merges = self._items, [], []
        self._load_rows(self.room.ones, 1 + self.params.rows, self.constants)
        if self._first_mask is not None:
            self._load_masks(self._first_mask)
        here = False
        for k, item in enumerate(items):
            row = self.room.stream[k % 2]
            if not here:
                self._load(item, row)
            start = len(self.b.program)
            item.work(row)
            here = k + 1 < len(items) and not items[k + 1].late
            if here:
                end = len(self.b.program)
                self._load(items[k + 1], self.room.stream[(k + 1) % 2])
                load = self.b.program.pop(end)
                self.b.program.insert(start + 1, load)

    # A group of queries.

    def _group(self, cached: Cached, queries: Sequence[Query], tiles: int, scale: float) -> None:
        room = self.room
        part = tiles if room.together(tiles) > 1 else min(tiles, room.part)
        scores = [
            room.entries + len(queries) * room.entry + k * room.score_rows(part)
            for k in range(len(queries))
        ]
        parts = range(0, tiles, part)
        for number, first in enumerate(parts):
            count = min(part, tiles - first)
            last = number == len(parts) - 1
            self._scores(cached, queries, scores, first, count, scale, last)
            self._values(cached, queries, scores, first, count, number, last)
        for k, query in enumerate(queries):
            self._merge(k, query)

    def _scores(
        self,
        cached: Cached,
        queries: Sequence[Query],
        scores: list[int],
        first: int,
        count: int,
        scale: float,
        last: bool,
    ) -> None:
        room, b = self.room, self.b
        lanes = self.params.vector.row_lanes
        block = room.block_of(count, len(queries))
        for begin in range(0, count, block):
            size = min(block, count - begin)
            ends = begin + size == count

            def work(row: int, begin: int = begin, size: int = size, ends: bool = ends) -> None:
                for query, place in zip(queries, scores, strict=True):
                    b.attend(
                        Operation.DOTS,
                        row,
                        query.row,
                        into=place + begin // lanes,
                        elements=room.head_dim,
                        results=size,
                        step=query.step,
                        pitch=room.words,
                        scale=scale,
                    )
                if ends and last:
                    for query, place in zip(queries, scores, strict=True):
                        self._mask(query, place, count)

            self._stream(cached.keys, first + begin, size, work)
            if begin == 0 and first == 0:
                self._items += self._merges
                self._merges = []

    def _mask(self, query: Query, scores: int, count: int) -> None:
        """Scores of the last tile's missing tokens become -inf."""
        p, tokens = self.params, query.tokens % self.params.rows
        if not tokens:
            return
        place, lane = divmod(count - 1, p.vector.row_lanes)
        if lane != self._mask_lane:
            self._load_masks(lane)
        row = Tensor(scores + place, lane + 1)
        self.b.apply(Operation.ADD, row, Tensor(self.room.masks + tokens, lane + 1), into=row)

    def _values(
        self,
        cached: Cached,
        queries: Sequence[Query],
        scores: list[int],
        first: int,
        count: int,
        number: int,
        last: bool,
    ) -> None:
        """The softmax of a part before its first block of V; its sums behind the last."""
        room, b = self.room, self.b
        lanes = self.params.vector.row_lanes
        block = room.block_of(count, len(queries))
        for begin in range(0, count, block):
            size = min(block, count - begin)
            ends = begin + size == count

            def work(row: int, begin: int = begin, size: int = size, ends: bool = ends) -> None:
                for k, place in enumerate(scores):
                    entry = self._entry(k)
                    if begin == 0:
                        self._softmax(place, count, entry, number, last and len(queries) > 1)
                    fresh = begin == 0 and number == 0
                    into = entry if fresh else room.spare
                    b.attend(
                        Operation.WEIGH,
                        row,
                        place + begin // lanes,
                        into=into,
                        elements=size,
                        results=room.words,
                        step=room.words,
                    )
                    if not fresh:
                        self._add(entry)
                    if ends and last:
                        if len(queries) == 1:
                            self._note(entry, _ALL_TOP, _ALL_SUM)
                        self._keep(k, entry)

            self._stream(cached.values, first + begin, size, work)

    def _softmax(self, scores: int, count: int, entry: int, number: int, several: bool) -> None:
        """Powers in place of scores; largest and sum of every bank."""
        apply, x = self.b.apply, Tensor(scores, count)
        apply(Operation.LARGEST, x, into=_TOP)
        apply(Operation.MAXIMUM, _TOP, LEAST, into=_TOP)
        if number:
            apply(Operation.MAXIMUM, _TOP, _ALL_TOP, into=_TOP)
            apply(Operation.SUBTRACT, _ALL_TOP, _TOP, into=_OLD)
            apply(Operation.EXPONENTIAL, _OLD, into=_OLD)
        apply(Operation.SUBTRACT, x, _TOP, into=x)
        apply(Operation.EXPONENTIAL, x, into=x)
        apply(Operation.SUM, x, into=_SUM)
        if number:
            apply(Operation.MULTIPLY, _ALL_SUM, _OLD, into=_ALL_SUM)
            apply(Operation.ADD, _ALL_SUM, _SUM, into=_ALL_SUM)
            sums = Tensor(entry, self.room.head_dim)
            apply(Operation.MULTIPLY, sums, _OLD, into=sums)
        else:
            apply(Operation.COPY, _SUM, into=_ALL_SUM)
        apply(Operation.COPY, _TOP, into=_ALL_TOP)
        if several:
            self._note(entry, _TOP, _SUM)

    def _add(self, entry: int) -> None:
        sums = Tensor(entry, self.room.head_dim)
        self.b.apply(Operation.ADD, sums, Tensor(self.room.spare, self.room.head_dim), into=sums)

    def _note(self, entry: int, top: Operand, total: Operand) -> None:
        """The largest score and the sum of every bank behind its channels."""
        ones, row = Tensor(self.room.ones, 1), entry + self.room.padded
        self.b.apply(Operation.MULTIPLY, ones, top, into=Tensor(row, 1))
        self.b.apply(Operation.MULTIPLY, ones, total, into=Tensor(row + 1, 1))

    # The banks of a query.

    def _entry(self, k: int) -> int:
        return self.room.entries + k * self.room.entry

    def _scratch_line(self, k: int) -> int:
        return self.scratch + k * self.scratch_lines

    def _keep(self, k: int, entry: int) -> None:
        self.b.emit(
            Opcode.STORE,
            memory=int(Memory.ACTIVATIONS),
            stride=1,
            row=entry,
            rows=self.room.padded + 2,
            line=self._scratch_line(k),
        )

    def _merge(self, k: int, query: Query) -> None:
        """The sums of all banks, each times its share of all powers."""
        room, b, rows = self.room, self.b, self.params.rows
        tops, sums = Tensor(room.tops, rows), Tensor(room.sums, rows)
        top, total = Scalar(6), Scalar(7)

        def work(row: int) -> None:
            for place, into in ((room.padded, tops), (room.padded + 1, sums)):
                b.attend(
                    Operation.DOTS,
                    row + place * rows,
                    room.ones,
                    into=into.row,
                    elements=1,
                    results=rows,
                )
            b.apply(Operation.LARGEST, tops, into=top)
            b.apply(Operation.SUBTRACT, tops, top, into=tops)
            b.apply(Operation.EXPONENTIAL, tops, into=tops)
            b.apply(Operation.DOT, tops, sums, into=total)
            b.apply(Operation.RECIPROCAL, total, into=total)
            b.apply(Operation.MULTIPLY, tops, total, into=tops)
            result = query.result if query.bank is None else room.spare
            b.attend(
                Operation.WEIGH,
                row,
                tops.row,
                into=result,
                elements=rows,
                results=room.words,
                pitch=rows,
            )
            if query.bank is not None:
                self._place(query)

        line = self._scratch_line(k)
        count = (room.padded + 2) * rows
        self._merges.append(_Item(Memory.BROADCAST, count, line, work, late=True))

    def _place(self, query: Query) -> None:
        """A result to one bank of its tensor."""
        room, b, own = self.room, self.b, Scalar(6)
        assert query.bank is not None
        spare, result = Tensor(room.spare, room.head_dim), Tensor(query.result, room.head_dim)
        b.apply(Operation.LARGEST, Tensor(room.banks + query.bank, 1), into=own)
        if query.clears:
            b.apply(Operation.MULTIPLY, spare, own, into=result)
        else:
            b.apply(Operation.MULTIPLY, spare, own, into=spare)
            b.apply(Operation.ADD, result, spare, into=result)

    # Moves.

    def _stream(self, line: int, tile: int, size: int, work: Callable[[int], None]) -> None:
        rows = size * self.room.words
        line += self.params.lines(Memory.ACTIVATIONS, tile * self.room.words)
        self._items.append(_Item(Memory.ACTIVATIONS, rows, line, work))

    def _load(self, item: _Item, row: int) -> None:
        self.b.emit(
            Opcode.LOAD,
            memory=int(item.memory),
            stride=1,
            row=row,
            rows=item.rows,
            line=item.line,
            line_index=self.index if item.memory is Memory.ACTIVATIONS else 0,
        )

    def _load_masks(self, lane: int) -> None:
        line = self.constants + Constants(self.params).mask(lane)
        self._load_rows(self.room.masks, self.params.rows, line)
        self._mask_lane = lane

    def _load_rows(self, row: int, rows: int, line: int) -> None:
        self.b.emit(
            Opcode.LOAD, memory=int(Memory.ACTIVATIONS), stride=1, row=row, rows=rows, line=line
        )
