"""The APU with registers in every long path, for FPGAs: the same results, later."""

from collections.abc import Sequence
from types import SimpleNamespace

from amaranth import Module, Mux, Signal, Value, signed
from amaranth.lib import data

from tilewright.golden.params.anda import (
    MANTISSA_FIELD_BITS,
    MAX_MANTISSA_BITS,
    PIPELINED_ADD,
    PIPELINED_CONVERT,
    PIPELINED_MULTIPLY,
    PIPELINED_NORMALISE,
    AndaApuParams,
)
from tilewright.golden.params.arith import (
    IEEE_RULES,
    FloatAddParams,
    FloatConvertParams,
    FloatMulParams,
)
from tilewright.golden.params.formats import FP16, FP32
from tilewright.hw.arith.float_add import FloatAdd
from tilewright.hw.arith.float_convert import FloatConvert
from tilewright.hw.arith.float_mul import FloatMul
from tilewright.hw.arith.float_round import Rounder
from tilewright.hw.arith.float_unpack import wire
from tilewright.hw.unit import Unit

__all__ = ["PipelinedTail", "PlanePacer"]

_SUMMED = 8  # weights of a plane that are added before the first register


class PlanePacer:
    """Takes planes, and the last ones of groups so far apart that each finds the sum before it.

    ``step`` says that everything behind may move; while it may not, no plane is taken.
    """

    def __init__(self, m: Module, params: AndaApuParams, step: Value):
        self.valid, self.weights_valid = Signal(name="plane_valid"), Signal(name="weights_there")
        self.mantissa = Signal(MANTISSA_FIELD_BITS, name="plane_mantissa")
        self.ready, self.take = Signal(name="plane_ready"), Signal(name="plane_take")
        self.sign_beat, self.last_plane = Signal(name="sign_beat"), Signal(name="last_plane")
        self.fresh = Signal(name="plane_fresh")
        planes = Signal(MANTISSA_FIELD_BITS, name="planes_left")
        pause = Signal(range(params.least_group_cycles), name="pause")
        m.d.comb += [
            self.sign_beat.eq(planes == 0),
            self.last_plane.eq(planes == 1),
            self.ready.eq(self.weights_valid & step & (~self.last_plane | (pause == 0))),
            self.take.eq(self.valid & self.ready),
        ]
        with m.If(step & (pause != 0)):
            m.d.sync += pause.eq(pause - 1)
        with m.If(self.take):
            m.d.sync += [self.fresh.eq(self.sign_beat), planes.eq(planes - 1)]
            with m.If(self.sign_beat):
                m.d.sync += planes.eq(self.mantissa)
            with m.If(self.last_plane):
                m.d.sync += pause.eq(params.least_group_cycles - 1)


