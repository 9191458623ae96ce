"""Attention of a decoded token with a region of the buffer for merges: heads one behind the other.

:mod:`tilewright.golden.anda_machine.attention_writer` brings what is merged into the regions that K
and V stream through, and has all else in the same two regions, so that loads and merges of one head
hold up the next. Here everything that vector instructions need all the time is in one region, and
what is stored and comes back to be merged, with the results, in another, *aside*. While the scores
of a head are computed, the sums of the head before it come into the region aside; they are merged
before the head's own softmax, and the results leave during it. Behind the first head, whose keys
nothing waits beside, K and V stream in blocks of whole regions.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from tilewright.golden.anda_machine.attention_writer import (
    AttentionWriter,
    Cached,
    Query,
    Room,
    _Item,
)
from tilewright.golden.anda_machine.builder import Builder
from tilewright.golden.params.anda_machine import FP16_ROWS, Memory

__all__ = ["TokenRoom", "TokenWriter"]


@dataclass(frozen=True, kw_only=True)
class TokenRoom(Room):
    """``first`` to ``end`` are in one region, and ``aside`` is the first row of another."""

    aside: int
    queries: int  # of a head of keys
    begun: bool = False  # the first head's keys have come

    @property
    def fits(self) -> bool:
        """Whether at least one query has room."""
        groups = (self.end - self.entries - self.entry) // FP16_ROWS - 1
        return groups >= 1 and self.block >= 1 and self._most_aside >= 1

    @property
    def _most_aside(self) -> int:
        """Queries whose sums are in the region, beside results and what is merged of one."""
        rows = self.params.region_rows(Memory.ACTIVATIONS) - self.queries * self.padded
        return (rows - self.merged_rows) // self.entry

    @property
    def merged_rows(self) -> int:
        """Sums of all banks of a query."""
        return (self.padded + 2) * self.params.rows

    def result(self, k: int) -> int:
        """Where the result of a query of a head goes."""
        return self.aside + k * self.padded

    def sums_of(self, k: int) -> int:
        """Where the sums of a query of a group are."""
        return self.result(self.queries) + k * self.entry

    @cached_property
    def merged(self) -> list[int]:
        """Where sums of all banks come to."""
        first = self.sums_of(min(self.queries, self._most_aside))
        end = self.aside + self.params.region_rows(Memory.ACTIVATIONS)
        return list(range(first, end - self.merged_rows + 1, self.merged_rows))

    def block_of(self, tiles: int, queries: int) -> int:
        return self.block if self.begun else super().block_of(tiles, queries)

    def together(self, tiles: int) -> int:
        return max(1, min(super().together(tiles), self._most_aside))


class TokenWriter(AttentionWriter):
    """Attention of a token's heads; what ``then`` adds goes behind the results of a head."""

    room: TokenRoom

    def __init__(self, builder: Builder, room: TokenRoom, constants: int, scratch: int):
        super().__init__(builder, room, constants, scratch)
        self._before: dict[int, Callable[[], None]] = {}  # by number of the item

    def attend(self, cached: Cached, queries: Sequence[Query], *, scale: float = 1.0) -> None:
        super().attend(cached, queries, scale=scale)
        self.room = replace(self.room, begun=True)

    def first(self, work: Callable[[], None]) -> None:
        """Do something before the queries that are attended next."""
        self._before[len(self._items)] = work

    def flush(self) -> None:
        """Write everything; merges go behind the first instructions of the next head's scores."""
        items, last = self._items, self._merges
        self._items, self._merges = [], []
        self._load_rows(self.room.ones, 1 + self.params.rows, self.constants)
        if self._first_mask is not None:
            self._load_masks(self._first_mask)
        numbers = [k for k, item in enumerate(items) if not item.late]
        for turn, (number, end) in enumerate(zip(numbers, [*numbers[1:], len(items)], strict=True)):
            row, following = self.room.stream[turn % 2], self.room.stream[(turn + 1) % 2]
            if number in self._before:
                self._before[number]()
            if turn == 0:
                self._load(items[0], row)
            loads = [partial(self._load, items[end], following)] if end < len(items) else []
            self._write(items[number], row, items[number + 1 : end], loads)
        self._before = {}
        self._finish(last)

    def _finish(self, merges: list[_Item]) -> None:
        """Merge behind all heads, through the regions of the stream, which nothing else needs."""
        places = [self.room.stream[k % 2] for k in range(len(merges))]
        for k, (item, place) in enumerate(zip(merges, places, strict=True)):
            if k == 0:
                self._load(item, place)
            if k + 1 < len(merges):
                self._load(merges[k + 1], places[k + 1])
            item.work(place)

    def _entry(self, k: int) -> int:
        return self.room.sums_of(k)

    def _write(
        self, item: _Item, row: int, merges: list[_Item], loads: Sequence[Callable[[], None]]
    ) -> None:
        """An item's work with merges in between: each is loaded during one more instruction."""
        program = self.b.program
        start = len(program)
        item.work(row)
        work = program[start:]
        del program[start:]
        waiting, here = self._batches(merges), list[tuple[_Item, int]]()
        for number, instruction in enumerate(work):
            program.append(instruction)
            self._merge_all(here)
            here = self._bring(waiting)
            if number == 0:
                for load in loads:
                    load()
        while here:
            self._merge_all(here)
            here = self._bring(waiting)

    def _batches(self, merges: list[_Item]) -> deque[list[tuple[_Item, int]]]:
        """Merges that have room at the same time, with their places."""
        places = self.room.merged
        size = len(places)
        return deque(
            list(zip(merges[k : k + size], places, strict=False))
            for k in range(0, len(merges), size)
        )

    def _bring(self, waiting: deque[list[tuple[_Item, int]]]) -> list[tuple[_Item, int]]:
        """Load the next batch, if there is one."""
        batch = waiting.popleft() if waiting else []
        for item, place in batch:
            self._load(item, place)
        return batch

    def _merge_all(self, batch: list[tuple[_Item, int]]) -> None:
        for item, place in batch:
            item.work(place)
