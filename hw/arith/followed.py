"""Float units followed by another register, and where their own registers go."""

from typing import TypeVar

from tilewright.hw.arith.float_add import SUM_REGISTERS, FloatAdd
from tilewright.hw.arith.float_mul import SHORT_PRODUCT_REGISTERS, FloatMul
from tilewright.hw.arith.lanes import LanewiseUnit

U = TypeVar("U", bound=LanewiseUnit)

# Better than an even spread: by unit, its stages and its registers.
_PLACES = {(FloatAdd, 6, 3): SUM_REGISTERS, (FloatMul, 5, 3): SHORT_PRODUCT_REGISTERS}


def followed(unit: U) -> U:
    """The unit with all of its registers between its stages."""
    unit.followed = True
    unit.registers_behind = _PLACES.get((type(unit), len(unit.lane_stages()), unit.params.latency))
    return unit
