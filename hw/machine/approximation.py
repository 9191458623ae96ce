"""Approximated functions of one fp16 value: e^x, 1/x, 1/sqrt(x)."""

from types import SimpleNamespace

from amaranth import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.arith import IEEE_RULES
from tilewright.golden.params.formats import FP16, Subnormals
from tilewright.golden.params.vector import (
    ARGUMENT_BITS,
    LOG2_E,
    LOG2_E_FRACTION,
    OPERATION_BITS,
    SLOPE_BITS,
    STEP_BITS,
    TABLES,
    VALUE_BITS,
    VALUE_FRACTION,
    Operation,
    exponent_range,
)
from tilewright.hw.arith.float_round import Rounder
from tilewright.hw.arith.float_unpack import normalise, split, wire
from tilewright.hw.arith.lanes import joined

EXP_FIELD_LIMIT = FP16.bias + 5  # exponent field of 32: beyond it e^x is 0 or infinity
EXPONENT_BITS = 8  # signed; see exponent_range

# Where in the table, and what the result will be apart from its significand.
PLACE = data.StructLayout(
    {
        "argument": ARGUMENT_BITS,
        "exponent": signed(EXPONENT_BITS),
        "sign": 1,
        "zero": 1,
        "infinite": 1,
        "nan": 1,
    }
)
SEGMENT = data.StructLayout({"base": VALUE_BITS, "slope": signed(SLOPE_BITS)})


class Approach(wiring.Component):
    """Argument of the table, and exponent and class of the result.

    Numerics: tilewright.golden.machine.vector, bit by bit. Timing: combinational, or up to two
    ``registers``, which load in every cycle.
    """

    operation: In(OPERATION_BITS)
    x: In(FP16.bits)
    place: Out(PLACE)

    def __init__(self, registers: int = 0):
        self.registers = registers
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        operand = split(FP16, self.x, Subnormals.KEEP)
        biased, fraction = normalise(m, operand, Subnormals.KEEP)
        exponent = wire(m, "exponent", biased - FP16.bias)
        if self.registers:
            exponent, fraction = (_later(m, n, v) for n, v in (("e", exponent), ("f", fraction)))
        # e^x: x log2(e) as a fixed-point number, whole and fraction.
        drop = FP16.mantissa_bits + LOG2_E_FRACTION - VALUE_FRACTION + FP16.bias
        product = wire(m, "product", operand.significand * LOG2_E)
        if self.registers:
            product = _later(m, "product", product)
        lifted = wire(m, "lifted", product << operand.biased)
        most = len(product) + EXP_FIELD_LIMIT - 1 - drop  # bits of a magnitude below the limit
        magnitude = lifted[drop : drop + most]
        power = wire(m, "power", Mux(operand.sign, -magnitude, magnitude))
        huge = operand.biased >= EXP_FIELD_LIMIT
        pad = ARGUMENT_BITS - FP16.mantissa_bits
        place = self.place
        if self.registers > 1:
            place = Signal(PLACE, name="found")
            m.d.sync += self.place.eq(place)
        with m.Switch(self.operation):
            with m.Case(Operation.EXPONENTIAL):
                m.d.comb += [
                    place.argument.eq(power[:VALUE_FRACTION]),
                    place.exponent.eq(power >> VALUE_FRACTION),
                    place.zero.eq(huge & operand.sign),
                    place.infinite.eq(huge & ~operand.sign),
                    place.nan.eq(operand.nan),
                ]
            with m.Case(Operation.RECIPROCAL):
                m.d.comb += [
                    place.argument.eq(Cat(Const(0, pad), fraction)),
                    place.exponent.eq(-exponent),
                    place.sign.eq(operand.sign),
                    place.zero.eq(operand.infinite),
                    place.infinite.eq(operand.zero),
                    place.nan.eq(operand.nan),
                ]
            with m.Case(Operation.RECIPROCAL_ROOT):
                m.d.comb += [
                    place.argument.eq(Cat(Const(0, pad - 1), fraction, exponent[0])),
                    place.exponent.eq(-(exponent >> 1)),
                    place.sign.eq(operand.sign),
                    place.zero.eq(operand.infinite),
                    place.infinite.eq(operand.zero),
                    place.nan.eq(operand.nan | (operand.sign & ~operand.zero)),
                ]
        return m


class Table(wiring.Component):
    """The segment an argument lies in. Combinational."""

    operation: In(OPERATION_BITS)
    number: In(ARGUMENT_BITS - STEP_BITS)
    segment: Out(SEGMENT)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        with m.Switch(self.operation):
            for code, table in TABLES.items():
                entries = [SEGMENT.const(s._asdict()).as_bits() for s in table]
                entry = Array(Const(bits, SEGMENT.size) for bits in entries)[self.number]
                with m.Case(code):
                    m.d.comb += self.segment.eq(entry)
        return m


class Finish(wiring.Component):
    """Moves along the segment's slope and rounds to fp16 once.

    Combinational, or up to two ``registers``, which load in every cycle.
    """

    place: In(PLACE)
    segment: In(SEGMENT)
    y: Out(FP16.bits)

    def __init__(self, registers: int = 0):
        self.registers = registers
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lowest, highest = exponent_range()
        rounder = Rounder(
            FP16,
            IEEE_RULES,
            width=VALUE_BITS,
            lowest=lowest + FP16.bias,
            highest=highest + FP16.bias,
            leading_zeros=1,
        )
        step = self.place.argument[:STEP_BITS]
        product = wire(m, "product", self.segment.slope * step)
        if self.registers:
            product = _later(m, "product", product)
        rise = product[STEP_BITS:].as_signed()
        value = wire(m, "value", (self.segment.base + rise)[:VALUE_BITS])
        if self.registers > 1:
            value = _later(m, "value", value)
        number = SimpleNamespace(
            significand=value,
            biased=wire(m, "biased", self.place.exponent + FP16.bias),
            **{name: self.place[name] for name in ("sign", "zero", "infinite", "nan")},
        )
        m.d.comb += self.y.eq(joined(*rounder.stages())(m, number)["y"])
        return m


def _later(m: Module, name: str, value: Value) -> Signal:
    """``value``, a cycle later."""
    held = Signal(value.shape(), name=f"{name}_held", reset_less=True)
    m.d.sync += held.eq(value)
    return held
