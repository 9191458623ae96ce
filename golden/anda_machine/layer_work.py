"""What a decoder layer does between its products, as programs: norms, rotation, cache, SiLU.

Tensors are fp16 in external memory, token tile after token tile of rows, as a gemm leaves them, and
pass the chip in *pieces*. A piece has two quarters of the activation buffer, so that operations of
two tensors read both in every cycle; beside it the results of the piece before leave and those of
the next come. What the next product takes is compressed on its way.

A decoded token of a sequence lies in a bank of a token tile that it shares with others. Its key and
value go into the bank that its position has in the cache, its query into every bank, and what
attention leaves in every bank comes back into its own (:meth:`LayerWork.append`,
:meth:`LayerWork.spread`, :meth:`LayerWork.gather`).
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.anda_machine.builder import Builder, Scalar, Tensor
from tilewright.golden.anda_machine.isa import Instruction, groups_of, words_of
from tilewright.golden.anda_machine.layout import to_bytes, word_dtype
from tilewright.golden.bits import encode
from tilewright.golden.params.anda_machine import (
    FP16_ROWS,
    AndaParams,
    Memory,
    Opcode,
    group_rows,
)
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.vector import Operation

__all__ = ["LayerWork", "bank_constants"]

Write: TypeAlias = Callable[[], None]  # one instruction
_LEAST_CHUNKS = 4  # of a token tile, where they fill lines, so that units overlap in one
_SUMS, _SQUARES = (Scalar(0), Scalar(1)), Scalar(2)  # of even and of odd token tiles


class _Piece(NamedTuple):
    """What one piece needs, unit by unit."""

    loads: list[Write]
    work: list[Write]
    stores: list[Write]
    apart: bool = False  # what the piece in the same place loads leaves alone what this one stores


def bank_constants(params: AndaParams) -> NDArray[np.uint8]:
    """A row of ones, then ``rows`` rows with a one in a single bank."""
    p = params
    values = np.zeros((1 + p.rows, p.rows, p.vector.row_lanes), np.uint16)
    values[0] = one = int(encode(FP16, 1.0))
    for bank in range(p.rows):
        values[1 + bank, bank] = one
    return to_bytes(p, Memory.ACTIVATIONS, values.view(word_dtype(p))[..., 0])


class LayerWork:
    """Programs of the work between products; lines are where the caller has put the tensors.

    A tensor has :meth:`tensor_lines` for each token tile, activations have
    :meth:`activation_lines`. ``run`` is how many rows of a product's results lie side by side: no
    load of them moves more.
    """

    def __init__(self, params: AndaParams, run: int | None = None):
        self.b, self.params = Builder(params), params
        self.quarter = params.activation_rows // 4
        self.run = run or self.quarter

    @property
    def program(self) -> list[Instruction]:
        return self.b.program

    # Sizes.

    def rows_of(self, elements: int) -> int:
        """Rows of a token tile in fp16: whole groups."""
        return groups_of(self.params, elements) * FP16_ROWS

    def tensor_lines(self, elements: int) -> int:
        """Lines of a token tile in fp16."""
        return self.params.lines(Memory.ACTIVATIONS, self.rows_of(elements))

    def activation_lines(self, elements: int, mantissa: int) -> int:
        """Lines of a token tile in Anda format: its rows, then its exponents."""
        p, groups = self.params, groups_of(self.params, elements)
        rows = p.lines(Memory.ACTIVATIONS, groups * group_rows(mantissa))
        return rows + p.lines(Memory.EXPONENTS, groups)

    def _tiles(self, tokens: int) -> range:
        return range(-(-tokens // self.params.rows))

    def _cut(self, elements: int, share: int = 1) -> list[tuple[int, int]]:
        """First group and groups of every chunk, each at most a part of a quarter."""
        p, groups = self.params, groups_of(self.params, elements)
        most = self.quarter // share // FP16_ROWS
        # What is stored of a chunk begins with a line in every memory.
        unit = max(1, p.line_bits // min(map(p.row_bits, (Memory.ACTIVATIONS, Memory.EXPONENTS))))
        wanted = -(-groups // (_LEAST_CHUNKS * unit)) * unit
        size = min(wanted, most // unit * unit) or (most if groups <= most else 0)
        require(size > 0, f"{elements} values of a token tile do not fit {p.activation_rows} rows")
        return [(k, min(size, groups - k)) for k in range(0, groups, size)]

    def _places(self, number: int) -> tuple[int, int]:
        """First rows of the two quarters of a piece."""
        first = number % 2 * 2 * self.quarter
        return first, first + self.quarter

    # Moves.

    def _move(
        self, opcode: Opcode, memory: Memory, row: int, rows: int, line: int, stride: int = 1
    ) -> None:
        self.b.emit(opcode, memory=int(memory), stride=stride, row=row, rows=rows, line=line)

    def _bring(self, row: int, rows: int, line: int) -> list[Write]:
        """Loads of rows that products have left."""
        p, moves = self.params, list[Write]()
        for first in range(0, rows, self.run):
            at = line + p.lines(Memory.ACTIVATIONS, first)
            some = min(self.run, rows - first)
            moves.append(partial(self._load, row + first, some, at))
        return moves

    def _load(self, row: int, rows: int, line: int) -> None:
        self._move(Opcode.LOAD, Memory.ACTIVATIONS, row, rows, line)

    def _spread(self, row: int, rows: int, line: int) -> None:
        """Load rows into every bank: a word of all of them in turn."""
        self._move(Opcode.LOAD, Memory.BROADCAST, row, rows * self.params.rows, line)

    def _keep(self, row: int, rows: int, line: int) -> None:
        self._move(Opcode.STORE, Memory.ACTIVATIONS, row, rows, line)

    def _keep_activations(
        self, row: int, groups: int, mantissa: int, line: int, first: int, all_groups: int
    ) -> list[Write]:
        """Stores of compressed groups from ``first`` on to a token tile of ``all_groups``."""
        p, rows = self.params, group_rows(mantissa)
        place = line + p.lines(Memory.ACTIVATIONS, first * rows)
        behind = line + p.lines(Memory.ACTIVATIONS, all_groups * rows)
        exponents = behind + p.lines(Memory.EXPONENTS, first)
        move = partial(self._move, Opcode.STORE)
        return [
            partial(move, Memory.ACTIVATIONS, row, groups * rows, place),
            partial(move, Memory.EXPONENTS, row, groups, exponents, rows),
        ]

    def _pipeline(self, pieces: Sequence[_Piece]) -> None:
        """Pieces one behind the other, each unit on another of them."""
        none = _Piece([], [], [])
        padded = [none, none, *pieces, none, none]
        for before, piece, following in zip(padded, padded[1:], padded[2:], strict=False):
            moves, done = [*before.stores, *following.loads], 0
            if before.apart:
                pairs = zip_longest(before.stores, following.loads)
                moves = [write for pair in pairs for write in pair if write is not None]
            for k, write in enumerate(piece.work, 1):
                write()
                share = len(moves) * k // len(piece.work)
                for move in moves[done:share]:
                    move()
                done = share
            for move in moves[done:]:
                move()
        self.b.halt()

    # Norms.

    def norm(
        self,
        tokens: int,
        elements: int,
        *,
        mantissa: int,
        source: int,
        gain: int,
        results: int,
        added: int | None = None,
        epsilon: float = 1e-5,
    ) -> None:
        """Root mean square norm of every token, compressed, at line ``results``.

        With ``added``, that tensor is added to the source first, and the sum is left in its place.
        The gain lies as one token's values do that go into every bank. Squares of a token tile are
        summed in turn with the one before it being scaled.
        """
        chunks, tiles = self._cut(elements), len(self._tiles(tokens))
        self.b.configure(0, mantissa)
        pieces: list[_Piece] = []
        for tile in range(tiles + 1):
            for k in range(len(chunks)):
                # A piece of its own for each, so that sums are stored before they come again.
                summed = scaled = _Piece([], [], [])
                if tile < tiles:
                    line = source + tile * self.tensor_lines(elements)
                    other = None
                    if added is not None:
                        other = added + tile * self.tensor_lines(elements)
                    summed = self._squares(k, chunks, elements, tile, line, other, len(pieces))
                    if k + 1 == len(chunks):
                        summed.work.extend(self._root(tile, epsilon))
                pieces.append(summed)
                if tile:
                    line = source + (tile - 1) * self.tensor_lines(elements)
                    at = results + (tile - 1) * self.activation_lines(elements, mantissa)
                    number = len(pieces)
                    scaled = self._scaled(
                        chunks[k], elements, tile - 1, line, gain, at, mantissa, number
                    )
                pieces.append(scaled)
        self._pipeline(pieces)

    def _elements(self, chunk: tuple[int, int], elements: int) -> int:
        """Values of a chunk."""
        first, groups = (count * self.params.group for count in chunk)
        return min(groups, elements - first)

    def _squares(
        self,
        k: int,
        chunks: Sequence[tuple[int, int]],
        elements: int,
        tile: int,
        line: int,
        added: int | None,
        number: int,
    ) -> _Piece:
        """A chunk's part of the mean square."""
        (first, groups), (row, other) = chunks[k], self._places(number)
        x, rows = Tensor(row, self._elements(chunks[k], elements)), groups * FP16_ROWS
        offset = self.params.lines(Memory.ACTIVATIONS, first * FP16_ROWS)
        piece = _Piece(self._bring(row, rows, line + offset), [], [])
        apply = self.b.apply
        if added is not None:
            piece.loads.extend(self._bring(other, rows, added + offset))
            second = Tensor(other, x.elements)
            piece.work.append(partial(apply, Operation.ADD, x, second, into=x))
            piece.stores.append(partial(self._keep, row, rows, line + offset))
        total = _SUMS[tile % 2]
        part = _SQUARES if k else total
        piece.work.append(partial(apply, Operation.DOT, x, x, into=part, scale=1 / elements))
        if k:
            piece.work.append(partial(apply, Operation.ADD, total, part, into=total))
        return piece

    def _root(self, tile: int, epsilon: float) -> list[Write]:
        """The reciprocal root of a sum of squares, in its place."""
        total, apply = _SUMS[tile % 2], self.b.apply
        return [
            partial(apply, Operation.ADD, total, epsilon, into=total),
            partial(apply, Operation.RECIPROCAL_ROOT, total, into=total),
        ]

    def _scaled(
        self,
        chunk: tuple[int, int],
        elements: int,
        tile: int,
        line: int,
        gain: int,
        results: int,
        mantissa: int,
        number: int,
    ) -> _Piece:
        """A chunk times the reciprocal root and the gain, compressed."""
        p, (first, groups), (row, other) = self.params, chunk, self._places(number)
        x, rows = Tensor(row, self._elements(chunk, elements)), groups * FP16_ROWS
        factors = gain + p.lines(Memory.BROADCAST, first * FP16_ROWS)
        offset = p.lines(Memory.ACTIVATIONS, first * FP16_ROWS)
        loads: list[Write] = [
            partial(self._load, row, rows, line + offset),
            partial(self._move, Opcode.LOAD, Memory.BROADCAST, other, rows, factors),
        ]
        multiply = partial(self.b.apply, Operation.MULTIPLY, x)
        work: list[Write] = [
            partial(multiply, _SUMS[tile % 2], into=x),
            partial(multiply, Tensor(other, x.elements), into=x),
            partial(self._compress, x, other),
        ]
        all_groups = groups_of(p, elements)
        stores = self._keep_activations(other, groups, mantissa, results, first, all_groups)
        return _Piece(loads, work, stores)

    def _compress(self, x: Tensor, row: int) -> None:
        self.b.emit(Opcode.COMPRESS, source=x.row, destination=row, elements=x.elements)

    # Rotation, and the cache of a prompt.

    def rotate(
        self,
        tokens: int,
        heads: int,
        channels: int,
        *,
        source: int,
        table: int,
        cache: Sequence[int] | None = None,
    ) -> None:
        """Rotary embedding of heads: x times cosines, plus x with halves changed times sines.

        The table has, for each token tile, a tensor of cosines and one of sines for all heads, the
        sines of first halves negative. Results take the tensor's place, or go to the lines of the
        ``cache``, tile after tile of each head.
        """
        p, words = self.params, words_of(self.params, channels)
        half = words // 2
        whole = channels % (2 * p.vector.row_lanes) == 0
        whole = whole and half * p.row_bits(Memory.ACTIVATIONS) % p.line_bits == 0
        require(whole, f"halves of {channels} channels do not fill lines of {p.line_bytes} bytes")
        most = self.quarter // 2 // FP16_ROWS * FP16_ROWS // words
        require(most > 0, f"heads of {channels} channels do not fit {p.activation_rows} rows")
        lines, pieces = self.tensor_lines(heads * channels), list[_Piece]()
        for tile in self._tiles(tokens):
            for first in range(0, heads, most):
                count = min(most, heads - first)
                rows, offset = count * words, p.lines(Memory.ACTIVATIONS, first * words)
                row, other = self._places(len(pieces))
                sines, cosines = row + self.quarter // 2, other + self.quarter // 2
                line, factors = source + tile * lines + offset, table + 2 * tile * lines + offset
                loads = self._bring(row, rows, line)
                for head in range(count):
                    for to, origin in ((0, half), (half, 0)):
                        at = line + p.lines(Memory.ACTIVATIONS, head * words + origin)
                        loads.append(partial(self._load, other + head * words + to, half, at))
                loads.append(partial(self._load, cosines, rows, factors))
                loads.append(partial(self._load, sines, rows, factors + lines))
                elements = count * channels
                x, y = Tensor(row, elements), Tensor(other, elements)
                multiply = partial(self.b.apply, Operation.MULTIPLY)
                work: list[Write] = [
                    partial(multiply, x, Tensor(cosines, elements), into=x),
                    partial(multiply, y, Tensor(sines, elements), into=y),
                    partial(self.b.apply, Operation.ADD, x, y, into=x),
                ]
                if cache is None:
                    stores: list[Write] = [partial(self._keep, row, rows, line)]
                else:
                    stores = self._to_cache(row, cache[first : first + count], words, tile)
                pieces.append(_Piece(loads, work, stores))
        self._pipeline(pieces)

    def _to_cache(self, row: int, heads: Sequence[int], words: int, tile: int) -> list[Write]:
        """A token tile of heads side by side to where each of them has its own."""
        at = tile * self.params.lines(Memory.ACTIVATIONS, words)
        return [partial(self._keep, row + k * words, words, x + at) for k, x in enumerate(heads)]

    def place(self, tokens: int, channels: int, *, source: int, cache: Sequence[int]) -> None:
        """A tensor of heads to the lines of the cache, tile after tile of each head."""
        words, pieces = words_of(self.params, channels), list[_Piece]()
        lines = self.tensor_lines(len(cache) * channels)
        most = self.quarter // words
        for tile in self._tiles(tokens):
            for first in range(0, len(cache), most):
                some, (row, _) = cache[first : first + most], self._places(len(pieces))
                offset = self.params.lines(Memory.ACTIVATIONS, first * words)
                loads = self._bring(row, len(some) * words, source + tile * lines + offset)
                pieces.append(_Piece(loads, [], self._to_cache(row, some, words, tile)))
        self._pipeline(pieces)

    # Tokens that are decoded, in banks of one token tile.

    def spread(
        self, channels: int, *, source: int, ones: int, results: Sequence[Sequence[int]]
    ) -> None:
        """Heads of a token tile into every bank: lines of ``results`` by head and bank.

        ``ones`` is the line of :func:`bank_constants`.
        """
        self._heads(channels, source, ones, results, None)

    def append(
        self,
        channels: int,
        *,
        source: int,
        ones: int,
        cache: Sequence[Sequence[int]],
        places: Sequence[int],
    ) -> None:
        """Heads of a token tile into tiles of the cache, at lines by head and bank.

        The token of a bank goes into the bank ``places`` says, in which its tile has zeros.
        """
        self._heads(channels, source, ones, cache, places)

    def _heads(
        self,
        channels: int,
        source: int,
        ones: int,
        lines: Sequence[Sequence[int]],
        places: Sequence[int] | None,
    ) -> None:
        """Each head comes into every bank, whole; of it, a sum of one term is a bank's token."""
        p, words = self.params, words_of(self.params, channels)
        each, pieces = self.rows_of(channels), list[_Piece]()
        banks = max(map(len, lines))
        need = max(1 + p.rows, FP16_ROWS) + banks * each, words * p.rows + banks * each
        require(max(need) <= self.quarter, f"{banks} tokens of {channels} channels do not fit")
        for head, to in enumerate(lines):
            row, other = self._places(len(pieces))
            at = source + p.lines(Memory.ACTIVATIONS, head * words)
            loads: list[Write] = [
                partial(self._spread, row, words, at),
                partial(self._load, other, 1 + p.rows, ones),
            ]
            work: list[Write] = []
            stores: list[Write] = []
            for bank, line in enumerate(to):
                kept = other + max(1 + p.rows, FP16_ROWS) + bank * each
                new = kept if places is None else row + words * p.rows + bank * each
                one = other if places is None else other + 1 + places[bank]
                # A row of zeros in all banks but one, times the bank's own words.
                work.append(partial(self._weigh, row + bank, one, new, words))
                if places is not None:
                    loads.append(partial(self._load, kept, words, line))
                    old, token = Tensor(kept, channels), Tensor(new, channels)
                    work.append(partial(self.b.apply, Operation.ADD, token, old, into=token))
                # From another region than the next tiles come to.
                stores.append(partial(self._keep, new, words, line))
            pieces.append(_Piece(loads, work, stores, apart=True))
        self._pipeline(pieces)

    def _weigh(self, row: int, one: int, into: int, words: int) -> None:
        self.b.attend(
            Operation.WEIGH,
            row,
            one,
            into=into,
            elements=1,
            results=words,
            pitch=self.params.rows,
        )

    def gather(
        self,
        elements: int,
        *,
        mantissa: int,
        sources: Sequence[int],
        ones: int,
        results: int,
    ) -> None:
        """Tokens that lie in every bank of tensors of their own, as activations of one token tile.

        Source k gives bank k; all are loaded in turn while the one before is added.
        """
        p, sums = self.params, 0
        constants = 3 * self.quarter
        self.b.configure(0, mantissa)
        self._load(constants, 1 + p.rows, ones)
        for first, groups in self._cut(elements):
            rows, offset = groups * FP16_ROWS, p.lines(Memory.ACTIVATIONS, first * FP16_ROWS)
            count = self._elements((first, groups), elements)
            total = Tensor(sums, count)
            places = [(1 + k % 2) * self.quarter for k in range(len(sources))]
            self._load(places[0], rows, sources[0] + offset)
            for k, place in enumerate(places):
                x, own = Tensor(place, count), Tensor(constants + 1 + k, 1)
                self.b.apply(Operation.LARGEST, own, into=_SUMS[0])
                if k + 1 < len(sources):
                    self._load(places[k + 1], rows, sources[k + 1] + offset)
                into = x if k else total
                self.b.apply(Operation.MULTIPLY, x, _SUMS[0], into=into)
                if k:
                    self.b.apply(Operation.ADD, total, x, into=total)
            self._compress(total, self.quarter)
            all_groups = groups_of(p, elements)
            stores = self._keep_activations(
                self.quarter, groups, mantissa, results, first, all_groups
            )
            for store in stores:
                store()
        self.b.halt()

    # The feed-forward part, and results of a prompt's attention.

    def gated(
        self, tokens: int, elements: int, *, mantissa: int, gate: int, up: int, results: int
    ) -> None:
        """SiLU of the gate times ``up``, compressed."""
        self.b.configure(0, mantissa)
        apply, pieces, lines = self.b.apply, list[_Piece](), self.tensor_lines(elements)
        for tile in self._tiles(tokens):
            for chunk in self._cut(elements, 2):
                (first, groups), (row, other) = chunk, self._places(len(pieces))
                count, rows = self._elements(chunk, elements), groups * FP16_ROWS
                at = tile * lines + self.params.lines(Memory.ACTIVATIONS, first * FP16_ROWS)
                x, spare = Tensor(row, count), Tensor(other, count)
                second = Tensor(other + self.quarter // 2, count)
                loads = self._bring(row, rows, gate + at) + self._bring(second.row, rows, up + at)
                work: list[Write] = [
                    partial(apply, Operation.MULTIPLY, x, -1.0, into=spare),
                    partial(apply, Operation.EXPONENTIAL, spare, into=spare),
                    partial(apply, Operation.ADD, spare, 1.0, into=spare),
                    partial(apply, Operation.RECIPROCAL, spare, into=spare),
                    partial(apply, Operation.MULTIPLY, x, spare, into=x),
                    partial(apply, Operation.MULTIPLY, x, second, into=x),
                    partial(self._compress, x, other),
                ]
                stores = self._results(other, groups, mantissa, results, tile, first, elements)
                pieces.append(_Piece(loads, work, stores))
        self._pipeline(pieces)

    def activations(
        self, tokens: int, elements: int, *, mantissa: int, source: int, results: int
    ) -> None:
        """Tokens in fp16, compressed."""
        self.b.configure(0, mantissa)
        pieces, lines = list[_Piece](), self.tensor_lines(elements)
        for tile in self._tiles(tokens):
            for chunk in self._cut(elements):
                (first, groups), (row, other) = chunk, self._places(len(pieces))
                at = tile * lines + self.params.lines(Memory.ACTIVATIONS, first * FP16_ROWS)
                x = Tensor(row, self._elements(chunk, elements))
                loads: list[Write] = [partial(self._load, row, groups * FP16_ROWS, source + at)]
                stores = self._results(other, groups, mantissa, results, tile, first, elements)
                pieces.append(_Piece(loads, [partial(self._compress, x, other)], stores))
        self._pipeline(pieces)

    def _results(
        self,
        row: int,
        groups: int,
        mantissa: int,
        results: int,
        tile: int,
        first: int,
        elements: int,
    ) -> list[Write]:
        """Stores of a chunk of activations of a token tile."""
        line = results + tile * self.activation_lines(elements, mantissa)
        all_groups = groups_of(self.params, elements)
        return self._keep_activations(row, groups, mantissa, line, first, all_groups)
