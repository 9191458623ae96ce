"""Sign, exponent and significand of an fp16 value as block floating point takes them."""

from typing import NamedTuple

from amaranth import Cat, Value

from tilewright.golden.params.formats import FP16


class Fields(NamedTuple):
    """Value = (-1)^sign * significand * 2^(exponent - bias - mantissa_bits)."""

    sign: Value
    exponent: Value  # 1..30: subnormals have 1
    significand: Value  # with its hidden bit
    special: Value  # an infinity or NaN; the fields are those of the largest finite value


def extract(pattern: Value) -> Fields:
    """Fields of an fp16 pattern."""
    fraction = pattern[: FP16.mantissa_bits]
    field = pattern[FP16.mantissa_bits : -1]
    hidden, special = field.any(), field.all()
    # The last bit of the field is 1 for what has no hidden bit, 0 for what is not finite.
    exponent = Cat((field[0] | ~hidden) & ~special, field[1:])
    significand = Cat(fraction | special.replicate(len(fraction)), hidden)
    return Fields(pattern[-1], exponent, significand, special)
