"""Float format conversion."""

from types import SimpleNamespace

from amaranth import Module

from tilewright.golden.params.arith import FloatConvertParams
from tilewright.golden.params.formats import Subnormals
from tilewright.hw.arith.float_round import Rounder
from tilewright.hw.arith.float_unpack import present, split
from tilewright.hw.arith.lanes import LanewiseUnit, joined
from tilewright.hw.stream.pipeline import Stage


class FloatConvert(LanewiseUnit[FloatConvertParams]):
    """``y = a`` in another format, in every lane.

    Numerics: rounded once into ``params.out``; NaN becomes the canonical NaN, or -0 where the
    format has none.
    Timing: one a cycle, latency ``params.latency``. Stages: the rounder's, one where nothing moves,
    two where values become subnormal, three where subnormals become normal; unpacking in the first.
    """

    def lane_stages(self) -> list[Stage]:
        p = self.params
        self.flush = p.operand_subnormals is Subnormals.FLUSH
        self.offset = p.out.bias - p.a.bias
        rounder = Rounder(
            p.out,
            p.rules,
            width=p.a.significand_bits,
            lowest=1 + self.offset,
            highest=p.a.max_exponent + p.out.bias,
            leading_zeros=0 if self.flush else p.a.mantissa_bits,
            ragged_up_to=1 + self.offset,  # only subnormals have leading zeros
        )
        first, *rest = rounder.stages()
        return [joined(self._unpack, first), *rest]

    def _unpack(self, m: Module, x: SimpleNamespace) -> dict:
        p = self.params
        a = split(p.a, x.a, p.operand_subnormals)
        return present(
            sign=a.sign,
            significand=a.significand,
            biased=a.biased + self.offset,
            zero=a.zero if self.flush else None,
            infinite=a.infinite,
            nan=a.nan,
        )
