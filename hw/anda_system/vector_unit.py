"""Vector unit: fp16 lanes in rows."""

from collections.abc import Callable

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from golden.params.anda_vector import OPERATION_BITS, Operation
from golden.params.arith import FloatAddParams, FloatConvertParams, FloatMulParams
from golden.params.formats import FP16, FP32
from hw.anda_system.approximation import PLACE, SEGMENT, Approach, Finish, Table
from hw.arith.float_add import FloatAdd
from hw.arith.float_convert import FloatConvert
from hw.arith.float_mul import FloatMul
from hw.arith.lanes import LanewiseUnit
from hw.shared import Shared
from hw.unit import Unit

__all__ = ["VectorUnit"]

SUM16 = FloatAddParams(a=FP16, b=FP16, out=FP16)
SUM32 = FloatAddParams(a=FP32, b=FP32, out=FP32)
PRODUCT = FloatMulParams(a=FP16, b=FP16, out=FP32)  # exact
SCALED = FloatMulParams(a=FP32, b=FP16, out=FP16)
WIDEN = FloatConvertParams(a=FP16, out=FP32)
NARROW = FloatConvertParams(a=FP32, out=FP16)
MINUS_INFINITY = 1 << (FP16.bits - 1) | FP16.infinity_bits


class VectorUnit(Unit):
    """Element by element, or a running reduction of every row.

    Numerics: :class:`golden.params.anda_vector.AndaVectorParams` and golden.anda_system.vector.
    Timing: one beat a cycle, latency 3: products, sums and tables; products rounded,
    approximations finished, each lane's running sum and maximum; those of a row combined. A
    consumer that waits stops all three.
    """

    def elaborate(self, platform):
        m = Module()
        p = self.params
        x = self.i.p
        step, s1_valid, s2_valid = Signal(), Signal(), Signal()
        s2_operation = Signal(OPERATION_BITS)
        s1_scale, s2_scale = Signal(FP16.bits), Signal(FP16.bits)
        s1_first, s1_operation = Signal(), Signal(OPERATION_BITS)
        m.d.comb += [step.eq(~self.o.valid | self.o.ready), self.i.ready.eq(step)]
        with m.If(step):
            m.d.sync += [
                s1_valid.eq(self.i.valid),
                s1_operation.eq(x.operation),
                s1_first.eq(x.first),
                s1_scale.eq(x.scale),
                s2_valid.eq(s1_valid),
                s2_operation.eq(s1_operation),
                s2_scale.eq(s1_scale),
                self.o.valid.eq(s2_valid),
            ]
        lanes = []
        for k in range(p.lanes):
            m.submodules[f"lane{k}"] = lane = Shared("anda_vector_lane", LANE, Lane)
            lanes.append(lane)
            m.d.comb += [
                lane.operation.eq(x.operation),
                lane.active.eq(x.active[k % p.row_lanes]),
                lane.a.eq(x.a[k]),
                lane.b.eq(x.b[k]),
                lane.step.eq(step),
                lane.s1_valid.eq(s1_valid),
                lane.s1_operation.eq(s1_operation),
                lane.s1_first.eq(s1_first),
            ]
        for r in range(p.rows):
            own = range(r * p.row_lanes, (r + 1) * p.row_lanes)
            m.submodules[f"row{r}"] = row = Shared(
                f"anda_vector_row{p.row_lanes}", row_signature(p.row_lanes), self._row
            )
            m.d.comb += [row.operation.eq(s2_operation), row.scale.eq(s2_scale)]
            for j, k in enumerate(own):
                m.d.comb += [
                    row.totals[j].eq(lanes[k].total),
                    row.largest[j].eq(lanes[k].largest),
                ]
            with m.If(step):
                for k in own:
                    m.d.sync += self.o.p.values[k].eq(
                        Mux(s2_operation >= Operation.SUM, row.value, lanes[k].value)
                    )
        return m

    def _row(self):
        return Row(self.params.row_lanes)


LANE = wiring.Signature(
    {
        "operation": In(OPERATION_BITS),
        "active": In(1),
        "a": In(FP16.bits),
        "b": In(FP16.bits),
        "step": In(1),
        "s1_valid": In(1),
        "s1_operation": In(OPERATION_BITS),
        "s1_first": In(1),
        "value": Out(FP16.bits),
        "total": Out(FP32.bits),
        "largest": Out(FP16.bits),
    }
)


def row_signature(lanes: int) -> wiring.Signature:
    return wiring.Signature(
        {
            "operation": In(OPERATION_BITS),
            "scale": In(FP16.bits),
            "totals": In(FP32.bits).array(lanes),
            "largest": In(FP16.bits).array(lanes),
            "value": Out(FP16.bits),
        }
    )


