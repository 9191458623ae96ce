"""What the lanes of vector units are made of."""

from amaranth import Cat, Const, Module, Mux, Value

from tilewright.golden.params.arith import FloatAddParams, FloatConvertParams, FloatMulParams
from tilewright.golden.params.formats import FP16, FP32
from tilewright.hw.arith.lanes import LanewiseUnit

__all__ = [
    *("MINUS_INFINITY", "NARROW", "PRODUCT", "SCALED", "SUM16", "WIDEN"),
    *("apply", "larger_half"),
]

SUM16 = FloatAddParams(a=FP16, b=FP16, out=FP16)
PRODUCT = FloatMulParams(a=FP16, b=FP16, out=FP32)  # exact
SCALED = FloatMulParams(a=FP32, b=FP16, out=FP16)
WIDEN = FloatConvertParams(a=FP16, out=FP32)
NARROW = FloatConvertParams(a=FP32, out=FP16)
MINUS_INFINITY = 1 << (FP16.bits - 1) | (FP16.infinity_bits or 0)


def apply(m: Module, name: str, unit: LanewiseUnit, **operands: Value) -> Value:
    """The result of a combinational float unit, built as submodule ``name``."""
    m.submodules[name] = unit
    m.d.comb += [unit.i.p[field][0].eq(value) for field, value in operands.items()]
    return unit.o.p.y[0]


def larger_half(a: Value, b: Value) -> Value:
    """The larger of two fp16 values; +0 is larger than -0, NaN wins."""
    nan = _is_nan(a) | _is_nan(b)
    return Mux(nan, FP16.nan_bits, Mux(_ordered(a) >= _ordered(b), a, b))


def _ordered(x: Value) -> Value:
    """Two's complement numbers in the order of the values."""
    return Cat(x[:-1] ^ x[-1].replicate(len(x) - 1), x[-1]).as_signed()


def _is_nan(x: Value) -> Value:
    return x[:-1] > Const(FP16.infinity_bits, FP16.bits)
