"""A bit stream cut into words of another width."""

from math import gcd

from amaranth import Module, Mux, Signal

from tilewright.golden.params.stream import WidthConverterParams
from tilewright.hw.unit import Unit

__all__ = ["WidthConverter"]


class WidthConverter(Unit[WidthConverterParams]):
    """Little-endian width conversion between any two widths: latency 1, and no bubbles.

    The narrower side moves a word every cycle as long as neither side waits. Ready and valid are
    functions of registers alone. Bits short of an output word wait for the next input. ``buffer``
    holds ``level`` granules of ``granule`` bits, and zeros above them.
    """

    def __init__(self, params: WidthConverterParams):
        super().__init__(params)
        self.granule = gcd(params.input_width, params.output_width)
        self.put_granules = params.input_width // self.granule
        self.get_granules = params.output_width // self.granule
        # The least that never makes the narrower side wait: the wider word may lie a granule short
        # of complete while one narrower word comes or goes and the next must find its place.
        self.capacity = (
            self.put_granules + self.get_granules + min(self.put_granules, self.get_granules) - 1
        )
        self.buffer = Signal(self.capacity * self.granule)
        self.level = Signal(range(self.capacity + 1))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        put, get = self.i.valid & self.i.ready, self.o.valid & self.o.ready
        m.d.comb += [
            self.i.ready.eq(self.level <= self.capacity - self.put_granules),
            self.o.valid.eq(self.level >= self.get_granules),
            self.o.p.data.eq(self.buffer[: self.params.output_width]),
        ]
        # Placed before the output moves, so that the shifter does not wait for o.ready.
        placed = self.i.p.data
        for k, bit in enumerate(self.level):
            shifted = Signal.like(self.buffer, name=f"placed{k}")
            m.d.comb += shifted.eq(Mux(bit, placed.shift_left(self.granule << k), placed))
            placed = shifted
        filled = Signal.like(self.buffer)
        m.d.comb += filled.eq(Mux(put, self.buffer | placed, self.buffer))
        arrives, leaves = Mux(put, self.put_granules, 0), Mux(get, self.get_granules, 0)
        m.d.sync += [
            self.buffer.eq(Mux(get, filled >> self.params.output_width, filled)),
            self.level.eq(self.level + arrives - leaves),
        ]
        return m
