"""Building blocks of the lanes of vector units."""

from dataclasses import replace
from typing import Any

from amaranth import Cat, Const, Module, Mux, Value

from tilewright.golden.params.arith import FloatAddParams, FloatConvertParams, FloatMulParams
from tilewright.golden.params.formats import FP16, FP32
from tilewright.hw.arith.accumulate import Accumulate
from tilewright.hw.arith.float_add import FloatAdd
from tilewright.hw.arith.float_convert import FloatConvert
from tilewright.hw.arith.float_mul import FloatMul
from tilewright.hw.arith.followed import followed
from tilewright.hw.arith.lanes import apply

SUM16 = FloatAddParams(a=FP16, b=FP16, out=FP16)
PRODUCT = FloatMulParams(a=FP16, b=FP16, out=FP32)  # exact
SCALED = FloatMulParams(a=FP32, b=FP16, out=FP16)
WIDEN = FloatConvertParams(a=FP16, out=FP32)
NARROW = FloatConvertParams(a=FP32, out=FP16)
MINUS_INFINITY = 1 << (FP16.bits - 1) | (FP16.infinity_bits or 0)


class Paced:
    """Float operations of a stage whose registers move every ``cycles`` cycles.

    Operands do not change in between, so internal registers, one fewer than cycles, load every
    cycle: at the end the result is that of operations without registers.
    """

    def __init__(self, cycles: int):
        self.registers = cycles - 1

    def apply(self, m: Module, name: str, params: Any, **operands: Value) -> Value:
        """The result of the unit that ``params`` are of, built as submodule ``name``."""
        unit = followed(_UNITS[type(params)](self._of(params)))
        return apply(m, name, unit, **operands)

    def sum(self, m: Module, name: str, a: Value, b: Value, restart: Value | None = None) -> Value:
        """``a + b`` in fp32, or ``0 + b`` on ``restart``; for values of dot products only."""
        if self.registers:
            a = a if restart is None else Mux(restart, 0, a)
            return self.apply(m, name, _SUM32, a=a, b=b)
        m.submodules[name] = adder = Accumulate()
        if restart is not None:
            m.d.comb += adder.restart.eq(restart)
        m.d.comb += [adder.total.eq(a), adder.product.eq(b)]
        return adder.y

    def _of(self, params: Any) -> Any:
        return replace(params, latency=self.registers) if self.registers else params


_UNITS: dict[type, Any] = {
    FloatAddParams: FloatAdd,
    FloatConvertParams: FloatConvert,
    FloatMulParams: FloatMul,
}
_SUM32 = FloatAddParams(a=FP32, b=FP32, out=FP32)


def larger_half(a: Value, b: Value) -> Value:
    """The larger of two fp16 values; +0 is larger than -0, NaN wins."""
    nan = _is_nan(a) | _is_nan(b)
    return Mux(nan, FP16.nan_bits, Mux(_ordered(a) >= _ordered(b), a, b))


def _ordered(x: Value) -> Value:
    """Two's complement numbers in the order of the values."""
    return Cat(x[:-1] ^ x[-1].replicate(len(x) - 1), x[-1]).as_signed()


def _is_nan(x: Value) -> Value:
    return x[:-1] > Const(FP16.infinity_bits, FP16.bits)
