"""TOut: one decompressed tile, written by chunks and read by rows of 64 bytes."""

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.deca import TILE_BYTES, TILE_ROWS, DecaParams
from tilewright.hw.deca.layout import chunk_index_bits
from tilewright.hw.sram import Sram


def rows_of_chunk(p: DecaParams, chunk: Value, int8: Value) -> Value:
    """Rows that a chunk touches, one bit per row."""

    def touches(row: int, chunk_bytes: int) -> Value:
        first = row * p.line_bytes // chunk_bytes  # a bf16 chunk of 64 lanes has two rows
        chunks = max(1, p.line_bytes // chunk_bytes)
        return (chunk >= first) & (chunk < first + chunks)

    return Cat(Mux(int8, touches(r, p.lanes), touches(r, 2 * p.lanes)) for r in range(TILE_ROWS))


def rows_ended_by_chunk(p: DecaParams, chunk: Value, int8: Value) -> Value:
    """Rows whose last element is in a chunk, one bit per row."""

    def ends(row: int, chunk_bytes: int) -> Value:
        return chunk == ((row + 1) * p.line_bytes - 1) // chunk_bytes

    return Cat(Mux(int8, ends(r, p.lanes), ends(r, 2 * p.lanes)) for r in range(TILE_ROWS))


class TileOut(wiring.Component):
    """Holds each row of a tile from its last chunk until it has been read.

    ``write`` puts chunk number ``chunk`` of ``lanes`` elements (bf16, or the low bytes of int8
    lanes); a row is ``full`` in the cycle after its last one. ``read`` shows row ``row`` in the
    next cycle and makes it free, so that the next tile may follow the reader row by row. ``ends``
    accompanies the last chunk of a tile, or replaces it if the tile is bad: then none of its unread
    rows stays full. ``clear`` empties it.
    """

    def __init__(self, params: DecaParams):
        self.params = params
        super().__init__(
            {
                "write": In(1),
                "chunk": In(chunk_index_bits(params)),
                "int8": In(1),
                "elements": In(data.ArrayLayout(16, params.lanes)),
                "ends": In(1),
                "clear": In(1),
                "full": Out(TILE_ROWS),
                "read": In(1),
                "row": In(range(TILE_ROWS)),
                "data": Out(params.line_bits),
            }
        )
        self.fresh = Signal(TILE_ROWS)  # rows of the tile that is being written

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        # A word is a row, or a chunk where that is more (64 lanes); a granule is an int8 chunk.
        granule_bits = 8 * p.lanes
        word_bits = max(p.line_bits, 2 * granule_bits)
        granules = word_bits // granule_bits
        depth = 8 * TILE_BYTES // word_bits
        m.submodules.rows = rows = Sram(depth, word_bits, granularity=granule_bits)

        wide = Cat(self.elements)
        narrow = Cat(e[:8] for e in self.elements)
        place = Signal(range(depth * granules))  # of the chunk's first granule
        m.d.comb += place.eq(Mux(self.int8, self.chunk, self.chunk << 1))
        m.d.comb += [
            rows.write_address.eq(place[(granules - 1).bit_length() :]),
            rows.write_data.eq(
                Mux(self.int8, narrow.replicate(granules), wide.replicate(granules // 2))
            ),
        ]
        within = place[: (granules - 1).bit_length()]
        for g in range(granules):
            hit = Mux(self.int8, within == g, within >> 1 == g >> 1)
            m.d.comb += rows.write_enable[g].eq(self.write & hit)

        rows_per_word = word_bits // p.line_bits
        shift = (rows_per_word - 1).bit_length()
        m.d.comb += [rows.read_enable.eq(self.read), rows.read_address.eq(self.row >> shift)]
        which = Signal(range(max(2, rows_per_word)))
        with m.If(self.read):
            m.d.sync += which.eq(self.row[:shift] if shift else 0)
        m.d.comb += self.data.eq(rows.read_data.word_select(which, p.line_bits))

        fresh = self.fresh
        written = rows_ended_by_chunk(p, self.chunk, self.int8) & self.write.replicate(TILE_ROWS)
        read = (1 << self.row)[:TILE_ROWS] & self.read.replicate(TILE_ROWS)
        given_up = fresh & (self.ends & ~self.write).replicate(TILE_ROWS)
        with m.If(self.write | self.read | self.ends):
            m.d.sync += self.full.eq((self.full & ~read & ~given_up) | written)
        with m.If(self.write | self.ends):
            m.d.sync += fresh.eq((fresh | written) & ~self.ends.replicate(TILE_ROWS))
        with m.If(self.clear):
            m.d.sync += [self.full.eq(0), fresh.eq(0)]
        return m
