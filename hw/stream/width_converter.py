"""A bit stream cut into words of another width."""

from math import gcd

from amaranth import Module, Mux, Signal

from hw.unit import Unit

__all__ = ["WidthConverter"]


class WidthConverter(Unit):
    """Little-endian width conversion between any two widths: latency 1, and no bubbles.

    The narrower side moves a word every cycle as long as neither side waits. Ready and valid are
    functions of registers alone. Bits short of an output word wait for the next input.
    """

    def elaborate(self, platform):
        m = Module()
        input_width, output_width = self.params.input_width, self.params.output_width
        unit = gcd(input_width, output_width)  # the fill level is always a multiple of it
        put_units, get_units = input_width // unit, output_width // unit
        # The least that never makes the narrower side wait: the wider word may lie one unit short
        # of complete while one narrower word comes or goes and the next must find its place.
        capacity = put_units + get_units + min(put_units, get_units) - 1
        buffer = Signal(capacity * unit)  # zero above the fill level
        level = Signal(range(capacity + 1))  # in units
        put, get = self.i.valid & self.i.ready, self.o.valid & self.o.ready
        m.d.comb += [
            self.i.ready.eq(level <= capacity - put_units),
            self.o.valid.eq(level >= get_units),
            self.o.p.data.eq(buffer[:output_width]),
        ]
        # Placed before the output moves, so that the shifter does not wait for o.ready.
        placed = self.i.p.data
        for k, bit in enumerate(level):
            shifted = Signal.like(buffer, name=f"placed{k}")
            m.d.comb += shifted.eq(Mux(bit, placed.shift_left(unit << k), placed))
            placed = shifted
        filled = Signal.like(buffer)
        m.d.comb += filled.eq(Mux(put, buffer | placed, buffer))
        m.d.sync += [
            buffer.eq(Mux(get, filled >> output_width, filled)),
            level.eq(level + Mux(put, put_units, 0) - Mux(get, get_units, 0)),
        ]
        return m
