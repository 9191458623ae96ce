"""Attention of a prompt's tokens on the vector lanes: each bank has a query, all see the same keys.

A token tile of queries lies as a gemm leaves it, bank r with the query of token r. Keys and values
come into every bank, *block* after block of a region, and each lane sums its own query's products:
nothing has to be merged between banks. A block meets many tiles of queries, of all heads that share
it, before the next one takes its place; that one comes beside them, a row of a tile of tokens a
load, since the words of a token shall lie side by side.

Scores of a *part* of the context stay on chip. Of longer contexts the results of the parts are
scaled and added as those of a streamed softmax are. A query sees the tokens up to itself: of its
own tile, a mask takes away those behind it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.anda_machine.attention_writer import written_rows
from tilewright.golden.anda_machine.builder import Builder, Scalar, Tensor
from tilewright.golden.anda_machine.isa import Instruction, words_of
from tilewright.golden.anda_machine.layout import to_bytes, word_dtype
from tilewright.golden.bits import encode
from tilewright.golden.params.anda_machine import FP16_ROWS, AndaParams, Memory, Opcode
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.vector import Operation

__all__ = [
    *("PromptConstants", "PromptItem", "PromptJob", "PromptRoom", "PromptWriter"),
    "queries_in_banks",
]

PART = 512  # keys: many enough that scaling costs little, few enough for many tiles of queries
_FEW = 4  # tiles of queries at a time: with fewer, the next block comes too late
_TOP, _SUM, _ALL_TOP, _ALL_SUM, _OLD = (Scalar(k) for k in range(5))


def queries_in_banks(params: AndaParams) -> bool:
    """Whether rows of keys can be loaded one by one, and tiles of keys begin with a word."""
    row = params.row_bits(Memory.ACTIVATIONS)
    return row % params.line_bits == 0 and params.rows % params.vector.row_lanes == 0


@dataclass(frozen=True)
class PromptConstants:
    """A row of ones, and the mask of a tile: bank r has -inf for the tokens behind token r."""

    params: AndaParams

    @property
    def rows(self) -> int:
        """With room for whole groups behind both."""
        return 2 * FP16_ROWS

    @property
    def lines(self) -> int:
        return self.params.lines(Memory.ACTIVATIONS, self.rows)

    def data(self) -> NDArray[np.uint8]:
        p = self.params
        values = np.zeros((self.rows, p.rows, p.vector.row_lanes), np.uint16)
        values[0] = int(encode(FP16, 1.0))
        mask = np.zeros((p.rows, FP16_ROWS * p.vector.row_lanes), np.uint16)
        hidden = np.arange(p.rows) > np.arange(p.rows)[:, np.newaxis]
        mask[:, : p.rows][hidden] = 0x8000 | (FP16.infinity_bits or 0)
        values[FP16_ROWS:] = mask.reshape(p.rows, FP16_ROWS, -1).swapaxes(0, 1)
        return to_bytes(p, Memory.ACTIVATIONS, values.view(word_dtype(p))[..., 0])


class PromptItem(NamedTuple):
    """A token tile of queries of one head."""

    query: int  # line
    result: int  # line
    tiles: int  # of keys that it sees; the last is its own


@dataclass(frozen=True, kw_only=True)
class PromptRoom:
    """Rows of the activation buffer: two regions of keys or values, then all else."""

    params: AndaParams
    head_dim: int
    longest: int  # tiles of keys

    def __post_init__(self) -> None:
        fits = self.block_tiles >= 1 and self.together >= 1
        require(fits, "the activation buffer has no room for the attention of a prompt")

    @cached_property
    def _region(self) -> int:
        return self.params.region_rows(Memory.ACTIVATIONS)

    @cached_property
    def _words(self) -> int:
        return words_of(self.params, self.head_dim)

    @cached_property
    def padded(self) -> int:
        """Rows of a head's channels that a vector instruction writes: whole groups."""
        return written_rows(self.params, self.head_dim)

    @property
    def _kept(self) -> int:
        """Sums of a tile of queries, their largest score and sum, and what these clear."""
        return self.padded + 1 + FP16_ROWS

    @cached_property
    def block_tiles(self) -> int:
        """Tiles of keys in a region; a field of an instruction counts their tokens."""
        return min(self._region // self._words, 255) // self.params.rows

    @cached_property
    def part_tiles(self) -> int:
        """Tiles of keys whose scores stay: whole blocks, fewer where the buffer is small."""
        most = max(1, PART // (self.block_tiles * self.params.rows))
        for blocks in range(most, 1, -1):
            tiles = min(blocks * self.block_tiles, self.longest)
            if self._free // self._item_rows(tiles) >= _FEW:
                return tiles
        return min(self.block_tiles, self.longest)

    def _item_rows(self, part: int) -> int:
        """Rows of a tile of queries with the scores of so many tiles of keys."""
        return self._words + self._kept + self._score_rows(part)

    def _score_rows(self, tiles: int) -> int:
        """Scores, in whole groups, and what the mask of the last tile clears."""
        p = self.params
        return (-(-tiles * p.rows // p.group) + 1) * FP16_ROWS

    @property
    def ones(self) -> int:
        return 2 * self._region

    @property
    def mask(self) -> int:
        return self.ones + FP16_ROWS

    @property
    def spare(self) -> int:
        """Results of a block, in another region than the sums that they are added to."""
        return self.mask + FP16_ROWS

    @property
    def _first(self) -> int:
        return self.spare + self.padded

    @property
    def _free(self) -> int:
        return self.params.activation_rows - self._first

    @cached_property
    def together(self) -> int:
        """Tiles of queries that are worked on at a time."""
        return self._free // self._item_rows(self.part_tiles)

    @cached_property
    def group(self) -> int:
        """Tiles of queries that begin together where there are more: they end with whole blocks."""
        block = self.block_tiles
        return self.together // block * block or self.together

    def period(self, sharing: int) -> int:
        """Tiles of a context behind which groups and parts both begin anew, of so many heads."""
        return self.part_tiles * (self.group // gcd(self.group, self.part_tiles * sharing))

    def query(self, k: int) -> int:
        return self._first + k * self._words

    def scores(self, k: int) -> int:
        return self.query(self.together) + k * self._score_rows(self.part_tiles)

    def sums(self, k: int) -> int:
        return self.params.activation_rows - (k + 1) * self._kept


class PromptJob(NamedTuple):
    """A block of keys or values, and the tiles of queries that meet it."""

    line: int  # of the head's keys or values
    block: range  # tiles of tokens
    first: int  # tile of the part
    keys: bool
    group: Sequence[PromptItem]


class PromptWriter:
    """Writes the attention of tiles of queries, each of heads that share keys and values."""

    def __init__(self, builder: Builder, room: PromptRoom, constants: int, scale: float):
        self.b, self.room, self.params = builder, room, builder.params
        self.constants, self.scale = constants, scale
        self.words = words_of(self.params, room.head_dim)
        self._known: dict[tuple[int, range, int], list[Instruction]] = {}  # every group has these

    def write(self, heads: Iterable[tuple[tuple[int, int], Sequence[PromptItem]]]) -> None:
        """Items of every head, whose keys and values begin at these lines."""
        jobs = [job for lines, items in heads for job in self.jobs(lines, items)]
        self.begin(jobs[0])
        for number in range(len(jobs)):
            self.work(jobs, number)

    def jobs(self, lines: tuple[int, int], items: Sequence[PromptItem]) -> Iterator[PromptJob]:
        """Return the work on one head, in its order."""
        for group in self._groups(items):
            yield from self._jobs(lines, group)

    def begin(self, job: PromptJob) -> None:
        """Constants, and the block of the first of all jobs."""
        self._load(self.room.ones, PromptConstants(self.params).rows, self.constants)
        self.b.program += self._loads(job, 0)

    def work(self, jobs: Sequence[PromptJob], number: int) -> None:
        """One of all jobs; beside it the next one's block comes."""
        job = jobs[number]
        if number == 0 or job.group is not jobs[number - 1].group:
            for k, item in enumerate(job.group):
                self._load(self.room.query(k), self.words, item.query)
        begin = len(self.b.program)
        if job.keys:
            self._scores(job, number % 2 * self._region)
        else:
            self._values(job, number % 2 * self._region)
        if number + 1 < len(jobs):
            self._interleave(begin, self._loads(jobs[number + 1], (number + 1) % 2 * self._region))
        if number + 1 == len(jobs) or job.group is not jobs[number + 1].group:
            self._finish(job.group)

    @property
    def _region(self) -> int:
        return self.params.region_rows(Memory.ACTIVATIONS)

    def _groups(self, items: Sequence[PromptItem]) -> Iterator[Sequence[PromptItem]]:
        """Tiles of queries at a time."""
        count = self.room.together if len(items) <= self.room.together else self.room.group
        for first in range(0, len(items), count):
            yield items[first : first + count]

    def _jobs(self, lines: tuple[int, int], group: Sequence[PromptItem]) -> Iterator[PromptJob]:
        """Tiles of keys, then of values, part by part."""
        longest = max(item.tiles for item in group)
        part, size = self.room.part_tiles, self.room.block_tiles
        for first in range(0, longest, part):
            end = min(first + part, longest)
            for line in lines:
                for begin in range(first, end, size):
                    block = range(begin, min(begin + size, end))
                    yield PromptJob(line, block, first, line == lines[0], group)

    # Loads beside the work.

    def _loads(self, job: PromptJob, row: int) -> list[Instruction]:
        """What brings a block into every bank: a word of all tokens of a tile at a time."""
        known = self._known.get((job.line, job.block, row))
        if known is not None:
            return known
        p, words, loads = self.params, self.words, list[Instruction]()
        for k, tile in enumerate(job.block):
            for word in range(words):
                fields = {
                    "memory": int(Memory.BROADCAST),
                    "stride": words,
                    "row": row + k * p.rows * words + word,
                    "rows": p.rows,
                    "line": job.line + p.lines(Memory.ACTIVATIONS, tile * words + word),
                }
                loads.append(Instruction(Opcode.LOAD, fields))
        self._known[job.line, job.block, row] = loads
        return loads

    def _interleave(self, begin: int, loads: Sequence[Instruction]) -> None:
        """Loads go between the sums written from ``begin`` on, in proportion to their length.

        Instructions begin in the order of the program: many loads behind one sum would keep the
        vector unit waiting.
        """
        work = self.b.program[begin:]
        del self.b.program[begin:]
        total, done, sent = sum(map(_length, work)), 0, 0
        for x in work:
            self.b.program.append(x)
            done += _length(x)
            share = len(loads) * done // total
            self.b.program += loads[sent:share]
            sent = share

    # Work on a block.

    def _seen(self, item: PromptItem, job: PromptJob) -> int:
        """Tokens of the block that the last query of a tile sees."""
        return min(len(job.block), item.tiles - job.block.start) * self.params.rows

    def _scores(self, job: PromptJob, row: int) -> None:
        p, room = self.params, self.room
        lanes = p.vector.row_lanes
        for k, item in enumerate(job.group):
            seen = self._seen(item, job)
            if seen <= 0:
                continue
            place = room.scores(k) + (job.block.start - job.first) * p.rows // lanes
            self.b.attend(
                Operation.DOTS,
                row,
                room.query(k),
                into=place,
                elements=room.head_dim,
                results=seen,
                pitch=self.words,
                scale=self.scale,
            )
            if item.tiles in range(job.block.start + 1, job.block.stop + 1):
                own = Tensor(place + (seen - p.rows) // lanes, p.rows)
                self.b.apply(Operation.ADD, own, Tensor(room.mask, p.rows), into=own)

    def _values(self, job: PromptJob, row: int) -> None:
        p, room = self.params, self.room
        for k, item in enumerate(job.group):
            seen = self._seen(item, job)
            if seen <= 0:
                continue
            starts = job.block.start == job.first
            if starts:
                self._softmax(k, item, job.first)
            fresh = starts and job.first == 0
            self.b.attend(
                Operation.WEIGH,
                row,
                room.scores(k) + (job.block.start - job.first) * p.rows // p.vector.row_lanes,
                into=room.sums(k) if fresh else room.spare,
                elements=seen,
                results=self.words,
                step=self.words,
            )
            if not fresh:
                sums = Tensor(room.sums(k), room.head_dim)
                self.b.apply(Operation.ADD, sums, Tensor(room.spare, room.head_dim), into=sums)

    def _softmax(self, k: int, item: PromptItem, first: int) -> None:
        """Powers of a part in place of its scores; largest and sum behind the query's sums."""
        apply, room = self.b.apply, self.room
        tiles = min(item.tiles - first, room.part_tiles)
        x = Tensor(room.scores(k), tiles * self.params.rows)
        ones, top = Tensor(room.ones, 1), Tensor(room.sums(k) + room.padded, 1)
        total = Tensor(top.row + 1, 1)
        apply(Operation.LARGEST, x, into=_TOP)
        if first:
            apply(Operation.LARGEST, top, into=_ALL_TOP)
            apply(Operation.LARGEST, total, into=_ALL_SUM)
            apply(Operation.MAXIMUM, _TOP, _ALL_TOP, into=_TOP)
            apply(Operation.SUBTRACT, _ALL_TOP, _TOP, into=_OLD)
            apply(Operation.EXPONENTIAL, _OLD, into=_OLD)
        apply(Operation.SUBTRACT, x, _TOP, into=x)
        apply(Operation.EXPONENTIAL, x, into=x)
        apply(Operation.SUM, x, into=_SUM)
        if first:
            apply(Operation.MULTIPLY, _ALL_SUM, _OLD, into=_ALL_SUM)
            apply(Operation.ADD, _SUM, _ALL_SUM, into=_SUM)
            sums = Tensor(room.sums(k), room.head_dim)
            apply(Operation.MULTIPLY, sums, _OLD, into=sums)
        if item.tiles > first + room.part_tiles:
            apply(Operation.MULTIPLY, ones, _TOP, into=top)
        apply(Operation.MULTIPLY, ones, _SUM, into=total)

    def _finish(self, group: Sequence[PromptItem]) -> None:
        """Sums over that of their powers go out."""
        room = self.room
        for k in range(len(group)):
            sums = Tensor(room.sums(k), room.head_dim)
            self.b.apply(Operation.LARGEST, Tensor(sums.row + room.padded + 1, 1), into=_SUM)
            self.b.apply(Operation.RECIPROCAL, _SUM, into=_SUM)
            self.b.apply(Operation.MULTIPLY, sums, _SUM, into=sums)
        for k, item in enumerate(group):
            self._move(Opcode.STORE, room.sums(k), self.words, item.result)

    def _load(self, row: int, rows: int, line: int) -> None:
        self._move(Opcode.LOAD, row, rows, line)

    def _move(self, opcode: Opcode, row: int, rows: int, line: int) -> None:
        memory = int(Memory.ACTIVATIONS)
        self.b.emit(opcode, memory=memory, stride=1, row=row, rows=rows, line=line)


def _length(x: Instruction) -> int:
    """Beats of a sum of many; what is shorter counts as nothing."""
    if x.opcode is not Opcode.VECTOR or not Operation(x["operation"]).attends:
        return 0
    return x["results"] * x["elements"]
