"""Vector unit: fp16 lanes in rows."""

from itertools import pairwise

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.arith import FloatAddParams, FloatConvertParams, FloatMulParams
from tilewright.golden.params.formats import FP16, FP32
from tilewright.golden.params.vector import OPERATION_BITS, Operation, VectorParams, levels
from tilewright.hw.arith.accumulate import Accumulate
from tilewright.hw.arith.float_add import FloatAdd
from tilewright.hw.arith.float_convert import FloatConvert
from tilewright.hw.arith.float_mul import FloatMul
from tilewright.hw.arith.lanes import LanewiseUnit
from tilewright.hw.machine.approximation import PLACE, SEGMENT, Approach, Finish, Table
from tilewright.hw.shared import Shared
from tilewright.hw.unit import Unit

__all__ = ["VectorUnit"]

SUM16 = FloatAddParams(a=FP16, b=FP16, out=FP16)
PRODUCT = FloatMulParams(a=FP16, b=FP16, out=FP32)  # exact
SCALED = FloatMulParams(a=FP32, b=FP16, out=FP16)
WIDEN = FloatConvertParams(a=FP16, out=FP32)
NARROW = FloatConvertParams(a=FP32, out=FP16)
MINUS_INFINITY = 1 << (FP16.bits - 1) | (FP16.infinity_bits or 0)


