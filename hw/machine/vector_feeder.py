"""Which rows the vector unit reads, and when; its other operands."""

from amaranth import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import ROW_FIELD, SIZE_FIELD, Kind
from tilewright.golden.params.vector import OPERATION_BITS, VectorParams
from tilewright.hw.machine.banks import ReadPort
from tilewright.hw.unit import payload_layout


class VectorFeeder(wiring.Component):
    """Operands of a vector instruction, from the buffer, scalars and constants to the vector unit.

    ``words`` beats; ``elements`` of every row count. Where both operands are tensors a beat takes
    two cycles, as the buffer has one read port. The numbers hold while it is ``busy``.

    Timing: the first beat is offered two cycles after ``start``, three with two tensors.
    """

    def __init__(self, vector: VectorParams, depth: int, members: dict | None = None):
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

    def elaborate(self, platform: object) -> Module:
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
                    o.p.a[k].eq(operand(self.a_kind, first, self.a_scalar[r], self.a)),
                    o.p.b[k].eq(operand(self.b_kind, read, self.b_scalar[r], self.b)),
                ]
        return m

    def visible(self, row: int, element: Value, value: Value) -> Value:
        """The part of a tensor's ``value`` that the first operand shows: here, all of it."""
        return value


def operand(kind: Value, tensor: Value, scalar: Value, immediate: Value) -> Value:
    """The value of one lane."""
    return Mux(kind == Kind.TENSOR, tensor, Mux(kind == Kind.SCALAR, scalar, immediate))
