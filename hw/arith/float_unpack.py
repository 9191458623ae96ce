"""Float patterns taken apart."""

from functools import reduce
from operator import or_
from types import SimpleNamespace
from typing import NamedTuple

from amaranth import Cat, Const, Module, Mux, Signal, Value

from tilewright.golden.params.arith import FloatUnpackParams
from tilewright.golden.params.formats import FloatFormat, Specials, Subnormals
from tilewright.hw.arith.leading_zeros import count_leading_zeros
from tilewright.hw.arith.shifter import shift_left
from tilewright.hw.stream.pipeline import PipelinedUnit, Stage


class Operand(NamedTuple):
    """A pattern of ``fmt``; nothing is shifted and nothing masked yet.

    Value = (-1)^sign * significand * 2^(biased - bias - mantissa_bits) for finite values that do
    not count as zero. A flag that the format cannot raise is None, and so costs no logic.
    """

    sign: Value
    biased: Value  # exponent field; 1 for supported subnormals
    fraction: Value
    hidden: Value  # top bit of the significand: 0 for zero and subnormals
    zero: Value  # counts as zero: with FLUSH every subnormal does
    infinite: Value | None
    nan: Value | None

    @property
    def significand(self) -> Value:
        return Cat(self.fraction, self.hidden)


def split(fmt: FloatFormat, pattern: Value, subnormals: Subnormals) -> Operand:
    """Fields and class of ``pattern``."""
    flush = subnormals is Subnormals.FLUSH
    fraction = pattern[: fmt.mantissa_bits]
    field = pattern[fmt.mantissa_bits : -1]
    hidden = field.any()
    infinite = nan = None
    match fmt.specials:
        case Specials.IEEE:
            infinite, nan = field.all() & ~fraction.any(), field.all() & fraction.any()
        case Specials.NAN_ONLY:
            nan = pattern[:-1].all()
    return Operand(
        sign=pattern[-1],
        biased=field if flush else Cat(field[0] | ~hidden, field[1:]),
        fraction=fraction,
        hidden=hidden,
        zero=~hidden if flush else ~pattern[:-1].any(),
        infinite=infinite,
        nan=nan,
    )


def finite_value(fmt: FloatFormat, pattern: Value, special: Value) -> Value:
    """The largest finite value where ``pattern`` is ``special``, infinity or NaN; sign kept."""
    magnitude = Mux(special, fmt.max_finite_bits, pattern[:-1])[: fmt.bits - 1]
    return Cat(magnitude, pattern[-1])


def normalise(
    m: Module, x: Operand, subnormals: Subnormals = Subnormals.KEEP
) -> tuple[Value, Value]:
    """Biased exponent and fraction of what is not zero, as if every value had its hidden bit.

    With FLUSH that is so, and nothing is built.
    """
    if subnormals is Subnormals.FLUSH:
        return x.biased, x.fraction
    significand = wire(m, "ragged", x.significand)
    zeros = wire(m, "zeros", count_leading_zeros(significand))
    return x.biased - zeros, shift_left(significand, zeros)[:-1]


def wire(m: Module, name: str, value: Value) -> Signal:
    """``value`` under a name, so that all its uses share one piece of logic."""
    signal = Signal(value.shape(), name=name)
    m.d.comb += signal.eq(value)
    return signal


def lowest_exponent(fmt: FloatFormat, subnormals: Subnormals) -> int:
    """Exponent of the smallest value that does not count as zero."""
    kept = subnormals is Subnormals.KEEP
    return fmt.min_exponent - (fmt.mantissa_bits if kept else 0)


def either(*flags: Value | None) -> Value | None:
    """Whether any flag is set; None if none of them can be."""
    possible = [flag for flag in flags if flag is not None]
    return reduce(or_, possible) if possible else None


def both(one: Value | None, other: Value | None) -> Value | None:
    """Whether both flags are set; None if one of them cannot be."""
    return None if one is None or other is None else one & other


def present(**values: Value | None) -> dict[str, Value]:
    """The values that exist, as a stage returns them."""
    return {name: value for name, value in values.items() if value is not None}


class FloatUnpack(PipelinedUnit[FloatUnpackParams]):
    """Sign, exponent, normalised significand and class of ``x``.

    Numerics: exact; see :class:`tilewright.golden.params.arith.FloatUnpackParams`.
    Timing: one a cycle, latency ``params.latency``. Stages: classify and count leading zeros;
    shift them out.
    """

    def stages(self) -> list[Stage]:
        return [self._classify, self._normalise]

    def _classify(self, m: Module, x: SimpleNamespace) -> dict:
        fmt = self.params.format
        keep = self.params.operand_subnormals is Subnormals.KEEP
        operand = split(fmt, x.x, self.params.operand_subnormals)
        special = either(operand.zero, operand.infinite, operand.nan)
        number = ~special  # type: ignore[operator]  # `zero` is never None
        significand = wire(m, "ragged", operand.significand)
        zeros = wire(m, "zeros", count_leading_zeros(significand)) if keep else Const(0)
        return {
            "significand": significand,
            "zeros": zeros,
            "exponent": operand.biased - fmt.bias - zeros,
            "number": number,
            "sign": operand.sign,
            "zero": operand.zero,
            "infinite": Const(0) if operand.infinite is None else operand.infinite,
            "nan": Const(0) if operand.nan is None else operand.nan,
        }

    def _normalise(self, m: Module, x: SimpleNamespace) -> dict:
        return {
            "significand": Mux(x.number, shift_left(x.significand, x.zeros), 0),
            "exponent": Mux(x.number, x.exponent, 0),
            "sign": x.sign,
            "zero": x.zero,
            "infinite": x.infinite,
            "nan": x.nan,
        }
