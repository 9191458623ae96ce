"""Scaler: bf16 values times the scales of their groups."""

from types import SimpleNamespace

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from golden.params.arith import AMX_RULES
from golden.params.deca import DecaParams, ScaleKind
from golden.params.formats import BF16, E8M0
from hw.arith.float_round import Rounder
from hw.arith.float_unpack import split

__all__ = ["Scaler", "spread_scales"]


def spread_scales(p: DecaParams, scales: Value, kind: Value, group_log2: Value) -> list[Value]:
    """The 16-bit field in which every lane's scale stands; a byte scale is in its low half.

    Scale k of a chunk belongs to the elements k * group and on, counted in the dense tile.
    """
    levels = (p.lanes - 1).bit_length()
    lanes = []
    for lane in range(p.lanes):
        bf16 = scales.word_select(lane, 16)
        byte = scales.word_select(lane, 8)
        for level in range(levels + 1):
            at = group_log2 == level if level < levels else group_log2 >= levels
            bf16 = Mux(at, scales.word_select(lane >> level, 16), bf16)
            byte = Mux(at, scales.word_select(lane >> level, 8), byte)
        lanes.append(Mux(kind == ScaleKind.BF16.code, bf16, byte))
    return lanes


class Scaler(wiring.Component):
    """``o[k] = i[k] * scale[k]`` in bf16, or ``i[k]`` unchanged when ``kind`` is none.

    Numerics: rounded once, to nearest even; subnormal values and bf16 scales count as zero and
    subnormal results become zero; an e8m0 scale is an exact power of two over its whole range.
    Timing: one chunk a cycle, two registers between ``i`` and ``o``; never stalls.
    """

    latency = 2

    def __init__(self, params: DecaParams):
        self.params = params
        chunk = data.ArrayLayout(16, params.lanes)
        super().__init__({"i": In(chunk), "scale": In(chunk), "kind": In(2), "o": Out(chunk)})

    def elaborate(self, platform):
        m = Module()
        none = Signal()  # of the chunk that the multiplier works on
        m.d.sync += none.eq(self.kind == ScaleKind.NONE.code)
        for k in range(self.params.lanes):
            lane = _Lane()
            m.submodules[f"lane{k}"] = lane
            m.d.comb += [
                lane.value.eq(self.i[k]),
                lane.scale.eq(self.scale[k]),
                lane.power_of_two.eq(self.kind == ScaleKind.E8M0.code),
                lane.keep.eq(none),
                self.o[k].eq(lane.result),
            ]
        return m


class _Lane(wiring.Component):
    """One multiplier: product, register, rounding, register."""

    value: In(16)
    scale: In(16)
    power_of_two: In(1)
    keep: In(1)  # for the value of the cycle before
    result: Out(16)

    def elaborate(self, platform):
        m = Module()
        flush = AMX_RULES.operand_subnormals
        value = split(BF16, self.value, flush)
        number = split(BF16, self.scale, flush)
        # An e8m0 byte is an exponent field with significand one; unlike bf16 it has a field 0.
        byte = self.scale[: E8M0.bits]
        two = self.power_of_two
        fraction = Mux(two, 0, number.fraction)
        biased = Mux(two, byte, number.biased)
        scale_zero = ~two & number.zero
        scale_infinite = ~two & number.infinite
        scale_nan = Mux(two, byte == E8M0.nan_bits, number.nan)

        s1 = SimpleNamespace(
            significand=Signal(2 * BF16.significand_bits),
            biased=Signal(range(-BF16.bias, 512)),
            sign=Signal(),
            zero=Signal(),
            infinite=Signal(),
            nan=Signal(),
        )
        s1_value = Signal(16)
        offset = 1 - BF16.bias  # the product's top bit weighs one more than its fields say
        m.d.sync += [
            s1.significand.eq(Cat(value.fraction, Const(1)) * Cat(fraction, Const(1))),
            s1.biased.eq(value.biased + biased + offset),
            s1.sign.eq(value.sign ^ (~two & number.sign)),
            s1.zero.eq(value.zero | scale_zero),
            s1.infinite.eq(value.infinite | scale_infinite),
            s1.nan.eq(
                value.nan
                | scale_nan
                | (value.infinite & scale_zero)
                | (value.zero & scale_infinite)
            ),
            s1_value.eq(self.value),
        ]

        rounder = Rounder(
            BF16,
            AMX_RULES,
            width=2 * BF16.significand_bits,
            lowest=1 + offset,
            highest=2 * (2**BF16.exponent_bits - 2) + offset,
            leading_zeros=1,
        )
        x = s1
        for stage in rounder.stages():
            x = SimpleNamespace(**stage(m, x))
        m.d.sync += self.result.eq(Mux(self.keep, s1_value, x.y))
        return m
