"""An online int8 quantiser: the straightforward way that the converter avoids."""

from amaranth import Cat, Const, Module, Mux, Signal, Value

from tilewright.golden.params.formats import FP16, Subnormals
from tilewright.golden.params.harmonia import Int8QuantiserParams
from tilewright.hw.arith.float_unpack import finite_value, split, wire
from tilewright.hw.arith.leading_zeros import count_leading_zeros
from tilewright.hw.arith.max_tree import larger
from tilewright.hw.sram import Sram
from tilewright.hw.unit import Unit

MAGNITUDE_BITS = FP16.bits - 1


class Int8Quantiser(Unit[Int8QuantiserParams]):
    """Groups of fp16 values along rows to int8, the largest magnitude being 127.

    Numerics: :class:`tilewright.golden.params.harmonia.Int8QuantiserParams`.
    Timing: a beat a cycle; while one group is given, the next one is taken. The first beat of a
    group is offered two cycles after its last one was taken. Each row has a divider of its own, as
    all rows end together.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        bits = (p.group - 1).bit_length()
        m.submodules.taken_values = words = Sram(2 << bits, p.rows * FP16.bits)
        half, place, full = Signal(), Signal(range(p.group)), Signal(2)
        largest = [
            [Signal(MAGNITUDE_BITS, name=f"largest_{h}_{r}") for r in range(p.rows)]
            for h in range(2)
        ]
        finite = [_finite(value) for value in self.i.p.values]
        take = wire(m, "take", self.i.valid & self.i.ready)
        end = wire(m, "end", place == p.group - 1)
        m.d.comb += [
            self.i.ready.eq(~full.bit_select(half, 1)),
            words.write_enable.eq(take),
            words.write_address.eq(Cat(place, half)),
            words.write_data.eq(Cat(*finite)),
        ]
        with m.If(take):
            m.d.sync += [place.eq(Mux(end, 0, place + 1)), half.eq(half ^ end)]
            for h in range(2):
                with m.If(half == h):
                    for kept, value in zip(largest[h], finite, strict=True):
                        grown = Mux(place == 0, value[:-1], larger(kept, value[:-1]))
                        m.d.sync += kept.eq(grown)

        from_half, from_place = Signal(), Signal(range(p.group))
        step = wire(m, "step", ~self.o.valid | self.o.ready)
        read = wire(m, "read", step & full.bit_select(from_half, 1))
        done = wire(m, "done", from_place == p.group - 1)
        m.d.comb += [words.read_enable.eq(read), words.read_address.eq(Cat(from_place, from_half))]
        scale = [Signal(MAGNITUDE_BITS, name=f"scale_{r}") for r in range(p.rows)]
        with m.If(step):
            m.d.sync += self.o.valid.eq(read)
        with m.If(read):
            m.d.sync += [
                self.o.p.last.eq(done),
                from_place.eq(Mux(done, 0, from_place + 1)),
                from_half.eq(from_half ^ done),
            ]
            for r, kept in enumerate(scale):
                m.d.sync += kept.eq(Mux(from_half, largest[1][r], largest[0][r]))
        for r, kept in enumerate(scale):
            value = words.read_data.word_select(r, FP16.bits)
            m.d.comb += [
                self.o.p.codes[r].eq(self._code(m, r, value, kept)),
                self.o.p.largest[r].eq(kept),
            ]
        filled, emptied = (take & end) << half, (read & done) << from_half
        m.d.sync += full.eq((full | filled) & ~emptied)
        return m

    def _code(self, m: Module, row: int, pattern: Value, largest: Value) -> Value:
        p = self.params
        x = split(FP16, pattern, Subnormals.KEEP)
        top = split(FP16, Cat(largest, 0), Subnormals.KEEP)
        top_significand = wire(m, f"top_{row}", top.significand)
        # Only a subnormal group has leading zeros; a group of zeros has nothing to lift.
        lift = wire(m, f"lift_{row}", count_leading_zeros(top_significand))
        fraction = wire(m, f"fraction_{row}", (top_significand << lift)[: FP16.mantissa_bits])
        factor = wire(m, f"factor_{row}", self._factor(m, row, fraction))
        lifted = wire(m, f"lifted_{row}", (x.significand << lift)[: FP16.significand_bits])
        product = wire(m, f"product_{row}", lifted * factor)
        distance = wire(m, f"distance_{row}", (top.biased - x.biased)[: FP16.exponent_bits])
        drop = FP16.mantissa_bits + p.FACTOR_FRACTION - 1  # one less: the bit that rounds stays
        shifted = wire(m, f"shifted_{row}", product[drop:] >> distance)
        rounded = wire(m, f"rounded_{row}", (shifted + 1) >> 1)
        code = wire(m, f"code_{row}", Mux(rounded > p.LIMIT, p.LIMIT, rounded)[:7])
        return Mux(x.sign, -code, code)

    def _factor(self, m: Module, row: int, fraction: Value) -> Value:
        """127 over a significand, bit by bit from the top, as one divides by hand."""
        p = self.params
        divisor = Cat(fraction, 1)
        dividend = p.LIMIT << FP16.mantissa_bits + p.FACTOR_FRACTION
        steps = p.factor_bits
        remainder = Const(dividend >> steps, FP16.significand_bits)  # smaller than any divisor
        quotient: list[Value] = []
        for k in reversed(range(steps)):
            grown = Cat(Const(dividend >> k & 1, 1), remainder)
            fits = wire(m, f"fits_{row}_{k}", grown >= divisor)
            rest = Mux(fits, grown - divisor, grown)[: FP16.significand_bits]
            remainder = wire(m, f"rest_{row}_{k}", rest)
            quotient.insert(0, fits)
        return Cat(*quotient)


def _finite(pattern: Value) -> Value:
    return finite_value(FP16, pattern, pattern[FP16.mantissa_bits : -1].all())