class PipelinedTail:
    """From a plane and its group's weights to the result, all of it in step.

    Numerics: :mod:`tilewright.golden.anda.dot_products`.
    Timing: ``params.result_latency`` steps from the last plane to the result.
    """

    def __init__(self, unit: Unit[AndaApuParams], m: Module, step: Value):
        self.m, self.step, self.params = m, step, unit.params

    def later(self, name: str, steps: int = 1, **values: Value) -> SimpleNamespace:
        """``values`` so many steps later."""
        for k in range(steps):
            held = {
                n: Signal(Value.cast(v).shape(), name=f"{name}{k}_{n}", reset_less=n != "valid")
                for n, v in values.items()
            }
            with self.m.If(self.step):
                self.m.d.sync += [held[n].eq(v) for n, v in values.items()]
            values = held
        return SimpleNamespace(**values)

    def plane_sum(self, pacer: PlanePacer, plane: Value, weights: data.View, facts: dict) -> tuple:
        """The exact sum of a group, and with its last plane its facts."""
        m, n = self.m, self.params.numerics
        chosen = [Mux(plane[k], weights[k], 0) for k in range(n.group)]
        parts = [_sum(chosen[k : k + _SUMMED]) for k in range(0, n.group, _SUMMED)]
        first = self.later(
            "part",
            valid=pacer.take,
            sign=pacer.sign_beat,
            fresh=pacer.fresh,
            end=pacer.take & pacer.last_plane,
            **facts,
            **{f"sum{k}": part for k, part in enumerate(parts)},
        )
        whole = _sum([getattr(first, f"sum{k}") for k in range(len(parts))])
        kept = {name: getattr(first, name) for name in ("valid", "sign", "fresh", "end", *facts)}
        second = self.later("plane", **kept, sum=whole)
        sign_sum = Signal(second.sum.shape(), name="sign_sum", reset_less=True)
        total = Signal(signed(n.group_sum_bits), name="group_sum", reset_less=True)
        with m.If(self.step & second.valid):
            with m.If(second.sign):
                m.d.sync += sign_sum.eq(second.sum)
            with m.Else():
                doubled = Mux(second.fresh, 0, total << 1)
                m.d.sync += total.eq(doubled + (second.sum - sign_sum))
        kept = {name: getattr(second, name) for name in facts}
        return total, self.later("group", valid=second.end, **kept)

    def normalised(self, total: Value, group: SimpleNamespace) -> SimpleNamespace:
        """The sum as a float of the partial format, with what belongs to it."""
        m, n = self.m, self.params.numerics
        width = n.group_sum_bits - 1  # the most negative sum never occurs
        offset = width + n.partial.bias - FP16.bias
        rounder = Rounder(
            n.partial,
            IEEE_RULES,
            width=width,
            lowest=1 - MAX_MANTISSA_BITS + offset,
            highest=FP16.max_exponent + FP16.bias - 1 + offset,
            leading_zeros=width - 1,
        )
        value = self.later(
            "magnitude",
            sign=total[-1],
            significand=Mux(total[-1], -total, total)[:width],
            biased=group.exponent - group.mantissa + offset,
        )
        for k, stage in enumerate(stages := rounder.stages()):
            value = self.later(f"normalise{k}", 1, **stage(m, value))
        assert len(stages) + 1 == PIPELINED_NORMALISE, "the golden model counts these registers"
        beside = {name: getattr(group, name) for name in ("valid", "scale", "first", "last")}
        return SimpleNamespace(
            y=value.y, **vars(self.later("partial", PIPELINED_NORMALISE, **beside))
        )

    def accumulated(self, value: SimpleNamespace) -> tuple[Value, Value]:
        """The fp32 sum of a dot product, and whether it is complete."""
        m, partial = self.m, self.params.partial
        product = FloatMul(FloatMulParams(a=partial, b=FP16, out=FP32, latency=PIPELINED_MULTIPLY))
        scaled = self.through("multiply", product, a=value.y, b=value.scale)
        token = self.later(
            "scaled",
            PIPELINED_MULTIPLY,
            valid=value.valid,
            first=value.first,
            last=value.last,
        )
        total = Signal(FP32.bits, reset_less=True)
        adder = FloatAdd(FloatAddParams(a=FP32, b=FP32, out=FP32, latency=PIPELINED_ADD))
        carried = wire(m, "carried", Mux(token.first, 0, total))
        grown = self.through("accumulate", adder, a=carried, b=scaled)
        done = self.later("added", PIPELINED_ADD, valid=token.valid, last=token.last)
        with m.If(self.step & done.valid):
            m.d.sync += total.eq(grown)
        return total, self.later("summed", valid=done.valid & done.last).valid

    def result(self, total: Value, complete: Value) -> tuple[Value, Value]:
        """The result, and whether it is there."""
        unit = FloatConvert(FloatConvertParams(a=FP32, out=FP16, latency=PIPELINED_CONVERT))
        result = self.through("convert", unit, a=total)
        return result, self.later("result", PIPELINED_CONVERT, valid=complete).valid

    def through(self, name: str, unit: Unit, **operands: Value) -> Value:
        """The result of a pipelined unit that moves with everything else: it is always full."""
        self.m.submodules[name] = unit
        self.m.d.comb += [unit.i.valid.eq(1), unit.o.ready.eq(self.step)]
        self.m.d.comb += [unit.i.p[operand][0].eq(value) for operand, value in operands.items()]
        return unit.o.p.y[0]


def _sum(terms: Sequence[Value]) -> Value:
    """A tree of two-operand adders, which become carry chains."""
    values = list(terms)
    while len(values) > 1:
        pairs = [a + b for a, b in zip(values[0::2], values[1::2], strict=False)]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]
