"""What a decoder layer does between its products, as programs: norms, rotation, SiLU, conversions.

Tensors are fp16 in external memory, token tile after token tile of rows, and pass the chip in
*chunks* of a few hundred values. A chunk with all that it needs lies in a region of the ``fp16``
memory: while one is converted, the next is computed and the one behind it comes. Results are
activations for the next product, or fp16.

:class:`LayerWork` collects the instructions of one program after the other; every method ends
with what it leaves in external memory.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

from tilewright.golden.bits import encode
from tilewright.golden.harmonia_machine.builder import Builder
from tilewright.golden.harmonia_machine.isa import Instruction, groups_of, words_of
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia_machine import Conversion, HarmoniaParams, Memory, Opcode
from tilewright.golden.params.machine import Kind
from tilewright.golden.params.vector import Operation

__all__ = ["NORM_SHARE", "LayerWork", "beside"]

# Mean squares are divided by this, and gains carry its root: some tokens have one of a million.
NORM_SHARE = 1 / 64
_SUM, _SQUARES, _REGISTERS = 0, 1, 2  # scalar registers of even and, behind them, odd token tiles
_LEAST_CHUNKS = 8
_STAGES = 4  # of a piece of work: loads, vector operations, a conversion, stores

Write: TypeAlias = Callable[[], None]  # one instruction


class _Piece(NamedTuple):
    """What one chunk needs, unit by unit."""

    loads: list[Write]
    work: list[Write]
    convert: list[Write]
    stores: list[Write]


def half(value: float) -> int:
    """The fp16 pattern of a constant."""
    return int(encode(FP16, value))


class LayerWork(Builder):
    """Programs of the work between products; lines are where the caller has put the tensors.

    A tensor of ``elements`` values has ``halves_lines(elements)`` lines for each token tile.
    """

    def __init__(self, params: HarmoniaParams, first_region: int = 0):
        super().__init__(params)
        self.region = params.region_rows(Memory.FP16)
        self.first_region = first_region  # of the fp16 memory; those before it are left alone
        self.places = params.halves_rows // self.region - first_region

    def _cut(self, elements: int, tensors: int) -> list[tuple[int, int]]:
        """First element and size of every chunk, of which a region holds so many tensors.

        All but the last fill lines of every memory that they are stored from.
        """
        p = self.params
        lines = max(1, p.line_bits // p.row_bits(Memory.EXPONENTS)) * p.group
        most = self.region // tensors * p.word_values // lines * lines
        require(most > 0, f"{tensors} tensors of {lines} values do not fit {self.region} rows")
        # Several chunks, so that the units overlap also in one token tile.
        size = min(most, -(-elements // (_LEAST_CHUNKS * lines)) * lines)
        return [(k, min(size, elements - k)) for k in range(0, elements, size)]

    def _line_of(self, tensor: int, elements: int, tile: int, first: int) -> int:
        """The line of a chunk's first value."""
        p = self.params
        words = words_of(p, first)
        return tensor + tile * self.halves_lines(elements) + p.lines(Memory.FP16, words)

    def bring(self, row: int, line: int, elements: int) -> None:
        """Load a chunk."""
        self.load(Memory.FP16, row, words_of(self.params, elements), line)

    def keep(self, row: int, line: int, elements: int) -> None:
        """Store a chunk."""
        self.store(Memory.FP16, row, words_of(self.params, elements), line)

    def _pipeline(self, pieces: Sequence[_Piece]) -> None:
        """Pieces of work one behind the other, each unit on another of them.

        Units take instructions in the order of the program. So the conversion of a piece comes
        first, then vector operations of the next one, and between them, a few at a time, stores of
        the piece before these and loads of the one behind.
        """
        self.configure(lanes=range(self.params.rows))
        none = _Piece([], [], [], [])
        padded = [none, none, none, *pieces, none, none, none]
        for stored, converted, computed, loaded in zip(
            padded, padded[1:], padded[2:], padded[3:], strict=False
        ):
            moves = [
                write
                for both in zip_longest(loaded.loads, stored.stores)
                for write in both
                if write is not None
            ]
            done = 0
            for write in converted.convert:
                write()
            for k, write in enumerate(computed.work, 1):
                write()
                share = len(moves) * k // len(computed.work)
                for move in moves[done:share]:
                    move()
                done = share
            for move in moves[done:]:
                move()
        self.halt()

    def _row(self, piece: int) -> int:
        """The first row of the region that a piece of this number has."""
        return (self.first_region + piece % self.places) * self.region

    # Norms.

    def norm(
        self,
        tokens: int,
        elements: int,
        *,
        source: int,
        gain: int,
        results: int,
        added: int | None = None,
        epsilon: float = 1e-5,
    ) -> None:
        """Root mean square norm of every token, as activations at line ``results``.

        With ``added``, that tensor is added to the source first, and the sum is left in its place.
        The gain at its line, the same for all tokens of a tile, has the root of ``NORM_SHARE`` in
        it. Squares of a token tile are summed while the one before it is scaled and converted.
        """
        chunks = self._cut(elements, 2)
        tiles = -(-tokens // self.params.rows)
        pieces: list[_Piece] = []

        def squares(tile: int, k: int) -> None:
            """A chunk's part of the mean square; behind the last one the reciprocal root."""
            (first, size), row, base = chunks[k], self._row(len(pieces)), tile % 2 * _REGISTERS
            line, other = self._line_of(source, elements, tile, first), row + self.region // 2
            piece = _Piece([partial(self.bring, row, line, size)], [], [], [])
            if added is not None:
                at = self._line_of(added, elements, tile, first)
                piece.loads.append(partial(self.bring, other, at, size))
                piece.work.append(partial(self.work, Operation.ADD, row, row, other, elements=size))
                piece.stores.append(partial(self.keep, row, line, size))
            share, register = half(NORM_SHARE / elements), base + (_SQUARES if k else _SUM)
            square = partial(self.work, Operation.DOT, elements=size, scale=share)
            piece.work.append(partial(square, register, row, row))
            if k:
                registers = base + _SUM, base + _SUM, base + _SQUARES
                piece.work.append(partial(self.scalar_vector, Operation.ADD, *registers))
            if k + 1 == len(chunks):
                piece.work.append(partial(self._root, base, epsilon))
            pieces.append(piece)

        def scaled(tile: int, k: int) -> None:
            """A chunk times the reciprocal root and the gain, converted."""
            (first, size), row = chunks[k], self._row(len(pieces))
            root, other = tile % 2 * _REGISTERS + _SUM, row + self.region // 2
            multiply = partial(self.work, Operation.MULTIPLY, row, row, elements=size)
            loads: list[Write] = [
                partial(self.bring, row, self._line_of(source, elements, tile, first), size),
                partial(self.bring, other, self._line_of(gain, elements, 0, first), size),
            ]
            work: list[Write] = [
                partial(multiply, root, kind=Kind.SCALAR),
                partial(multiply, other),
            ]
            pieces.append(self._piece(loads, work, elements, tile, chunks[k], len(pieces), results))

        for tile in range(tiles + 1):
            before = len(pieces)
            for k in range(len(chunks)):
                if tile < tiles:
                    squares(tile, k)
                if tile:
                    scaled(tile - 1, k)
            # What a piece loads must have been stored by one of _STAGES pieces before it.
            pieces += [_Piece([], [], [], [])] * (_STAGES - (len(pieces) - before))
        self._pipeline(pieces)

    def _root(self, base: int, epsilon: float) -> None:
        """The reciprocal root of a sum of squares, in its place."""
        epsilon_bits = half(epsilon * NORM_SHARE)
        register = base + _SUM
        scalar, immediate = Kind.SCALAR, Kind.IMMEDIATE
        self.work(
            *(Operation.ADD, register, register, epsilon_bits),
            elements=0,
            a_kind=scalar,
            kind=immediate,
        )
        self.scalar_vector(Operation.RECIPROCAL_ROOT, register, register)

    def _piece(
        self,
        loads: list[Write],
        work: list[Write],
        elements: int,
        tile: int,
        chunk: tuple[int, int],
        number: int,
        results: int,
    ) -> _Piece:
        """A piece whose results become activations, stored where the token tile has them."""
        p, (first, size) = self.params, chunk
        groups, count = groups_of(p, elements), groups_of(p, size)
        region = p.region_rows(Memory.MANTISSAS)
        place = number % (p.activation_rows // region) * region
        require(count <= region, f"{count} groups do not fit {region} activation rows")
        convert = partial(
            self.convert,
            Conversion.ACTIVATIONS,
            source=self._row(number),
            elements=size,
            destination=place,
        )
        line, stores = results + tile * self.activation_lines(groups), list[Write]()
        for memory in (Memory.MANTISSAS, Memory.SIGNS, Memory.EXPONENTS):
            at = line + p.lines(memory, groups_of(p, first))
            stores.append(partial(self.store, memory, place, count, at))
            line += p.lines(memory, groups)
        return _Piece(loads, work, [convert], stores)

    # Rotation.

    def rotate(
        self, tokens: int, heads: Sequence[tuple[int, int]], channels: int, tables: Sequence[int]
    ) -> None:
        """Rotary embedding of heads, in place: (a, b) -> (a cos - b sin, b cos + a sin).

        ``heads`` are the line of a head's tensor of ``channels`` values and the table that it
        takes; a table has, for every token tile, cosines and then sines of half the channels.
        """
        p, n = self.params, words_of(self.params, channels // 2)
        whole = (
            channels % (2 * p.word_values) == 0 and n * p.row_bits(Memory.FP16) % p.line_bits == 0
        )
        require(whole, f"halves of {channels} channels do not fill lines of {p.line_bytes} bytes")
        most = max(1, self.region // (7 * n))  # heads whose halves, tables and spares fit
        by_table: dict[int, list[int]] = {}
        for line, table in heads:
            by_table.setdefault(table, []).append(line)
        pieces: list[_Piece] = []
        for tile in range(-(-tokens // p.rows)):
            for table, lines in by_table.items():
                place = tables[table] + tile * 2 * self.halves_lines(channels // 2)
                for k in range(0, len(lines), most):
                    some = [x + tile * self.halves_lines(channels) for x in lines[k : k + most]]
                    pieces.append(self._rotated(some, n, place, self._row(len(pieces))))
        self._pipeline(pieces)

    def _rotated(self, lines: Sequence[int], n: int, table: int, low: int) -> _Piece:
        """Heads of ``n`` rows a half at these lines, from row ``low`` on."""
        p, rows = self.params, len(lines) * n
        high, cosine, sine, *spare = (low + j * rows for j in range(1, 7))
        next_half = p.lines(Memory.FP16, n)
        loads: list[Write] = []
        stores: list[Write] = []
        for j, line in enumerate(lines):
            halves = (low + j * n, n, line), (high + j * n, n, line + next_half)
            factors = (cosine + j * n, n, table), (sine + j * n, n, table + next_half)
            loads += [partial(self.load, Memory.FP16, *move) for move in (*halves, *factors)]
            stores += [partial(self.store, Memory.FP16, *move) for move in halves]
        multiply, elements = Operation.MULTIPLY, rows * p.word_values
        steps = (
            (multiply, spare[0], low, cosine),
            (multiply, spare[1], high, sine),
            (multiply, spare[2], low, sine),
            (multiply, high, high, cosine),
            (Operation.SUBTRACT, low, spare[0], spare[1]),
            (Operation.ADD, high, high, spare[2]),
        )
        return _Piece(
            loads, [partial(self.work, *step, elements=elements) for step in steps], [], stores
        )

    # The feed-forward part, and results of attention.

    def gated(self, tokens: int, elements: int, *, gate: int, up: int, results: int) -> None:
        """SiLU of the gate times ``up``, as activations."""
        rows, pieces = self.region // 3, list[_Piece]()
        for tile in range(-(-tokens // self.params.rows)):
            for chunk in self._cut(elements, 3):
                (first, size), row = chunk, self._row(len(pieces))
                other, spare = row + rows, row + 2 * rows
                loads: list[Write] = [
                    partial(self.bring, row, self._line_of(gate, elements, tile, first), size),
                    partial(self.bring, other, self._line_of(up, elements, tile, first), size),
                ]
                work = self._silu(row, spare, size)
                work.append(partial(self.work, Operation.MULTIPLY, row, row, other, elements=size))
                pieces.append(self._piece(loads, work, elements, tile, chunk, len(pieces), results))
        self._pipeline(pieces)

    def _silu(self, row: int, spare: int, size: int) -> list[Write]:
        """A chunk over 1 and the power of its negative, in place."""
        write = partial(self.work, elements=size)
        with_one = partial(write, kind=Kind.IMMEDIATE)
        return [
            partial(with_one, Operation.MULTIPLY, spare, row, half(-1.0)),
            partial(write, Operation.EXPONENTIAL, spare, spare),
            partial(with_one, Operation.ADD, spare, spare, half(1.0)),
            partial(write, Operation.RECIPROCAL, spare, spare),
            partial(write, Operation.MULTIPLY, row, row, spare),
        ]

    def silu(self, tokens: int, elements: int, *, source: int) -> None:
        """SiLU in place, in fp16: what of :meth:`gated` does not wait for ``up``."""
        pieces: list[_Piece] = []
        for tile in range(-(-tokens // self.params.rows)):
            for first, size in self._cut(elements, 2):
                row, line = self._row(len(pieces)), self._line_of(source, elements, tile, first)
                work = self._silu(row, row + self.region // 2, size)
                loads: list[Write] = [partial(self.bring, row, line, size)]
                pieces.append(_Piece(loads, work, [], [partial(self.keep, row, line, size)]))
        self._pipeline(pieces)

    def multiplied(self, tokens: int, elements: int, *, a: int, b: int, results: int) -> None:
        """Two tensors, element by element, as activations."""
        pieces: list[_Piece] = []
        for tile in range(-(-tokens // self.params.rows)):
            for chunk in self._cut(elements, 2):
                (first, size), row = chunk, self._row(len(pieces))
                other = row + self.region // 2
                loads: list[Write] = [
                    partial(self.bring, row, self._line_of(a, elements, tile, first), size),
                    partial(self.bring, other, self._line_of(b, elements, tile, first), size),
                ]
                work: list[Write] = [
                    partial(self.work, Operation.MULTIPLY, row, row, other, elements=size)
                ]
                pieces.append(self._piece(loads, work, elements, tile, chunk, len(pieces), results))
        self._pipeline(pieces)

    def activations(self, tokens: int, elements: int, *, source: int, results: int) -> None:
        """A tensor in block floating point."""
        pieces: list[_Piece] = []
        for tile in range(-(-tokens // self.params.rows)):
            for chunk in self._cut(elements, 1):
                row, line = self._row(len(pieces)), self._line_of(source, elements, tile, chunk[0])
                loads: list[Write] = [partial(self.bring, row, line, chunk[1])]
                pieces.append(self._piece(loads, [], elements, tile, chunk, len(pieces), results))
        self._pipeline(pieces)

    def gathered(
        self, heads: Sequence[Sequence[tuple[int, int]]], channels: int, *, results: int
    ) -> None:
        """Heads of a token tile, beside each other in block floating point.

        ``heads`` are, for every token, the line of a tensor of ``channels`` values and the bank
        that has them, as attention leaves them; they go to the token's own bank.
        """
        elements, pieces = len(heads) * channels, list[_Piece]()
        for chunk in self._cut(elements, 1):
            row, loads = self._row(len(pieces)), list[Write]()
            begin, end = chunk[0], chunk[0] + chunk[1]
            for head in range(begin // channels, -(-end // channels)):
                first, last = max(begin, head * channels), min(end, (head + 1) * channels)
                at, rows = row + self._words(first - begin), self._words(last - first)
                skipped = self.params.lines(Memory.FP16, self._words(first - head * channels))
                loads += [
                    partial(self._take, token, at, rows, line + skipped, bank)
                    for token, (line, bank) in enumerate(heads[head])
                ]
            pieces.append(self._piece(loads, [], elements, 0, chunk, len(pieces), results))
        self._pipeline(pieces)

    def _words(self, elements: int) -> int:
        return words_of(self.params, elements)

    def _take(self, token: int, row: int, rows: int, line: int, bank: int) -> None:
        """Rows of one bank to a token's own."""
        self.configure(lanes=[token])
        self.load(Memory.FP16, row, rows, line, bank=bank)


def beside(product: Sequence[Instruction], work: Sequence[Instruction]) -> list[Instruction]:
    """One program of two that touch different rows and lines: a product, and work for the others.

    Behind every gemm come some instructions of the work, so that the units have both to do. The
    product's settings are those of all of it: ``work`` writes to all banks.
    """
    others = [x for x in work if x.opcode not in (Opcode.CONFIGURE, Opcode.HALT)]
    gemms = sum(x.opcode is Opcode.GEMM for x in product)
    each, found = -(-len(others) // gemms), list[Instruction]()
    for x in product[:-1]:
        found.append(x)
        if x.opcode is Opcode.GEMM:
            found += others[:each]
            del others[:each]
    return [*found, *others, product[-1]]
