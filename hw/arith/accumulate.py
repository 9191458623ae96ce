"""A group's scaled sum added to the sum of the groups before it."""

from amaranth import Cat, Const, Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.formats import FP32, Subnormals
from tilewright.hw.arith.float_add import GUARD_BITS
from tilewright.hw.arith.float_unpack import split, wire

# Exponent fields that finite sums can have. They are multiples of 2^-53, the smallest fp32 partial
# times the smallest scale, so none is subnormal; products of 64 8-bit weights and 16-bit mantissas
# are below 2^46, so that it takes 2^64 groups to leave the upper bound.
LOWEST, HIGHEST = FP32.bias - 53, FP32.bias + 46 + 64


class Accumulate(wiring.Component):
    """``y`` = ``total`` + ``product`` in fp32, or 0 + ``product`` on ``restart``; combinational.

    Numerics: nearest even; infinity - infinity is NaN; a sum of zero is +0. Cases that no dot
    product yields are not built: finite operands are 0 or lie between ``LOWEST`` and ``HIGHEST``.
    """

    restart: In(1)
    total: In(FP32.bits)
    product: In(FP32.bits)
    y: Out(FP32.bits)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b = (split(FP32, x, Subnormals.FLUSH) for x in (self.total, self.product))
        a_size, b_size = self.total[:-1], self.product[:-1]
        kept = ~self.restart
        swap = wire(m, "swap", self.restart | (b_size > a_size))
        opposite = wire(m, "opposite", (a.sign ^ b.sign) & kept)
        zero = (opposite & (a_size == b_size)) | (self.restart & ~b.hidden)
        forth, back = a.biased - b.biased, b.biased - a.biased
        distance = wire(m, "distance", Mux(swap, back, forth)[: FP32.exponent_bits])
        large = wire(m, "large", Mux(swap, b.significand, a.significand))
        small = wire(m, "small", Mux(swap, a.significand, b.significand))
        small, sticky = _shifted(m, Cat(Const(0, GUARD_BITS), small), distance, kept)
        # Subtracting the tail leaves a tail and borrows from the last retained bit.
        carry = opposite & ~sticky
        upper = Cat(carry, Const(0, GUARD_BITS), large)
        lower = Cat(carry, small ^ opposite.replicate(len(small)))
        added = wire(m, "added", (upper + lower)[1:])
        significand, zeros = _normalised(m, Cat(added[:-1], added[-1] & ~opposite))
        level = wire(m, "level", Mux(swap, b.biased, a.biased) + 1)  # of the carry, the top bit
        field = wire(m, "field", (level - zeros)[: FP32.exponent_bits])
        surplus = len(added) - FP32.significand_bits
        fraction, guard = significand[surplus:-1], significand[surplus - 1]
        up = guard & (fraction[0] | significand[: surplus - 1].any() | sticky)
        rounded = wire(m, "rounded", (Cat(fraction, field) + up)[: FP32.bits - 1])
        number = wire(m, "number", rounded & significand[-1].replicate(len(rounded)))

        assert a.nan is not None and a.infinite is not None  # fp32 has both
        nan = (a.nan & kept) | b.nan | (a.infinite & b.infinite & opposite)
        special = wire(m, "special", (a.infinite & kept) | b.infinite | nan)
        quiet = FP32.mantissa_bits - 1  # the fraction bit that NaN has and infinity does not
        m.d.comb += self.y.eq(
            Cat(
                number[:quiet] & ~special.replicate(quiet),
                Mux(special, nan, number[quiet]),
                number[quiet + 1 :] | special.replicate(FP32.exponent_bits),
                Mux(swap, b.sign, a.sign) & ~zero & ~nan,
            )
        )
        return m


def _shifted(m: Module, value: Value, distance: Value, kept: Value) -> tuple[Value, Value]:
    """``value``, or 0 if it is not ``kept``, moved down, and whether a set bit was shifted out.

    Stage by stage: what a stage drops is known from its own bits, which is smaller than a mask of
    all bits, and slower.
    """
    width, sticky = len(value), Const(0)
    stages = (width - 1).bit_length()
    for k in reversed(range(stages)):
        moves = distance[k]
        lost = value[: 1 << k].any() & moves
        sticky = wire(m, f"sticky_{k}", sticky | lost)
        value = wire(m, f"moved_{k}", Mux(moves, value >> (1 << k), value))
    far = distance[stages:].any()
    near = wire(m, "near", kept & ~far)
    return value & near.replicate(width), kept & (sticky | (far & value.any()))


def _normalised(m: Module, value: Value) -> tuple[Value, Value]:
    """``value`` moved up until its top bit is set, and by how much."""
    width = len(value)
    zeros: list[Value] = []
    for k in reversed(range((width - 1).bit_length())):
        empty = wire(m, f"empty_{k}", ~value[-(1 << k) :].any())
        value = wire(m, f"raised_{k}", Mux(empty, value << (1 << k), value)[:width])
        zeros.insert(0, empty)
    return value, Cat(zeros)
