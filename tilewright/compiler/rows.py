"""Rows of an on-chip memory, handed out and taken back as straight-line code is written.

Units hold the *regions* that they touch, and rows that are used again wait for their last reader.
So a buffer goes where it lies in one region, away from those that are used with it, and of several
such places into the one that was given back longest ago: successive parts of a matrix then rotate
through the memory, which is double buffering as deep as there is room.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

RECENT = 32  # buffers that were given back: which of those before them was first does not matter


class NoRoomError(ValueError):
    """A memory has no room for what a lowering asks for."""


class Place(NamedTuple):
    """Rows ``first`` to ``end - 1`` of a memory."""

    first: int
    end: int

    @property
    def rows(self) -> int:
        return self.end - self.first


class Rows:
    """One memory of ``depth`` rows in regions of ``region`` rows."""

    def __init__(self, name: str, depth: int, region: int):
        self.name, self.depth, self.region = name, depth, region
        self._free: list[tuple[int, int, int]] = [(0, depth, 0)]  # first, end, when given back
        self._clock = 0
        self.compact = False  # where room is short: first fit, whatever waits for it
        self.prefer = 0  # regions that are taken where they have room, a bit each
        self.peak: list[tuple[int, Place, bool]] = []  # when, what, taken: a map over time

    def take(self, rows: int, *, align: int = 1, apart: Iterable[Place] = ()) -> Place:
        """Find ``rows`` rows from a multiple of ``align`` on, in other regions than ``apart``."""
        avoided = 0
        for place in apart:
            avoided |= self._regions(place.first, place.end)
        outside = ~self.prefer if self.prefer else 0
        best: tuple[int, ...] | None = None
        for run in self._runs(rows):
            for first in self._candidates(run, rows, align):
                if self.compact:
                    cost: tuple[int, ...] = (first,)
                else:
                    own = self._regions(first, first + rows)
                    cost = ((own & outside).bit_count(), (own & avoided).bit_count())
                    cost = (*cost, own.bit_count())
                    if best is not None and cost > best[:3]:
                        continue
                    cost = (*cost, _given_back(run, first, first + rows), first)
                if best is None or cost < best:
                    best = cost
        if best is None:
            raise NoRoomError(f"{self.name}: no {rows} consecutive rows are free of {self.depth}")
        found = Place(best[-1], best[-1] + rows)
        self.take_at(found)
        return found

    @contextmanager
    def within(self, *regions: int) -> Iterator[None]:
        """Take rows of these regions while they have room."""
        before, self.prefer = self.prefer, sum(1 << region for region in regions)
        yield
        self.prefer = before

    @property
    def regions(self) -> int:
        return -(-self.depth // self.region)

    def take_at(self, place: Place) -> None:
        """Take rows that are free."""
        kept = []
        for first, end, stamp in self._free:
            if first < place.end and place.first < end:
                kept += [(first, place.first, stamp), (place.end, end, stamp)]
            else:
                kept.append((first, end, stamp))
        self._free = [part for part in kept if part[0] < part[1]]
        self.peak.append((self._clock, place, True))

    def give(self, place: Place) -> None:
        """Give rows back."""
        self._clock += 1
        old, merged = self._clock - RECENT, list[tuple[int, int, int]]()
        for first, end, stamp in sorted([*self._free, (place.first, place.end, self._clock)]):
            stamp = stamp if stamp > old else 0
            if merged and merged[-1][1] == first and merged[-1][2] == stamp:
                merged[-1] = merged[-1][0], end, stamp
            else:
                merged.append((first, end, stamp))
        self._free = merged
        self.peak.append((self._clock, place, False))

    @property
    def largest(self) -> int:
        """Most consecutive rows that are free."""
        best = run = end = 0
        for first, stop, _ in self._free:
            run = run + stop - first if first == end else stop - first
            end, best = stop, max(best, run)
        return best

    def _regions(self, first: int, end: int) -> int:
        """The regions of some rows, a bit each."""
        return (2 << (end - 1) // self.region) - (1 << first // self.region)

    def _runs(self, rows: int) -> Iterator[list[tuple[int, int, int]]]:
        """Runs of adjacent free parts that have ``rows`` rows or more in all."""
        run: list[tuple[int, int, int]] = []
        for part in [*self._free, (self.depth + 1, 0, 0)]:
            if run and run[-1][1] != part[0]:
                if run[-1][1] - run[0][0] >= rows:
                    yield run
                run = []
            run.append(part)

    def _candidates(self, run: list[tuple[int, int, int]], rows: int, align: int) -> Iterable[int]:
        """Rows where free parts or regions begin, or from which on rows end with them."""
        start, stop = run[0][0], run[-1][1]
        edges = {end for _, end, _ in run} | {start}
        edges.update(range(-(-start // self.region) * self.region, stop + 1, self.region))
        found = {-(-edge // align) * align for edge in edges}
        found.update((edge - rows) // align * align for edge in edges)
        return (first for first in found if start <= first <= stop - rows)


def _given_back(run: list[tuple[int, int, int]], first: int, end: int) -> int:
    """When the last of some rows of a run was given back."""
    last = 0
    for begin, stop, stamp in run:
        if begin >= end:
            break
        if stop > first and stamp > last:
            last = stamp
    return last
