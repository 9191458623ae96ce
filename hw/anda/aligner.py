"""The parallel-to-serial aligner: one plane of a group a cycle, from the most significant down."""

from amaranth import Cat, Const, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.formats import FP16


class Aligner(wiring.Component):
    """Holds ``group`` values; ``word`` is the sign word, then plane after plane.

    Per element a shifter with the sign on top of the significand, and a comparator: ``level``, the
    exponent of the present plane's bits, starts at the group's largest and falls by one a plane;
    an element gives its top bit, and shifts, once the level has come down to its exponent.

    Timing: ``load`` takes new values at the clock edge, ``step`` moves on to the next word;
    ``first`` says that the present word is the sign word.
    """

    def __init__(self, group: int):
        exponents = data.ArrayLayout(FP16.exponent_bits, group)
        significands = data.ArrayLayout(FP16.significand_bits, group)
        super().__init__(
            {
                "load": In(1),
                "step": In(1),
                "first": In(1),
                "signs": In(group),
                "exponents": In(exponents),
                "significands": In(significands),
                "shared": In(FP16.exponent_bits),
                "word": Out(group),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        level = Signal(FP16.exponent_bits, reset_less=True)
        with m.If(self.load):
            m.d.sync += level.eq(self.shared)
        with m.Elif(self.step & ~self.first & level.any()):
            m.d.sync += level.eq(level - 1)
        for k, sign in enumerate(self.signs):
            exponent = Signal(FP16.exponent_bits, name=f"exponent{k}", reset_less=True)
            shifter = Signal(1 + FP16.significand_bits, name=f"shifter{k}", reset_less=True)
            arrived = Signal(name=f"arrived{k}")
            m.d.comb += [
                arrived.eq(self.first | (exponent >= level)),
                self.word[k].eq(arrived & shifter[-1]),
            ]
            with m.If(self.load):
                m.d.sync += [
                    exponent.eq(self.exponents[k]),
                    shifter.eq(Cat(self.significands[k], sign)),
                ]
            with m.Elif(self.step & arrived):
                m.d.sync += shifter.eq(Cat(Const(0, 1), shifter[:-1]))
        return m
