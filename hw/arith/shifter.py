"""Logical shifts that say whether a set bit was shifted out.

Written with the shift operator: Yosys maps it to one multiplexer per bit of the amount and place
(a logarithmic shifter), and the simulators run it as one operation.
"""

from types import SimpleNamespace

from amaranth import Cat, Const, Module, Value

from tilewright.golden.params.arith import ShiftDirection, ShifterParams
from tilewright.hw.stream.pipeline import PipelinedUnit, Stage


def shift_right_sticky(value: Value, amount: Value) -> tuple[Value, Value]:
    """``value`` moved down by ``amount``, and whether a set bit was shifted out.

    Keeps the width of ``value``; an amount of the width or more shifts everything out.
    """
    kept = shift_left(_ones(len(value)), amount)
    # From a mask, in parallel with the shift, so that sticky is ready no later.
    return value >> amount, (value & ~kept).any()


def shift_left(value: Value, amount: Value) -> Value:
    """``value`` moved up by ``amount`` within its own width.

    An amount of the width or more shifts everything out.
    """
    width = len(value)
    near = amount[: (width - 1).bit_length()]
    far = amount[len(near) :]
    shifted = (value << near)[:width]
    return shifted & ~far.any().replicate(width) if len(far) else shifted


def shift_left_sticky(value: Value, amount: Value) -> tuple[Value, Value]:
    """:func:`shift_left`, and whether a set bit was shifted out."""
    kept = _ones(len(value)) >> amount
    return shift_left(value, amount), (value & ~kept).any()


def _ones(width: int) -> Const:
    return Const((1 << width) - 1, width)


class Shifter(PipelinedUnit[ShifterParams]):
    """``x`` shifted by ``amount``, with sticky: one a cycle, latency ``params.latency``.

    One stage per bit of the amount, the longest distance first.
    """

    def stages(self) -> list[Stage]:
        return [self._stage(k) for k in reversed(range(self.params.amount_bits))]

    def _stage(self, k: int) -> Stage:
        right = self.params.direction is ShiftDirection.RIGHT
        shift = shift_right_sticky if right else shift_left_sticky

        def stage(m: Module, s: SimpleNamespace) -> dict:
            first = k == self.params.amount_bits - 1
            value, sticky = (s.x, 0) if first else (s.y, s.sticky)
            y, lost = shift(value, Cat(Const(0, k), s.amount[k]))
            result = {"y": y, "sticky": sticky | lost}
            return result | {"amount": s.amount[:k]} if k else result

        return stage
