"""Address generator: which rows the matrix unit reads, and when."""

from amaranth import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.anda_machine import MANTISSA_BITS, SPAN_FIELD, AndaParams
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import EXPONENT_BYTE, ROW_FIELD, SIZE_FIELD
from tilewright.hw.machine.banks import ReadPort
from tilewright.hw.unit import payload_layout

# Settings of a gemm on a machine with row groups.
SHARED = data.StructLayout({"shared": 1, "span": SPAN_FIELD, "continues": 1, "keeps": 1})


class MatrixFeeder(wiring.Component):
    """Planes and weights for a gemm, from the buffers to the matrix unit.

    The tile's planes are read from ``source`` on, once for every tile of columns; weights and
    scales once, from ``weights`` and ``scales`` on. The numbers hold while it is ``busy``.

    With row groups ``tiles`` are passes of a ``shared`` gemm, which takes a tile for every
    2^``span`` rows in each, and ``blocks`` of weights in all. ``continues``: sums go on from those
    in the matrix unit; ``keeps``: they stay there.

    Timing: the first plane and the first weights are offered two cycles after ``start``, then one
    of each a cycle as they are taken.
    """

    def __init__(self, params: AndaParams):
        self.params = params
        planes, weights = params.mxu.inputs
        depth, tiles = params.activation_rows, params.beat_tiles
        rows = 1 if params.row_groups == 1 else tiles * params.mxu.weight_beats
        more = {**SHARED.members, "blocks": SIZE_FIELD} if params.row_groups > 1 else {}
        super().__init__(
            {
                **{name: In(shape) for name, shape in more.items()},
                "start": In(1),
                "source": In(ROW_FIELD),
                "weights": In(ROW_FIELD),
                "scales": In(ROW_FIELD),
                "mantissa": In(MANTISSA_BITS),
                "groups": In(SIZE_FIELD),
                "tiles": In(SIZE_FIELD),
                "busy": Out(1),
                "planes_out": Out(stream.Signature(payload_layout(planes))),
                "weights_out": Out(stream.Signature(payload_layout(weights))),
                "read": Out(ReadPort(depth, data.ArrayLayout(params.group, params.rows))),
                "read_exponents": Out(
                    ReadPort(depth, data.ArrayLayout(params.rows * EXPONENT_BYTE, 1))
                ),
                "read_weights": Out(
                    ReadPort(
                        params.weight_rows,
                        data.ArrayLayout(
                            rows * params.group, params.planes_per_beat * params.columns
                        ),
                    )
                ),
                "read_scales": Out(
                    ReadPort(params.scale_rows, data.ArrayLayout(tiles * FP16.bits, params.columns))
                ),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        planes_left = self._planes(m)
        weights_left = self._weights(m) if self.params.row_groups == 1 else self._blocks(m)
        m.d.comb += self.busy.eq(
            planes_left | weights_left | self.planes_out.valid | self.weights_out.valid
        )
        return m

    def _planes(self, m: Module) -> Value:
        o = self.planes_out
        active = Signal()
        row = Signal(ROW_FIELD)
        plane = Signal(MANTISSA_BITS)
        group, tile = Signal(SIZE_FIELD), Signal(SIZE_FIELD)
        step = Signal()
        last_plane, last_group = plane == self.mantissa, group == self.groups - 1
        begins, ends = group == 0, last_group
        if self.params.row_groups > 1:
            begins, ends = begins & ~self.continues, ends & ~self.keeps
        m.d.comb += [
            step.eq(active & (~o.valid | o.ready)),
            self.read.enable.eq(step),
            self.read.address.eq(row),
            self.read_exponents.enable.eq(step & (plane == 0)),
            self.read_exponents.address.eq(row),
            o.p.mantissa.eq(self.mantissa),
            o.p.planes.eq(self.read.data),
        ]
        octets = self.read_exponents.data[0]
        for r, exponent in enumerate(o.p.exponents):
            m.d.comb += exponent.eq(octets.word_select(r, EXPONENT_BYTE))
        with m.If(o.ready):
            m.d.sync += o.valid.eq(0)
        with m.If(step):
            m.d.sync += [
                o.valid.eq(1),
                o.p.first_group.eq(begins),
                o.p.last_group.eq(ends),
                row.eq(row + 1),
                plane.eq(Mux(last_plane, 0, plane + 1)),
            ]
            with m.If(last_plane):
                m.d.sync += group.eq(group + 1)
                with m.If(last_group):
                    m.d.sync += [group.eq(0), row.eq(self.source), tile.eq(tile + 1)]
                    with m.If(tile == self.tiles - 1):
                        m.d.sync += active.eq(0)
        with m.If(self.start):
            m.d.sync += [active.eq(1), row.eq(self.source), plane.eq(0), group.eq(0), tile.eq(0)]
        return active

    def _weights(self, m: Module) -> Value:
        o = self.weights_out
        beats = self.params.mxu.weight_beats
        active = Signal()
        row, scale_row = Signal(ROW_FIELD), Signal(ROW_FIELD)
        beat = Signal(range(max(2, beats)))
        group, tile = Signal(SIZE_FIELD), Signal(SIZE_FIELD)
        step = Signal()
        last_beat = beat == beats - 1
        m.d.comb += [
            step.eq(active & (~o.valid | o.ready)),
            self.read_weights.enable.eq(step),
            self.read_weights.address.eq(row),
            self.read_scales.enable.eq(step & (beat == 0)),
            self.read_scales.address.eq(scale_row),
            o.p.planes.eq(self.read_weights.data),
            o.p.scales.eq(self.read_scales.data),
        ]
        with m.If(o.ready):
            m.d.sync += o.valid.eq(0)
        with m.If(step):
            m.d.sync += [o.valid.eq(1), row.eq(row + 1), beat.eq(Mux(last_beat, 0, beat + 1))]
            with m.If(last_beat):
                m.d.sync += [group.eq(group + 1), scale_row.eq(scale_row + 1)]
                with m.If(group == self.groups - 1):
                    m.d.sync += [group.eq(0), tile.eq(tile + 1)]
                    with m.If(tile == self.tiles - 1):
                        m.d.sync += active.eq(0)
        with m.If(self.start):
            m.d.sync += [
                active.eq(1),
                row.eq(self.weights),
                scale_row.eq(self.scales),
                beat.eq(0),
                group.eq(0),
                tile.eq(0),
            ]
        return active

    def _blocks(self, m: Module) -> Value:
        """Weights that lie in blocks of tiles; a *cell* is those of a tile and a group of inputs.

        A gemm takes them tile by tile. A shared one takes, group by group, a cell of every tile of
        the pass, as many in a cycle as share a word.
        """
        p, o = self.params, self.weights_out
        tiles, together, rows = p.block_tiles, p.beat_tiles, p.mxu.weight_beats
        active, step, last = Signal(), Signal(), Signal()
        cell, start = Signal(ROW_FIELD), Signal(ROW_FIELD)  # now; of the block, or of its group
        group, number = Signal(SIZE_FIELD), Signal(SIZE_FIELD)  # of the tile or pass
        block, blocks_left = Signal(range(max(2, p.row_groups // tiles))), Signal(SIZE_FIELD)
        most, following = Signal(SIZE_FIELD), Signal(ROW_FIELD)
        slot_bits = (together - 1).bit_length()
        slot = Signal(range(max(2, together)))
        with m.Switch(self.span):
            for span in p.spans:
                with m.Case(span):
                    m.d.comb += most.eq((p.row_groups >> span) // tiles)
        tile_bits = (tiles - 1).bit_length()
        block_ends = cell[slot_bits:tile_bits] == tiles // together - 1
        last_block = (block == most - 1) | (blocks_left == block + 1)
        last_group = group == self.groups - 1
        tile = number[:tile_bits]
        m.d.comb += [
            step.eq(active & (~o.valid | o.ready)),
            last.eq(~self.shared | (block_ends & last_block)),
            self.read_weights.enable.eq(step),
            self.read_weights.address.eq(self.weights + cell * rows),
            self.read_scales.enable.eq(step),
            self.read_scales.address.eq(self.scales + cell),
            o.p.span.eq(Mux(self.shared, self.span, p.row_groups.bit_length() - 1)),
        ]
        for given, port, shape in (
            (o.p.planes, self.read_weights.data, (rows, p.group)),
            (o.p.scales, self.read_scales.data, (1, FP16.bits)),
        ):
            count, width = shape
            own = [
                Cat(
                    word.word_select(k * count + row, width)
                    for row in range(count)
                    for word in port
                )
                for k in range(together)
            ]
            m.d.comb += given.eq(Cat(Array(own)[slot], *own[1:]))
        with m.If(last & last_group):  # the next block or pass, or a tile of the same block
            m.d.comb += following.eq(
                Mux(self.shared | (tile == tiles - 1), cell + Mux(self.shared, together, 1), start)
            )
        with m.Else():
            m.d.comb += following.eq(start + Mux(self.shared, tiles, 0))
        with m.If(o.ready):
            m.d.sync += o.valid.eq(0)
        with m.If(step):
            m.d.sync += [o.valid.eq(1), o.p.last.eq(last), slot.eq(cell[:slot_bits])]
            with m.If(last):
                m.d.sync += [block.eq(0), group.eq(group + 1), start.eq(following)]
                m.d.sync += cell.eq(Mux(self.shared, following, cell + tiles))
                with m.If(last_group):
                    m.d.sync += [group.eq(0), number.eq(number + 1)]
                    m.d.sync += cell.eq(
                        following + Mux(self.shared | (tile == tiles - 1), 0, tile + 1)
                    )
                    m.d.sync += blocks_left.eq(blocks_left - most)
                    with m.If(number == self.tiles - 1):
                        m.d.sync += active.eq(0)
            with m.Elif(block_ends):
                m.d.sync += [
                    block.eq(block + 1),
                    cell.eq(cell + (self.groups - 1) * tiles + together),
                ]
            with m.Else():
                m.d.sync += cell.eq(cell + together)
        with m.If(self.start):
            m.d.sync += [
                *(active.eq(1), cell.eq(0), start.eq(0), group.eq(0), number.eq(0)),
                *(block.eq(0), blocks_left.eq(self.blocks)),
            ]
        return active
