"""fp16 activations to mantissas that share a group's largest exponent."""

from amaranth import Array, Cat, Const, Module, Mux, Signal, Value

from tilewright.golden.params.formats import FP16, Subnormals
from tilewright.golden.params.pe import FignaAlignerParams
from tilewright.hw.arith.float_unpack import finite_value, split, wire
from tilewright.hw.arith.max_tree import larger
from tilewright.hw.sram import Sram
from tilewright.hw.unit import Unit


class FignaAligner(Unit[FignaAlignerParams]):
    """Holds a group until its largest exponent is known, then gives it aligned.

    Numerics: :class:`tilewright.golden.params.pe.FignaAlignerParams`.
    Timing: a beat a cycle, as long as groups are of equal length. It holds two groups: while one
    is given, the next one is taken. Latency 2 from the end of a group.
    """

    def elaborate(self, platform: object) -> Module:
        p = self.params
        m = Module()
        beats = p.beats
        m.submodules.buffer = words = Sram(2 * beats, p.lanes * FP16.bits)

        # Taking: two halves of the memory in turn.
        half, place, largest = Signal(), Signal(range(beats)), Signal(FP16.exponent_bits, init=1)
        full = Signal(2)
        shared = Array(Signal(FP16.exponent_bits, name=f"shared_{k}") for k in range(2))
        end = Array(Signal(range(beats), name=f"end_{k}") for k in range(2))
        finite = [_finite(a) for a in self.i.p.activation]
        highest = largest
        for k, pattern in enumerate(finite):
            biased = split(FP16, pattern, Subnormals.KEEP).biased
            highest = wire(m, f"highest_{k}", larger(highest, biased))
        take = wire(m, "take", self.i.valid & self.i.ready)
        m.d.comb += [
            self.i.ready.eq(~full.bit_select(half, 1)),
            words.write_enable.eq(take),
            words.write_address.eq(Cat(place, half)),
            words.write_data.eq(Cat(*finite)),
        ]
        with m.If(take):
            m.d.sync += [place.eq(place + 1), largest.eq(highest)]
            with m.If(self.i.p.group_end):
                m.d.sync += [
                    place.eq(0),
                    largest.eq(1),
                    half.eq(~half),
                    shared[half].eq(highest),
                    end[half].eq(place),
                ]

        # Giving: the memory's output register is the register of ``o``.
        from_half, from_place = Signal(), Signal(range(beats))
        exponent, group_end = Signal(FP16.exponent_bits), Signal()
        step = wire(m, "step", ~self.o.valid | self.o.ready)
        read = wire(m, "read", step & full.bit_select(from_half, 1))
        done = wire(m, "done", from_place == end[from_half])
        m.d.comb += [words.read_enable.eq(read), words.read_address.eq(Cat(from_place, from_half))]
        with m.If(step):
            m.d.sync += self.o.valid.eq(read)
        with m.If(read):
            m.d.sync += [
                exponent.eq(shared[from_half]),
                group_end.eq(done),
                from_place.eq(Mux(done, 0, from_place + 1)),
                from_half.eq(from_half ^ done),
            ]
        filled = wire(m, "filled", (take & self.i.p.group_end) << half)
        emptied = wire(m, "emptied", (read & done) << from_half)
        m.d.sync += full.eq((full | filled) & ~emptied)

        m.d.comb += [self.o.p.exponent.eq(exponent), self.o.p.group_end.eq(group_end)]
        for k in range(p.lanes):
            pattern = words.read_data.word_select(k, FP16.bits)
            m.d.comb += self.o.p.activation[k].eq(self._aligned(m, k, pattern, exponent))
        return m

    def _aligned(self, m: Module, lane: int, pattern: Value, exponent: Value) -> Value:
        x = split(FP16, pattern, Subnormals.KEEP)
        distance = wire(m, f"distance_{lane}", (exponent - x.biased)[: FP16.exponent_bits])
        bits = self.params.mantissa_bits
        lifted = Cat(Const(0, max(0, bits - FP16.significand_bits)), x.significand)
        return Cat((lifted >> distance)[-bits:], x.sign)


def _finite(pattern: Value) -> Value:
    return finite_value(FP16, pattern, pattern[FP16.mantissa_bits : -1].all())
