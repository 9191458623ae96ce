"""A lane of a vector unit that is fused: powers of differences, and their running sum."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.formats import FP16, FP32
from tilewright.golden.params.vector import OPERATION_BITS, Operation
from tilewright.hw.machine.approximation import PLACE, SEGMENT, Approach, Finish, Table
from tilewright.hw.machine.lane_parts import (
    MINUS_INFINITY,
    NARROW,
    PRODUCT,
    SUM16,
    WIDEN,
    Paced,
    larger_half,
)

FUSED_STAGES = 4
FUSED_LANE = wiring.Signature(
    {
        "operations": In(OPERATION_BITS).array(FUSED_STAGES),  # of the beats before each stage
        "active": In(1),
        "a": In(FP16.bits),
        "b": In(FP16.bits),
        "step": In(1),
        "s3_valid": In(1),
        "s3_first": In(1),
        "value": Out(FP16.bits),
        "total": Out(FP32.bits),
        "largest": Out(FP16.bits),
    }
)


class FusedLane(wiring.Component):
    """The first four stages of one lane: ``value``, and the running sum and maximum.

    Sums and products; where in the tables; the tables' results; the running ones. All registers
    move with ``step``, at most every ``cycles`` cycles; the running ones only for a valid beat of
    their operation.
    """

    def __init__(self, cycles: int = 1) -> None:
        self.cycles = cycles
        super().__init__(FUSED_LANE)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        paced = Paced(self.cycles)
        operation, s1_operation, s2_operation, s3_operation = self.operations
        negative = (operation == Operation.SUBTRACT) | (operation == Operation.POWERS)
        b = Cat(self.b[:-1], self.b[-1] ^ negative)
        sum16 = paced.apply(m, "sum", SUM16, a=self.a, b=b)
        product = paced.apply(m, "product", PRODUCT, a=self.a, b=self.b)
        s1_value, s1_product, s1_active = Signal(FP16.bits), Signal(FP32.bits), Signal()
        with m.If(self.step):
            m.d.sync += [s1_product.eq(product), s1_active.eq(self.active)]
            with m.Switch(operation):
                with m.Case(Operation.ADD, Operation.SUBTRACT, Operation.POWERS):
                    m.d.sync += s1_value.eq(sum16)
                with m.Case(Operation.MAXIMUM):
                    m.d.sync += s1_value.eq(larger_half(self.a, self.b))
                with m.Default():
                    m.d.sync += s1_value.eq(self.a)

        m.submodules.approach = approach = Approach(paced.registers)
        m.submodules.table = table = Table()
        narrow = paced.apply(m, "narrow", NARROW, a=s1_product)
        powers = s1_operation == Operation.POWERS
        function = Mux(powers, Operation.EXPONENTIAL, s1_operation)
        s2_value, s2_product, s2_active = Signal(FP16.bits), Signal(FP32.bits), Signal()
        s2_place, s2_segment = Signal(PLACE), Signal(SEGMENT)
        m.d.comb += [
            approach.operation.eq(function),
            approach.x.eq(s1_value),
            table.operation.eq(function),
            table.number.eq(approach.place.argument[-len(table.number) :]),
        ]
        with m.If(self.step):
            m.d.sync += [
                s2_value.eq(Mux(s1_operation == Operation.MULTIPLY, narrow, s1_value)),
                s2_product.eq(s1_product),
                s2_active.eq(s1_active),
                s2_place.eq(approach.place),
                s2_segment.eq(table.segment),
            ]

        m.submodules.finish = finish = Finish(paced.registers)
        s3_value, s3_product = Signal(FP16.bits), Signal(FP32.bits)
        idle = Mux(s2_operation == Operation.LARGEST, MINUS_INFINITY, 0)
        value = Signal(FP16.bits)
        m.d.comb += [finish.place.eq(s2_place), finish.segment.eq(s2_segment)]
        with m.Switch(s2_operation):
            with m.Case(
                *(Operation.EXPONENTIAL, Operation.RECIPROCAL, Operation.RECIPROCAL_ROOT),
                Operation.POWERS,
            ):
                m.d.comb += value.eq(finish.y)
            with m.Default():
                m.d.comb += value.eq(s2_value)
        with m.If(self.step):
            m.d.sync += [
                s3_value.eq(Mux(s2_active, value, idle)),
                s3_product.eq(Mux(s2_active, s2_product, 0)),
            ]

        # fp16 to fp32 is short enough for the first part of a sum: it has no register of its own.
        widened = Paced(1).apply(m, "widen", WIDEN, a=s3_value)
        term = Mux(s3_operation == Operation.DOT, s3_product, widened)
        grown = paced.sum(m, "add_term", self.total, term, self.s3_first)
        with m.If(self.step):
            m.d.sync += self.value.eq(s3_value)
            with m.If(self.s3_valid):
                with m.Switch(s3_operation):
                    with m.Case(Operation.SUM, Operation.DOT, Operation.POWERS):
                        m.d.sync += self.total.eq(grown)
                    with m.Case(Operation.LARGEST):
                        start = Mux(self.s3_first, MINUS_INFINITY, self.largest)
                        m.d.sync += self.largest.eq(larger_half(start, s3_value))
        return m
