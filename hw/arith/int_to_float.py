"""Integer to float."""

from types import SimpleNamespace

from amaranth import Const, Module, Mux

from tilewright.golden.params.arith import IntToFloatParams
from tilewright.hw.arith.float_round import Rounder
from tilewright.hw.arith.lanes import LanewiseUnit
from tilewright.hw.stream.pipeline import Stage


class IntToFloat(LanewiseUnit[IntToFloatParams]):
    """``y = a``, a two's complement integer as a float, in every lane.

    Numerics: rounded once into ``params.out``; 0 is +0.
    Timing: one a cycle, latency ``params.latency``. Stages: magnitude; the rounder's three (count
    zeros, shift, round).
    """

    def lane_stages(self) -> list[Stage]:
        p = self.params
        top = p.bits - 1 + p.out.bias
        rounder = Rounder(
            p.out, p.rules, width=p.bits, lowest=top, highest=top, leading_zeros=p.bits - 1
        )
        return [self._magnitude, *rounder.stages()]

    def _magnitude(self, m: Module, x: SimpleNamespace) -> dict:
        bits = self.params.bits
        negative = x.a[-1]
        return {
            "sign": negative,
            "significand": Mux(negative, -x.a, x.a)[:bits],
            "biased": Const(bits - 1 + self.params.out.bias),
        }