class Lane(wiring.Component):
    """The first two stages of one lane: ``value``, and the running sum and maximum.

    All registers move with ``step``; the running ones only for a valid beat of their operation.
    """

    def __init__(self):
        super().__init__(LANE)

    def elaborate(self, platform):
        m = Module()
        m.submodules.approach = approach = Approach()
        m.submodules.table = table = Table()
        m.submodules.finish = finish = Finish()
        subtract = self.operation == Operation.SUBTRACT
        b = Cat(self.b[:-1], self.b[-1] ^ subtract)
        sum16 = _apply(m, "sum", FloatAdd(SUM16), a=self.a, b=b)
        product = _apply(m, "product", FloatMul(PRODUCT), a=self.a, b=self.b)
        widened = _apply(m, "widen", FloatConvert(WIDEN), a=self.a)
        m.d.comb += [
            approach.operation.eq(self.operation),
            approach.x.eq(self.a),
            table.operation.eq(self.operation),
            table.number.eq(approach.place.argument[-len(table.number) :]),
        ]
        s1_simple, s1_candidate = Signal(FP16.bits), Signal(FP16.bits)
        s1_product, s1_term, s1_active = Signal(FP32.bits), Signal(FP32.bits), Signal()
        s1_place, s1_segment = Signal(PLACE), Signal(SEGMENT)
        term = Mux(self.operation == Operation.SUM, widened, product)
        with m.If(self.step):
            with m.Switch(self.operation):
                with m.Case(Operation.COPY):
                    m.d.sync += s1_simple.eq(self.a)
                with m.Case(Operation.MAXIMUM):
                    m.d.sync += s1_simple.eq(_larger(self.a, self.b))
                with m.Default():
                    m.d.sync += s1_simple.eq(sum16)
            m.d.sync += [
                s1_product.eq(product),
                s1_term.eq(Mux(self.active, term, 0)),
                s1_candidate.eq(Mux(self.active, self.a, MINUS_INFINITY)),
                s1_active.eq(self.active),
                s1_place.eq(approach.place),
                s1_segment.eq(table.segment),
            ]

        narrow = _apply(m, "narrow", FloatConvert(NARROW), a=s1_product)
        before = Mux(self.s1_first, 0, self.total)
        total = _apply(m, "add_term", FloatAdd(SUM32), a=before, b=s1_term)
        value = Signal(FP16.bits)
        m.d.comb += [finish.place.eq(s1_place), finish.segment.eq(s1_segment)]
        with m.Switch(self.s1_operation):
            with m.Case(Operation.MULTIPLY):
                m.d.comb += value.eq(narrow)
            with m.Case(Operation.EXPONENTIAL, Operation.RECIPROCAL, Operation.RECIPROCAL_ROOT):
                m.d.comb += value.eq(finish.y)
            with m.Default():
                m.d.comb += value.eq(s1_simple)
        with m.If(self.step):
            m.d.sync += self.value.eq(Mux(s1_active, value, 0))
            with m.If(self.s1_valid):
                with m.Switch(self.s1_operation):
                    with m.Case(Operation.SUM, Operation.DOT):
                        m.d.sync += self.total.eq(total)
                    with m.Case(Operation.LARGEST):
                        start = Mux(self.s1_first, MINUS_INFINITY, self.largest)
                        m.d.sync += self.largest.eq(_larger(start, s1_candidate))
        return m


class Row(wiring.Component):
    """The lanes' sums, times ``scale``, or their largest value. Combinational."""

    def __init__(self, lanes: int):
        self.lanes = lanes
        super().__init__(row_signature(lanes))

    def elaborate(self, platform):
        m = Module()
        adders = iter(range(self.lanes))

        def add(a: Value, b: Value) -> Value:
            return _apply(m, f"add{next(adders)}", FloatAdd(SUM32), a=a, b=b)

        total = _tree(list(self.totals), add)
        scaled = _apply(m, "times_scale", FloatMul(SCALED), a=total, b=self.scale)
        largest = _tree(list(self.largest), _larger)
        m.d.comb += self.value.eq(Mux(self.operation == Operation.LARGEST, largest, scaled))
        return m


def _apply(m: Module, name: str, unit: LanewiseUnit, **operands: Value) -> Value:
    """The result of a combinational float unit, built as submodule ``name``."""
    m.submodules[name] = unit
    m.d.comb += [unit.i.p[field][0].eq(value) for field, value in operands.items()]
    return unit.o.p.y[0]


def _larger(a: Value, b: Value) -> Value:
    """The larger of two fp16 values; +0 is larger than -0, NaN wins."""
    nan = _is_nan(a) | _is_nan(b)
    return Mux(nan, FP16.nan_bits, Mux(_ordered(a) >= _ordered(b), a, b))


def _ordered(x: Value) -> Value:
    """Two's complement numbers in the order of the values."""
    return Cat(x[:-1] ^ x[-1].replicate(len(x) - 1), x[-1]).as_signed()


def _is_nan(x: Value) -> Value:
    return x[:-1] > Const(FP16.infinity_bits, FP16.bits)


def _tree(terms: list[Value], combine: Callable[[Value, Value], Value]) -> Value:
    """Neighbours first; the number of terms is a power of two."""
    while len(terms) > 1:
        terms = [combine(a, b) for a, b in zip(terms[0::2], terms[1::2], strict=True)]
    return terms[0]
