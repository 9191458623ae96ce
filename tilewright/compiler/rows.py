"""Rows of an on-chip memory, handed out and taken back as straight-line code is written.

Units hold the *regions* that they touch, and rows that are used again wait for their last reader.
So a buffer goes where it lies in one region, away from those that are used with it, and of several
such places into the one that was given back longest ago: successive parts of a matrix then rotate
through the memory, which is double buffering as deep as there is room.
"""

from bisect import insort
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
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

    align = 1  # of every place at least

    def __init__(self, name: str, depth: int, region: int):
        self.name, self.depth, self.region = name, depth, region
        self._free: list[tuple[int, int, int]] = [(0, depth, 0)]  # first, end, when given back
        self._clock = 0
        self.compact = False  # where room is short: first fit, whatever waits for it
        self.prefer = 0  # regions that are taken where they have room, a bit each

    def take(self, rows: int, *, align: int = 0, apart: Iterable[Place] = ()) -> Place:
        """Find ``rows`` rows, from a multiple of ``align`` on, in other regions than ``apart``."""
        align = max(align, self.align)
        avoided = 0
        for place in apart:
            avoided |= _regions(self.region, place.first, place.end)
        now = self._clock + 1
        free = tuple(
            [(first, end, max(stamp - now, _LONG_AGO)) for first, end, stamp in self._free]
        )
        if self.compact:
            first = _first_fit(free, rows, align)
        else:
            first = _best_fit(self.region, free, rows, align, self.prefer, avoided)
        if first is None:
            raise NoRoomError(f"{self.name}: no {rows} consecutive rows are free of {self.depth}")
        found = Place(first, first + rows)
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
        begin, stop = place
        left = []
        for part in self._free:
            first, end, stamp = part
            if end <= begin or stop <= first:
                left.append(part)
                continue
            if first < begin:
                left.append((first, begin, stamp))
            if stop < end:
                left.append((stop, end, stamp))
        self._free = left

    def give(self, place: Place) -> None:
        """Give rows back."""
        self._clock += 1
        old, merged = self._clock - RECENT, list[tuple[int, int, int]]()
        insort(self._free, (place.first, place.end, self._clock))
        last, before = -1, 0  # end and stamp of the part before
        for part in self._free:
            first, end, stamp = part
            if stamp and stamp <= old:
                stamp, part = 0, (first, end, 0)
            if first == last and stamp == before:
                merged[-1] = merged[-1][0], end, stamp
            else:
                merged.append(part)
            last, before = end, stamp
        self._free = merged


_LONG_AGO = -RECENT - 1
_Free = tuple[tuple[int, int, int], ...]  # first, end, when given back: -1 is the latest


def _regions(region: int, first: int, end: int) -> int:
    """The regions of some rows, a bit each."""
    return (2 << (end - 1) // region) - (1 << first // region)


def _runs(free: _Free, rows: int) -> Iterator[_Free]:
    """Runs of adjacent free parts that have ``rows`` rows or more in all."""
    begin = 0
    for k, (_, end, _) in enumerate(free, 1):
        if k == len(free) or free[k][0] != end:
            if end - free[begin][0] >= rows:
                yield free[begin:k]
            begin = k


def _first_fit(free: _Free, rows: int, align: int) -> int | None:
    for run in _runs(free, rows):
        first = -(-run[0][0] // align) * align
        if first + rows <= run[-1][1]:
            return first
    return None


@lru_cache(maxsize=1 << 16)  # programs of many contexts ask for the same
def _best_fit(
    region: int, free: _Free, rows: int, align: int, preferred: int, avoided: int
) -> int | None:
    """The least of the rows outside the preferred regions, in avoided ones, in several regions;
    of those, the one that was given back longest ago."""
    outside = ~preferred if preferred else 0
    least, equal = 1 << 48, list[tuple[_Free, int]]()
    for run in _runs(free, rows):
        for first in _candidates(region, run, rows, align):
            own = (2 << (first + rows - 1) // region) - (1 << first // region)
            cost = (own & outside).bit_count() << 32 | (own & avoided).bit_count() << 16
            cost |= own.bit_count()
            if cost < least:
                least, equal = cost, [(run, first)]
            elif cost == least:
                equal.append((run, first))
    if len(equal) < 2:
        return equal[0][1] if equal else None
    return min([(_given_back(run, first, first + rows), first) for run, first in equal])[1]


def _candidates(region: int, run: _Free, rows: int, align: int) -> set[int]:
    """Rows where free parts or regions begin, or from which on rows end with them."""
    start, last = run[0][0], run[-1][1] - rows
    edges = {start, *range(-(-start // region) * region, last + rows + 1, region)}
    edges.update([end for _, end, _ in run])
    if align == 1:
        ending = {edge - rows for edge in edges if edge - rows > start}
        return ending.union([edge for edge in edges if edge <= last])
    found = {-(-edge // align) * align for edge in edges}
    found.update([(edge - rows) // align * align for edge in edges])
    return {first for first in found if start <= first <= last}


def _given_back(run: _Free, first: int, end: int) -> int:
    """When the last of some rows of a run was given back."""
    last = _LONG_AGO
    for begin, stop, stamp in run:
        if begin >= end:
            break
        if stop > first and stamp > last:
            last = stamp
    return last
