"""Address generator: which rows the matrix unit and the vector unit read, and when."""

from amaranth import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from golden.params.anda_system import (
    EXPONENT_BYTE,
    MANTISSA_BITS,
    ROW_FIELD,
    SIZE_FIELD,
    AndaParams,
    Kind,
)
from golden.params.anda_vector import OPERATION_BITS, AndaVectorParams
from golden.params.formats import FP16
from hw.anda_system.buffers import ReadPort
from hw.unit import payload_layout

__all__ = ["MatrixFeeder", "VectorFeeder"]


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

    def elaborate(self, platform):
        m = Module()
        planes_left = self._planes(m)
        weights_left = self._weights(m)
        m.d.comb += self.busy.eq(
            planes_left | weights_left | self.planes_out.valid | self.weights_out.valid
        )
        return m

    def _planes(self, m):
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

    def _weights(self, m):
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


class VectorFeeder(wiring.Component):
    """Operands of a vector instruction, from the buffer, scalars and constants to the vector unit.

    ``words`` beats; ``elements`` of every row count. Where both operands are tensors a beat takes
    two cycles, for the buffer has one read port. The numbers hold while it is ``busy``.

    Timing: the first beat is offered two cycles after ``start``, three with two tensors.
    """

    def __init__(self, vector: AndaVectorParams, depth: int, members: dict | None = None):
        self.vector = vector
        (beats,) = vector.inputs
        scalar = data.ArrayLayout(FP16.bits, vector.rows)
        super().__init__(
            {
                "start": In(1),
                "operation": In(OPERATION_BITS),
                "takes_b": In(1),
                "a_kind": In(Kind),
                "b_kind": In(Kind),
                "a": In(ROW_FIELD),
                "b": In(ROW_FIELD),
                "a_scalar": In(scalar),  # the scalar register that a names
                "b_scalar": In(scalar),
                "words": In(SIZE_FIELD + 1),
                "elements": In(SIZE_FIELD),
                "scale": In(FP16.bits),
                "busy": Out(1),
                "beats": Out(stream.Signature(payload_layout(beats))),
                "read": Out(ReadPort(depth, data.ArrayLayout(vector.group, vector.rows))),
                **(members or {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        lanes = self.vector.row_lanes
        o = self.beats
        active, second = Signal(), Signal()  # second: the other tensor of a beat is read
        word = Signal(SIZE_FIELD + 1)
        shown = Signal(SIZE_FIELD + 1)  # the word of the beat on offer
        step, complete = Signal(), Signal()
        reads_a = self.a_kind == Kind.TENSOR
        reads_b = self.takes_b & (self.b_kind == Kind.TENSOR)
        both = reads_a & reads_b
        held = Signal.like(self.read.data)  # a, while b is read
        row = Mux(second | ~reads_a, self.b, self.a)
        m.d.comb += [
            step.eq(active & (~o.valid | o.ready)),
            complete.eq(step & (second | ~both)),
            self.read.enable.eq(step & (reads_a | reads_b)),
            self.read.address.eq(row + word),
            self.busy.eq(active | o.valid),
            o.p.operation.eq(self.operation),
            o.p.first.eq(shown == 0),
            o.p.scale.eq(self.scale),
        ]
        with m.If(o.ready):
            m.d.sync += o.valid.eq(0)
        with m.If(step):
            m.d.sync += second.eq(both & ~second)
            with m.If(second):
                m.d.sync += held.eq(self.read.data)
        with m.If(complete):
            m.d.sync += [o.valid.eq(1), shown.eq(word), word.eq(word + 1)]
            with m.If(word == self.words - 1):
                m.d.sync += active.eq(0)
        with m.If(self.start):
            m.d.sync += [active.eq(1), second.eq(0), word.eq(0)]

        element = Signal(SIZE_FIELD + 1)  # the first of the beat
        m.d.comb += element.eq(shown * lanes)
        for j in range(lanes):
            m.d.comb += o.p.active[j].eq(element + j < self.elements)
        for r in range(self.vector.rows):
            for j in range(lanes):
                read = self.read.data[r].word_select(j, FP16.bits)
                first = self.visible(
                    r, element + j, Mux(both, held[r].word_select(j, FP16.bits), read)
                )
                k = r * lanes + j
                m.d.comb += [
                    o.p.a[k].eq(_operand(self.a_kind, first, self.a_scalar[r], self.a)),
                    o.p.b[k].eq(_operand(self.b_kind, read, self.b_scalar[r], self.b)),
                ]
        return m

    def visible(self, row: int, element: Value, value: Value) -> Value:
        """What of a tensor's ``value`` the first operand shows: here, all."""
        return value


def _operand(kind: Value, tensor: Value, scalar: Value, immediate: Value) -> Value:
    """The value of one lane."""
    return Mux(
        kind == Kind.TENSOR,
        tensor,
        Mux(kind == Kind.SCALAR, scalar, immediate),
    )
