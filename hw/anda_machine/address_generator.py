"""Address generator: which rows the matrix unit reads, and when."""

from amaranth import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.anda_machine import MANTISSA_BITS, AndaParams
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import EXPONENT_BYTE, ROW_FIELD, SIZE_FIELD
from tilewright.hw.machine.banks import ReadPort
from tilewright.hw.unit import payload_layout


class MatrixFeeder(wiring.Component):
    """Planes and weights for a gemm, from the buffers to the matrix unit.

    The tile's planes are read from ``source`` on, once for every tile of columns; weights and
    scales once, from ``weights`` and ``scales`` on. The numbers hold while it is ``busy``.

    Timing: the first plane and the first weights are offered two cycles after ``start``, then one
    of each a cycle as they are taken.
    """

    def __init__(self, params: AndaParams):
        self.params = params
        planes, weights = params.mxu.inputs
        depth = params.activation_rows
        super().__init__(
            {
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
                        data.ArrayLayout(params.group, params.planes_per_beat * params.columns),
                    )
                ),
                "read_scales": Out(
                    ReadPort(params.scale_rows, data.ArrayLayout(FP16.bits, params.columns))
                ),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        planes_left = self._planes(m)
        weights_left = self._weights(m)
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
                o.p.first_group.eq(group == 0),
                o.p.last_group.eq(last_group),
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