class VectorUnit(Unit[VectorParams]):
    """Element by element, or a running reduction of every row.

    Numerics: :class:`tilewright.golden.params.vector.VectorParams` and
    tilewright.golden.machine.vector.
    Timing: one beat a cycle, latency ``params.latency``: products, sums and tables; products
    rounded, approximations finished, each lane's running sum and maximum; one cycle for each
    level of a row's tree; a row's sum times ``scale``. A consumer that waits stops all of them.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        x = self.i.p
        step = Signal()
        m.d.comb += [step.eq(~self.o.valid | self.o.ready), self.i.ready.eq(step)]
        # What every stage but the last knows of its beat; the first is the one behind the input.
        stages = range(1, p.latency)
        valid = [Signal(name=f"s{k}_valid") for k in stages]
        operations = [Signal(OPERATION_BITS, name=f"s{k}_operation") for k in stages]
        scales = [Signal(FP16.bits, name=f"s{k}_scale") for k in stages]
        s1_first = Signal()
        with m.If(step):
            m.d.sync += s1_first.eq(x.first)
            for entering, held in (
                (self.i.valid, [*valid, self.o.valid]),
                (x.operation, operations),
                (x.scale, scales),
            ):
                m.d.sync += [new.eq(old) for old, new in pairwise([entering, *held])]
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
                lane.s1_valid.eq(valid[0]),
                lane.s1_operation.eq(operations[0]),
                lane.s1_first.eq(s1_first),
            ]
        for r in range(p.rows):
            own = range(r * p.row_lanes, (r + 1) * p.row_lanes)
            m.submodules[f"row{r}"] = row = Shared(
                f"anda_vector_row{p.row_lanes}", row_signature(p.row_lanes), self._row
            )
            m.d.comb += [row.step.eq(step), row.scale.eq(scales[-1])]
            m.d.comb += [
                told.eq(known) for told, known in zip(row.operations, operations[1:], strict=True)
            ]
            for j, k in enumerate(own):
                m.d.comb += [
                    row.values[j].eq(lanes[k].value),
                    row.totals[j].eq(lanes[k].total),
                    row.largest[j].eq(lanes[k].largest),
                ]
            with m.If(step):
                m.d.sync += [self.o.p.values[k].eq(row.results[j]) for j, k in enumerate(own)]
        return m

    def _row(self) -> "Row":
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
            "step": In(1),
            "operations": In(OPERATION_BITS).array(levels(lanes) + 1),  # of the beat at each level
            "scale": In(FP16.bits),
            "values": In(FP16.bits).array(lanes),
            "totals": In(FP32.bits).array(lanes),
            "largest": In(FP16.bits).array(lanes),
            "results": Out(FP16.bits).array(lanes),
        }
    )


class Lane(wiring.Component):
    """The first two stages of one lane: ``value``, and the running sum and maximum.

    All registers move with ``step``; the running ones only for a valid beat of their operation.
    """

    def __init__(self) -> None:
        super().__init__(LANE)

    def elaborate(self, platform: object) -> Module:
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
        s1_simple, s1_term, s1_active = Signal(FP16.bits), Signal(FP32.bits), Signal()
        s1_place, s1_segment = Signal(PLACE), Signal(SEGMENT)
        term = Mux(self.operation == Operation.SUM, widened, product)
        with m.If(self.step):
            with m.Switch(self.operation):
                with m.Case(Operation.COPY):
                    m.d.sync += s1_simple.eq(self.a)
                with m.Case(Operation.MAXIMUM):
                    m.d.sync += s1_simple.eq(_larger(self.a, self.b))
                with m.Case(Operation.LARGEST):
                    m.d.sync += s1_simple.eq(Mux(self.active, self.a, MINUS_INFINITY))
                with m.Default():
                    m.d.sync += s1_simple.eq(sum16)
            m.d.sync += [
                s1_term.eq(Mux(self.active, term, 0)),
                s1_active.eq(self.active),
                s1_place.eq(approach.place),
                s1_segment.eq(table.segment),
            ]

        narrow = _apply(m, "narrow", FloatConvert(NARROW), a=s1_term)
        m.submodules.add_term = add_term = Accumulate()
        value = Signal(FP16.bits)
        m.d.comb += [
            finish.place.eq(s1_place),
            finish.segment.eq(s1_segment),
            add_term.restart.eq(self.s1_first),
            add_term.total.eq(self.total),
            add_term.product.eq(s1_term),
        ]
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
                        m.d.sync += self.total.eq(add_term.y)
                    with m.Case(Operation.LARGEST):
                        start = Mux(self.s1_first, MINUS_INFINITY, self.largest)
                        m.d.sync += self.largest.eq(_larger(start, s1_simple))
        return m


class Row(wiring.Component):
    """The lanes' values, or in each lane their sum times ``scale``, or their largest value.

    Timing: latency is the levels of the tree, neighbours first; registers move with ``step``. A
    level has one register, as long as all values: half as many sums of twice their length fit.
    """

    def __init__(self, lanes: int):
        self.lanes = lanes
        super().__init__(row_signature(lanes))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        values, totals, largest = list(self.values), list(self.totals), list(self.largest)
        for level in range(levels(self.lanes)):
            held = Signal(self.lanes * FP16.bits, name=f"level{level}")
            sums = [
                self._sum(m, f"add{level}_{k}", *pair)
                for k, pair in enumerate(zip(totals[0::2], totals[1::2], strict=True))
            ]
            maxima = [_larger(*pair) for pair in zip(largest[0::2], largest[1::2], strict=True)]
            with m.If(self.step):
                with m.Switch(self.operations[level]):
                    with m.Case(Operation.SUM, Operation.DOT):
                        m.d.sync += held.eq(Cat(sums))
                    with m.Case(Operation.LARGEST):
                        m.d.sync += held.eq(Cat(maxima))
                    with m.Default():
                        m.d.sync += held.eq(Cat(values))
            values = [held.word_select(k, FP16.bits) for k in range(len(values))]
            totals = [held.word_select(k, FP32.bits) for k in range(len(sums))]
            largest = values[: len(maxima)]
        scaled = _apply(m, "times_scale", FloatMul(SCALED), a=totals[0], b=self.scale)
        for result, value in zip(self.results, values, strict=True):
            with m.Switch(self.operations[-1]):
                with m.Case(Operation.SUM, Operation.DOT):
                    m.d.comb += result.eq(scaled)
                with m.Case(Operation.LARGEST):
                    m.d.comb += result.eq(largest[0])
                with m.Default():
                    m.d.comb += result.eq(value)
        return m

    def _sum(self, m: Module, name: str, a: Value, b: Value) -> Value:
        m.submodules[name] = adder = Accumulate()
        m.d.comb += [adder.total.eq(a), adder.product.eq(b)]
        return adder.y


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
