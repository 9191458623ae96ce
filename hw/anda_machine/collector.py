"""Results on their way back into the activation buffer, as fp16 or compressed."""

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.anda_machine import (
    FP16_ROWS,
    MANTISSA_BITS,
    SPAN_FIELD,
    AndaParams,
)
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import EXPONENT_BYTE, ROW_FIELD, SIZE_FIELD
from tilewright.hw.anda.compressor import Compressor
from tilewright.hw.machine.banks import WritePort
from tilewright.hw.unit import payload_layout


class Collector(wiring.Component):
    """Gathers a group of every row, then compresses it or writes it as fp16.

    ``start`` names the row, the number of groups and the mantissa (0: fp16), and where results
    come from: rows of the matrix unit, tile after tile of columns, or words of the vector unit.
    Columns of a group that no tile fills are +0. ``busy`` until the last row is written. Of a
    ``shared`` gemm 2^``span`` rows are tokens with results of one tile, which all banks that hold
    the token take; rows of tiles that the gemm does not have are dropped.

    Timing: a gathered group goes to the compressor in one cycle if it is free, and the next is
    gathered meanwhile; in fp16 the group is written in 16 cycles, and the next waits.
    """

    def __init__(self, params: AndaParams):
        self.params = params
        depth = params.activation_rows
        words = data.ArrayLayout(params.group, params.rows)
        octets = data.ArrayLayout(params.rows * EXPONENT_BYTE, 1)
        (results,) = params.mxu.outputs
        (values,) = params.vector.outputs
        super().__init__(
            {
                "start": In(1),
                "row": In(ROW_FIELD),
                "groups": In(SIZE_FIELD),
                "mantissa": In(MANTISSA_BITS),
                "tiles": In(SIZE_FIELD),  # of the matrix unit
                **({"shared": In(1), "span": In(SPAN_FIELD)} if params.row_groups > 1 else {}),
                "matrix": In(stream.Signature(payload_layout(results))),
                "vector": In(stream.Signature(payload_layout(values))),
                "busy": Out(1),
                "compressed": Out(1),  # a set of groups begins to leave the compressor
                "saturated": Out(1),
                "write": Out(WritePort(depth, words)),
                "write_exponents": Out(WritePort(depth, octets)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        m.submodules.compressor = compressor = Compressor(p.compressor)
        row = Signal(ROW_FIELD)
        groups_left = Signal(SIZE_FIELD)  # to be written
        full, leaving = Signal(), Signal()
        word = Signal(range(FP16_ROWS))  # of an fp16 group
        gathered = self._gather(m, full, leaving)
        done_group = Signal()

        m.d.comb += [
            self.busy.eq(
                groups_left.any() if p.row_groups == 1 else groups_left.any() | self._dropping
            ),
            compressor.i.valid.eq(full & self.mantissa.any()),
            compressor.i.p.mantissa.eq(self.mantissa),
            compressor.i.p.values.eq(Cat(gathered)),
            compressor.o.ready.eq(1),
            self.write.address.eq(row),
            self.write_exponents.address.eq(row),
            self.write_exponents.data[0].eq(
                Cat(Cat(e, Const(0, EXPONENT_BYTE - len(e))) for e in compressor.o.p.exponents)
            ),
        ]
        with m.If(self.mantissa.any()):
            m.d.comb += [
                leaving.eq(full & compressor.i.ready),
                self.write.enable.eq(compressor.o.valid),
                self.write.data.eq(compressor.o.p.words),
                self.write_exponents.enable.eq(compressor.o.valid & compressor.o.p.first),
                self.compressed.eq(compressor.o.valid & compressor.o.p.first),
                self.saturated.eq(compressor.o.valid & compressor.o.p.saturated),
                done_group.eq(compressor.o.valid & compressor.o.p.last),
            ]
        with m.Else():
            m.d.comb += [
                leaving.eq(full & (word == FP16_ROWS - 1)),
                self.write.enable.eq(full),
                done_group.eq(leaving),
            ]
            for r, values in enumerate(gathered):
                m.d.comb += self.write.data[r].eq(values.as_value().word_select(word, p.group))
            with m.If(full):
                m.d.sync += word.eq(word + 1)
        with m.If(self.write.enable):
            m.d.sync += row.eq(row + 1)
        with m.If(done_group):
            m.d.sync += groups_left.eq(groups_left - 1)
        with m.If(self.start):
            m.d.sync += [row.eq(self.row), groups_left.eq(self.groups), word.eq(0)]
        return m

    def _gather(self, m: Module, full: Value, leaving: Value) -> Value:
        """fp16 values (rows x group); ``full`` when a group of every row is there."""
        p = self.params
        lanes = p.vector.row_lanes
        tiles_of_group = p.group // p.columns
        layout = data.ArrayLayout(FP16.bits, p.group)
        gathered = [Signal(layout, name=f"gathered{r}") for r in range(p.rows)]
        word = Signal(range(p.group_beats))
        tile = Signal(range(max(2, tiles_of_group)))  # within the group
        tiles_left = Signal(SIZE_FIELD)
        room, fills = Signal(), Signal()
        last_tile = (tiles_left == 1) | (tile == tiles_of_group - 1)
        m.d.comb += [
            room.eq(~full | leaving),
            self.matrix.ready.eq(room),
            self.vector.ready.eq(room),
        ]
        with m.If(leaving):
            m.d.sync += full.eq(0)
            m.d.sync += [values.eq(0) for values in gathered]
        with m.If(room & self.vector.valid):
            m.d.comb += fills.eq(word == p.group_beats - 1)
            m.d.sync += word.eq(word + 1)
            for r, values in enumerate(gathered):
                own = Cat(self.vector.p.values[r * lanes + j] for j in range(lanes))
                m.d.sync += values.as_value().word_select(word, len(own)).eq(own)
        if p.row_groups > 1:
            self._take_row(m, gathered, room & self.matrix.valid, fills, tile, tiles_left)
        else:
            with m.If(room & self.matrix.valid):
                row = self.matrix.p
                m.d.comb += fills.eq(row.last & last_tile)
                for r, values in enumerate(gathered):
                    with m.If(row.row == r):
                        place = values.as_value().word_select(tile, p.columns * FP16.bits)
                        m.d.sync += place.eq(row["values"])
                with m.If(row.last):
                    m.d.sync += [
                        tile.eq(Mux(last_tile, 0, tile + 1)),
                        tiles_left.eq(tiles_left - 1),
                    ]
        with m.If(fills):
            m.d.sync += full.eq(1)
        with m.If(self.start):
            m.d.sync += [full.eq(0), word.eq(0), tile.eq(0), tiles_left.eq(self.tiles)]
            m.d.sync += [values.eq(0) for values in gathered]
        return gathered

    def _take_row(
        self,
        m: Module,
        gathered: list[Signal],
        takes: Value,
        fills: Signal,
        tile: Signal,
        left: Signal,
    ) -> None:
        """A row of the matrix unit; of a shared gemm it may be that of any tile of a pass."""
        p, row = self.params, self.matrix.p
        tiles, columns = p.group // p.columns, p.columns * FP16.bits
        tokens = Signal(range(p.rows))  # the bits of a row's number that are those of its token
        place = Signal.like(tile)
        self._dropping = dropping = Signal(name="dropping")
        m.d.comb += [tokens.eq(p.rows - 1), place.eq(tile)]
        with m.If(self.shared):
            with m.Switch(self.span):
                for span in p.spans:
                    with m.Case(span):
                        m.d.comb += [tokens.eq((1 << span) - 1), place.eq(row.row >> span)]
        tile_ends = (row.row & tokens) == tokens
        group_ends = (place == tiles - 1) | (left == 1)
        with m.If(takes):
            m.d.comb += fills.eq(tile_ends & group_ends & left.any())
            for bank, values in enumerate(gathered):
                with m.If(((row.row ^ bank) & tokens) == 0):
                    own = values.as_value().word_select(place, columns)
                    m.d.sync += own.eq(row["values"])
            with m.If(tile_ends & left.any()):
                m.d.sync += [left.eq(left - 1), tile.eq(Mux(group_ends, 0, tile + 1))]
            with m.If(row.last & (left <= 1)):
                m.d.sync += dropping.eq(0)
        with m.If(self.start):
            m.d.sync += dropping.eq(self.shared)
