"""The online converter: largest exponents found as results arrive, one aligner for both ways."""

from functools import reduce

from amaranth import Array, Cat, Const, Module, Mux, Signal, Value

from tilewright.golden.params.formats import FP16, Subnormals
from tilewright.golden.params.harmonia import ACTIVATION_BITS, OPERAND_BITS, HarmoniaConverterParams
from tilewright.hw.arith.float_unpack import finite_value, split, wire
from tilewright.hw.arith.max_tree import larger
from tilewright.hw.sram import Sram
from tilewright.hw.unit import UNNAMED, Unit


class Converter(Unit[HarmoniaConverterParams]):
    """fp16 results to block floating point, along rows in time or across rows in space.

    Numerics: :class:`tilewright.golden.params.harmonia.HarmoniaConverterParams`; truncation toward
    zero.
    Timing: a beat a cycle. It holds two blocks: while one is given, the next one is taken, so
    blocks of equal length follow each other without a gap. The first beat of a block is offered
    two cycles after its last one was taken. With a ``width`` beats of temporal blocks are wider;
    the memory has as many bits, in words of ``width / spatial_width`` beats of a spatial block.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        beat_bits = p.rows * FP16.bits  # of a spatial block
        granularity = beat_bits if self._parts else None
        depth = max(2, (2 << self._place_bits) // p.width)
        m.submodules.taken_values = words = Sram(depth, p.width * beat_bits, granularity)
        half, from_half = Signal(), Signal()  # of the memory: being taken, being given
        full = Signal(2)
        entries = max(p.rows, p.columns)
        largest = [
            Array(Signal(FP16.exponent_bits, name=f"largest_{h}_{k}") for k in range(entries))
            for h in range(2)
        ]
        spatial, short, saturated = (Signal(2, name=n) for n in ("spatial", "short", "saturated"))

        # State of the block in each half.
        self.words, self.full, self.largest = words, full, largest
        self.spatial, self.short, self.saturated = spatial, short, saturated
        filled = self._take(m, half)
        emptied = self._give(m, from_half)
        m.d.sync += full.eq((full | (filled << half)) & ~(emptied << from_half))
        return m

    @property
    def _place_bits(self) -> int:
        """Bits that count the elements of a row, or the columns of all passes, if more."""
        p = self.params
        return (max(p.group, p.loops * p.columns) - 1).bit_length()

    @property
    def _parts(self) -> bool:
        """Whether a word of the memory holds several beats of a spatial block."""
        return self.params.width > self.params.spatial_width

    def _take(self, m: Module, half: Value) -> Value:
        """Store beats and each group's largest exponent; whether a block ends now."""
        p, spatial, short, largest = self.params, self.spatial, self.short, self.largest
        column, loop = Signal(range(max(p.columns, p.group))), Signal(range(p.loops))
        start = wire(m, "start", (column == 0) & (loop == 0))
        is_spatial = wire(
            m, "is_spatial", Mux(start, self.i.p.spatial, spatial.bit_select(half, 1))
        )
        take = wire(m, "take", self.i.valid & self.i.ready)
        special = [pattern[FP16.mantissa_bits : -1].all() for pattern in self.i.p.values]
        saturates = Cat(*special).any()
        if self._parts:
            saturates = Mux(is_spatial, Cat(*special[: p.rows]).any(), saturates)
        finite = [finite_value(FP16, *pair) for pair in zip(self.i.p.values, special, strict=True)]
        exponents = [split(FP16, pattern, Subnormals.KEEP).biased for pattern in finite]
        of_rows = [reduce(larger, exponents[r :: p.rows]) for r in range(p.rows)]
        m.d.comb += [
            self.i.ready.eq(~self.full.bit_select(half, 1)),
            *self._write(m, column, loop, is_spatial, half, take, finite),
        ]
        row_end = wire(m, "row_end", column == self._last_of(is_spatial))
        end = wire(m, "end", row_end & (~is_spatial | (loop == p.loops - 1)))
        with m.If(take):
            m.d.sync += column.eq(Mux(row_end, 0, column + self._step(is_spatial)))
            with m.If(row_end):
                m.d.sync += loop.eq(Mux(end, 0, loop + 1))
            with m.If(end):
                m.d.sync += half.eq(~half)
            for h in range(2):
                with m.If(half == h):
                    held = self.saturated[h]
                    m.d.sync += held.eq((held & ~start) | saturates)
                    with m.If(start):
                        m.d.sync += [spatial[h].eq(self.i.p.spatial), short[h].eq(self.i.p.short)]
                    with m.If(is_spatial):
                        for k in range(p.spatial_width):
                            own = exponents[k * p.rows : (k + 1) * p.rows]
                            place = column | k if k else column
                            self._keep_largest_of_column(m, largest[h], place, loop == 0, own)
                    with m.Else():
                        for kept, exponent in zip(largest[h], of_rows, strict=False):
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
        name = "largest_of_rows" if self.params.spatial_width == 1 else UNNAMED
        of_rows = wire(m, name, exponents[0])
        m.d.sync += largest[column].eq(Mux(fresh, of_rows, larger(largest[column], of_rows)))

    def _give(self, m: Module, from_half: Value) -> Value:
        """Read a whole block and align it; whether its last beat is read now."""
        p, words, largest = self.params, self.words, self.largest
        column, loop = Signal(range(max(p.columns, p.group))), Signal(range(p.loops))
        is_spatial = wire(m, "gives_spatial", self.spatial.bit_select(from_half, 1))
        step = wire(m, "step", ~self.o.valid | self.o.ready)
        read = wire(m, "read", step & self.full.bit_select(from_half, 1))
        # In space all passes of a column, then the next column; in time one pass.
        next_column = wire(m, "next_column", ~is_spatial | (loop == p.loops - 1))
        row_end = column == self._last_of(is_spatial)
        end = wire(m, "given_end", next_column & row_end)
        place = self._place(m, "given", column, loop, is_spatial)
        m.d.comb += [
            words.read_enable.eq(read),
            words.read_address.eq(Cat(place[self._part_bits :], from_half)),
        ]
        exponents = [Signal(FP16.exponent_bits, name=f"exponent_{k}") for k in range(p.rows)]
        is_short = Signal()
        with m.If(step):
            m.d.sync += self.o.valid.eq(read)
        with m.If(read):
            m.d.sync += [
                self.o.p.last.eq(end),
                self.o.p.saturated.eq(self.saturated.bit_select(from_half, 1)),
                is_short.eq(self.short.bit_select(from_half, 1)),
            ]
            m.d.sync += loop.eq(Mux(next_column, 0, loop + 1))
            with m.If(next_column):
                m.d.sync += column.eq(Mux(end, 0, column + self._step(is_spatial)))
            with m.If(end):
                m.d.sync += from_half.eq(~from_half)
            for k, exponent in enumerate(exponents):
                own = Mux(from_half, largest[1][k], largest[0][k])
                at = column | k % p.spatial_width if k % p.spatial_width else column
                columns = Mux(from_half, largest[1][at], largest[0][at])
                m.d.sync += exponent.eq(Mux(is_spatial, columns, own))
        patterns = self._patterns(m, read, is_spatial, place)
        gives_columns = Signal()
        if p.spatial_width > 1:
            with m.If(read):
                m.d.sync += gives_columns.eq(is_spatial)
        for k, pattern in enumerate(patterns):
            exponent = exponents[k % p.rows]
            if p.spatial_width > 1:
                exponent = Mux(gives_columns, exponents[k // p.rows], exponent)
            sign, mantissa = self._aligned(m, k, pattern, exponent, is_short)
            m.d.comb += [self.o.p.signs[k].eq(sign), self.o.p.mantissas[k].eq(mantissa)]
            if k < p.rows:
                m.d.comb += self.o.p.exponents[k].eq(exponents[k])
        return wire(m, "emptied", read & end)

    @property
    def _last(self) -> int:
        """The last beat of a temporal block."""
        return self.params.group // self.params.width - 1

    def _last_of(self, is_spatial: Value) -> Value:
        """The last beat of a temporal block, or the first column of a pass's last beat."""
        return Mux(is_spatial, self.params.columns - self.params.spatial_width, self._last)

    def _step(self, is_spatial: Value) -> Value | int:
        """From a beat to the next: beats of a row, or columns."""
        width = self.params.spatial_width
        return Mux(is_spatial, width, 1) if width > 1 else 1

    @property
    def _part_bits(self) -> int:
        """Bits of a place that name a part of a word of the memory."""
        return self.params.width.bit_length() - 1

    def _write(
        self,
        m: Module,
        column: Value,
        loop: Value,
        is_spatial: Value,
        half: Value,
        take: Value,
        values: list[Value],
    ) -> list:
        """A beat fills a word of the memory, of a spatial block one of its parts."""
        p, words = self.params, self.words
        place = self._place(m, "taken", column, loop, is_spatial)
        address = words.write_address.eq(Cat(place[self._part_bits :], half))
        if not self._parts:
            return [words.write_enable.eq(take), address, words.write_data.eq(Cat(*values))]
        first = Cat(*values[: p.rows])
        parts = [place[: self._part_bits] == k for k in range(p.width)]
        return [
            words.write_enable.eq(Cat(take & (~is_spatial | part) for part in parts)),
            address,
            words.write_data.eq(Mux(is_spatial, Cat(*[first] * p.width), Cat(*values))),
        ]

    def _patterns(self, m: Module, read: Value, is_spatial: Value, place: Value) -> list[Value]:
        """The values of the beat that is offered; of a spatial one those beyond the rows are 0."""
        p, words = self.params, self.words
        patterns = [words.read_data.word_select(k, FP16.bits) for k in range(p.lanes)]
        if not self._parts:
            return patterns
        part, gives_part = Signal(self._part_bits), Signal(name=UNNAMED)
        with m.If(read):
            m.d.sync += [part.eq(place[: self._part_bits]), gives_part.eq(is_spatial)]
        chosen = words.read_data.word_select(part, p.rows * FP16.bits)
        first = [
            Mux(gives_part, chosen.word_select(r, FP16.bits), patterns[r]) for r in range(p.rows)
        ]
        later = [x & ~gives_part.replicate(FP16.bits) for x in patterns[p.rows :]]
        return first + later

    def _place(self, m: Module, name: str, column: Value, loop: Value, is_spatial: Value) -> Value:
        """Where a beat lies in its half of the memory."""
        p = self.params
        place = Signal(self._place_bits, name=f"{name}_place")
        first = Cat(Const(0, self._part_bits), column) if p.width > 1 else column
        m.d.comb += place.eq(Mux(is_spatial, loop * p.columns + column, first))
        return place

    def _aligned(
        self, m: Module, row: int, pattern: Value, exponent: Value, is_short: Value
    ) -> tuple:
        x = split(FP16, pattern, Subnormals.KEEP)
        distance = wire(m, f"distance_{row}", (exponent - x.biased)[: FP16.exponent_bits])
        mantissa = wire(m, f"aligned_{row}", (x.significand >> distance)[-ACTIVATION_BITS:])
        return x.sign, Mux(is_short, mantissa[OPERAND_BITS:], mantissa)
