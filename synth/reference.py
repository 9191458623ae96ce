# mypy: ignore-errors
# (Amaranth writes port signatures as annotations, which are not types.)
"""Small, varied designs for comparing cell tables with full libraries."""

from amaranth import Array, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out


class Multiplier(wiring.Component):
    """Unsigned 8 x 8 product: XOR-rich, deep."""

    a: In(8)
    b: In(8)
    y: Out(16)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.y.eq(self.a * self.b)
        return m


class AdderTree(wiring.Component):
    """Sum of 64 five-bit integers: carry chains."""

    x: In(data.ArrayLayout(signed(5), 64))
    y: Out(signed(11))

    def elaborate(self, platform):
        m = Module()
        terms = list(self.x)
        while len(terms) > 1:
            terms = [a + b for a, b in zip(terms[0::2], terms[1::2], strict=True)]
        m.d.comb += self.y.eq(terms[0])
        return m


class BarrelShifter(wiring.Component):
    """Rotation of 32 bits by 0..31: multiplexers."""

    x: In(32)
    amount: In(5)
    y: Out(32)

    def elaborate(self, platform):
        m = Module()
        value = self.x
        for k in range(5):
            value = Mux(self.amount[k], value.rotate_left(1 << k), value)
        m.d.comb += self.y.eq(value)
        return m


class RegisterFile(wiring.Component):
    """Sixteen 16-bit registers, one write port, two read ports: flip-flops and wide selection."""

    write: In(1)
    write_index: In(4)
    write_data: In(16)
    read_index: In(data.ArrayLayout(unsigned(4), 2))
    read_data: Out(data.ArrayLayout(unsigned(16), 2))

    def elaborate(self, platform):
        m = Module()
        registers = Array(Signal(16, name=f"r{k}") for k in range(16))
        with m.If(self.write):
            m.d.sync += registers[self.write_index].eq(self.write_data)
        for k in range(2):
            m.d.comb += self.read_data[k].eq(registers[self.read_index[k]])
        return m


class MultiplyAccumulate(wiring.Component):
    """Signed 12 x 12 product added to a 32-bit register: deep logic between registers."""

    a: In(signed(12))
    b: In(signed(12))
    total: Out(signed(32))

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.total.eq(self.total + self.a * self.b)
        return m


class MaximumTree(wiring.Component):
    """Largest of 16 unsigned bytes: comparators that steer multiplexers."""

    x: In(data.ArrayLayout(unsigned(8), 16))
    y: Out(8)

    def elaborate(self, platform):
        m = Module()
        terms = list(self.x)
        while len(terms) > 1:
            pairs = zip(terms[0::2], terms[1::2], strict=True)
            terms = [Mux(a > b, a, b) for a, b in pairs]
        m.d.comb += self.y.eq(terms[0])
        return m


REFERENCE_DESIGNS = {
    "multiplier": Multiplier,
    "adder_tree": AdderTree,
    "barrel_shifter": BarrelShifter,
    "register_file": RegisterFile,
    "multiply_accumulate": MultiplyAccumulate,
    "maximum_tree": MaximumTree,
}
