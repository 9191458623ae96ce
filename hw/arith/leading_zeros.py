"""Leading-zero count."""

from amaranth import Cat, Const, Mux, Value

from tilewright.golden.params.arith import LeadingZerosParams
from tilewright.hw.stream.pipeline import PipelinedUnit, Stage


def count_leading_zeros(value: Value) -> Value:
    """Zeros above the highest set bit of ``value``, its width if there is none.

    A balanced tree: depth grows with the logarithm of the width.
    """
    width = len(value)
    padding = (1 << (width - 1).bit_length()) - width
    # Ones below a ragged width stop the count there, so no special case is needed for zero.
    empty, count = _count(Cat(Const((1 << padding) - 1, padding), value))
    if padding:
        return count
    return Cat(count & ~empty.replicate(len(count)), empty)


def _count(value: Value) -> tuple[Value, Value]:
    """Whether a power-of-two number of bits is all zero, and the leading zeros if it is not."""
    if len(value) == 1:
        return ~value, Const(0, 0)
    half = len(value) // 2
    (low_empty, low), (high_empty, high) = _count(value[:half]), _count(value[half:])
    return high_empty & low_empty, Cat(Mux(high_empty, low, high), high_empty)


class LeadingZeros(PipelinedUnit[LeadingZerosParams]):
    """Leading zeros of ``x``: one a cycle, latency ``params.latency``."""

    def stages(self) -> list[Stage]:
        return [lambda m, s: {"count": count_leading_zeros(s.x)}]
