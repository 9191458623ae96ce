"""Lanes of DECA with their share of a matrix unit: codes times bf16 into fp32."""

from amaranth import Module, Value

from tilewright.golden.params.arith import AMX_RULES, IntToFloatParams
from tilewright.golden.params.formats import BF16, FP32
from tilewright.golden.params.pe import DecaLaneParams
from tilewright.hw.arith.int_to_float import IntToFloat
from tilewright.hw.pe.common import ProcessingElement, combinational


class DecaLane(ProcessingElement[DecaLaneParams]):
    """Dot product of bf16 activations and scaled codes.

    Numerics: :class:`tilewright.golden.params.pe.DecaLaneParams`.
    Timing: a beat a cycle, latency 4 + levels of the adder tree: values and scaling, products, a
    level of the tree a cycle, accumulation, rounding to fp16.
    """

    def datapath(self, m: Module, valid: Value) -> None:
        beat = self.beat
        weights = {
            f"weight_{k}": self._decompressed(m, k, code, beat.scale)
            for k, code in enumerate(beat.weight)
        }
        activations = {f"activation_{k}": a for k, a in enumerate(beat.activation)}
        valid, last, *held = self.registered(
            m, "operands", valid, last=beat.last, **weights, **activations
        )
        lanes = self.params.lanes
        terms = [
            self.product(m, f"lane_{k}", BF16, BF16, a, w, rules=AMX_RULES)
            for k, (w, a) in enumerate(zip(held[:lanes], held[lanes:], strict=True))
        ]
        for level in range(self.params.growth + 1):
            if level:
                terms = [
                    self.sum(m, f"level_{level}_{k}", x, y, AMX_RULES)
                    for k, (x, y) in enumerate(zip(terms[0::2], terms[1::2], strict=True))
                ]
            named = {f"term_{k}": term for k, term in enumerate(terms)}
            valid, last, *terms = self.registered(m, f"level_{level}", valid, last=last, **named)
        complete, total = self.accumulated(
            m,
            "sum",
            valid,
            last,
            FP32.bits,
            lambda carried: self.sum(m, "grown", carried, terms[0], rules=AMX_RULES),
        )
        self.give(m, complete, total)

    def _decompressed(self, m: Module, lane: int, code: Value, scale: Value) -> Value:
        """The bf16 weight that a code stands for."""
        table = IntToFloat(IntToFloatParams(bits=self.params.weight_bits, out=BF16))
        value = combinational(m, f"table_{lane}", table, a=code)
        return self.product(
            m, f"scaler_{lane}", BF16, BF16, value, scale, out=BF16, rules=AMX_RULES
        )
