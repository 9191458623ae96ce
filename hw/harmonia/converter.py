"""The online converter: largest exponents found while results come, one aligner for both ways."""

from amaranth import Array, Cat, Module, Mux, Signal, Value

from tilewright.golden.params.formats import FP16, Subnormals
from tilewright.golden.params.harmonia import ACTIVATION_BITS, OPERAND_BITS, HarmoniaConverterParams
from tilewright.hw.arith.float_unpack import finite_value, split, wire
from tilewright.hw.arith.max_tree import larger
from tilewright.hw.sram import Sram
from tilewright.hw.unit import Unit

__all__ = ["Converter"]


class Converter(Unit[HarmoniaConverterParams]):
    """fp16 results to block floating point, along rows in time or across rows in space.

    Numerics: :class:`tilewright.golden.params.harmonia.HarmoniaConverterParams`; truncation toward
    zero.
    Timing: a beat a cycle. Two blocks have place: while one is given, the next one is taken, so
    blocks of equal length follow each other without a gap. The first beat of a block is offered
    two cycles after its last one was taken.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        m.submodules.taken_values = words = Sram(2 << self._place_bits, p.rows * FP16.bits)
        half, from_half = Signal(), Signal()  # of the memory: being taken, being given
        full = Signal(2)
        entries = max(p.rows, p.columns)
        largest = [
            Array(Signal(FP16.exponent_bits, name=f"largest_{h}_{k}") for k in range(entries))
            for h in range(2)
        ]
        spatial, short, saturated = (Signal(2, name=n) for n in ("spatial", "short", "saturated"))

        filled = self._take(m, words, half, full, largest, spatial, short, saturated)
        emptied = self._give(m, words, from_half, full, largest, spatial, short, saturated)
        m.d.sync += full.eq((full | (filled << half)) & ~(emptied << from_half))
        return m

    @property
    def _place_bits(self) -> int:
        """Bits that count the beats of the longer kind of block."""
        return (max(self.params.block_beats(spatial) for spatial in (False, True)) - 1).bit_length()

    def _take(
        self,
        m: Module,
        words: Sram,
        half: Value,
        full: Value,
        largest: list[Array],
        spatial: Value,
        short: Value,
        saturated: Value,
    ) -> Value:
        """Write beats down and keep each group's largest exponent; whether a block ends now."""
        p = self.params
        column, loop = Signal(range(max(p.columns, p.group))), Signal(range(p.loops))
        start = wire(m, "start", (column == 0) & (loop == 0))
        is_spatial = wire(
            m, "is_spatial", Mux(start, self.i.p.spatial, spatial.bit_select(half, 1))
        )
        take = wire(m, "take", self.i.valid & self.i.ready)
        special = [pattern[FP16.mantissa_bits : -1].all() for pattern in self.i.p.values]
        finite = [finite_value(FP16, *pair) for pair in zip(self.i.p.values, special, strict=True)]
        exponents = [split(FP16, pattern, Subnormals.KEEP).biased for pattern in finite]
        m.d.comb += [
            self.i.ready.eq(~full.bit_select(half, 1)),
            words.write_enable.eq(take),
            words.write_address.eq(Cat(self._place(m, "taken", column, loop, is_spatial), half)),
            words.write_data.eq(Cat(*finite)),
        ]
        row_end = wire(m, "row_end", column == Mux(is_spatial, p.columns - 1, p.group - 1))
        end = wire(m, "end", row_end & (~is_spatial | (loop == p.loops - 1)))
        with m.If(take):
            m.d.sync += column.eq(Mux(row_end, 0, column + 1))
            with m.If(row_end):
                m.d.sync += loop.eq(Mux(end, 0, loop + 1))
            with m.If(end):
                m.d.sync += half.eq(~half)
            for h in range(2):
                with m.If(half == h):
                    m.d.sync += saturated[h].eq((saturated[h] & ~start) | Cat(*special).any())
                    with m.If(start):
                        m.d.sync += [spatial[h].eq(self.i.p.spatial), short[h].eq(self.i.p.short)]
                    with m.If(is_spatial):
                        self._keep_largest_of_column(m, largest[h], column, loop == 0, exponents)
                    with m.Else():
                        for kept, exponent in zip(largest[h], exponents, strict=False):
                            grown = Mux(column == 0, exponent, larger(kept, exponent))
                            m.d.sync += kept.eq(grown)
        return wire(m, "filled", take & end)

    def _keep_largest_of_column(
        self, m: Module, largest: Array, column: Value, fresh: Value, exponents: list[Value]
    ) -> None:
        """A tree over the rows, then one comparator with what earlier passes found."""
        while len(exponents) > 1:
            pairs = zip(exponents[0::2], exponents[1::2], strict=False)
            exponents = [larger(*pair) for pair in pairs] + exponents[len(exponents) & ~1 :]
        of_rows = wire(m, "largest_of_rows", exponents[0])
        m.d.sync += largest[column].eq(Mux(fresh, of_rows, larger(largest[column], of_rows)))

    def _give(
        self,
        m: Module,
        words: Sram,
        from_half: Value,
        full: Value,
        largest: list[Array],
        spatial: Value,
        short: Value,
        saturated: Value,
    ) -> Value:
        """Read a whole block and align it; whether its last beat is read now."""
        p = self.params
        column, loop = Signal(range(max(p.columns, p.group))), Signal(range(p.loops))
        is_spatial = wire(m, "gives_spatial", spatial.bit_select(from_half, 1))
        step = wire(m, "step", ~self.o.valid | self.o.ready)
        read = wire(m, "read", step & full.bit_select(from_half, 1))
        # In space all passes of a column, then the next column; in time one pass.
        next_column = wire(m, "next_column", ~is_spatial | (loop == p.loops - 1))
        row_end = column == Mux(is_spatial, p.columns - 1, p.group - 1)
        end = wire(m, "given_end", next_column & row_end)
        m.d.comb += [
            words.read_enable.eq(read),
            words.read_address.eq(
                Cat(self._place(m, "given", column, loop, is_spatial), from_half)
            ),
        ]
        exponents = [Signal(FP16.exponent_bits, name=f"exponent_{k}") for k in range(p.rows)]
        is_short = Signal()
        with m.If(step):
            m.d.sync += self.o.valid.eq(read)
        with m.If(read):
            m.d.sync += [
                self.o.p.last.eq(end),
                self.o.p.saturated.eq(saturated.bit_select(from_half, 1)),
                is_short.eq(short.bit_select(from_half, 1)),
            ]
            m.d.sync += loop.eq(Mux(next_column, 0, loop + 1))
            with m.If(next_column):
                m.d.sync += column.eq(Mux(end, 0, column + 1))
            with m.If(end):
                m.d.sync += from_half.eq(~from_half)
            for k, exponent in enumerate(exponents):
                own = Mux(from_half, largest[1][k], largest[0][k])
                columns = Mux(from_half, largest[1][column], largest[0][column])
                m.d.sync += exponent.eq(Mux(is_spatial, columns, own))
        for k, exponent in enumerate(exponents):
            pattern = words.read_data.word_select(k, FP16.bits)
            sign, mantissa = self._aligned(m, k, pattern, exponent, is_short)
            m.d.comb += [
                self.o.p.signs[k].eq(sign),
                self.o.p.mantissas[k].eq(mantissa),
                self.o.p.exponents[k].eq(exponent),
            ]
        return wire(m, "emptied", read & end)

    def _place(self, m: Module, name: str, column: Value, loop: Value, is_spatial: Value) -> Value:
        """Where a beat lies in its half of the memory."""
        p = self.params
        place = Signal(self._place_bits, name=f"{name}_place")
        m.d.comb += place.eq(Mux(is_spatial, loop * p.columns + column, column))
        return place

    def _aligned(
        self, m: Module, row: int, pattern: Value, exponent: Value, is_short: Value
    ) -> tuple:
        x = split(FP16, pattern, Subnormals.KEEP)
        distance = wire(m, f"distance_{row}", (exponent - x.biased)[: FP16.exponent_bits])
        mantissa = wire(m, f"aligned_{row}", (x.significand >> distance)[-ACTIVATION_BITS:])
        return x.sign, Mux(is_short, mantissa[OPERAND_BITS:], mantissa)
