# mypy: ignore-errors
"""Small, varied designs for comparing cell tables with full libraries."""

from amaranth import Array, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

REFERENCE_DESIGNS = {}  # component by name


def _design(**ports):
    """Add the component that a function from a module and the component's ports describes."""

    def added(describe):
        class Design(wiring.Component):
            def __init__(self):
                super().__init__(ports)

            def elaborate(self, platform):
                m = Module()
                describe(m, self)
                return m

        REFERENCE_DESIGNS[describe.__name__] = Design
        return describe

    return added


@_design(a=In(8), b=In(8), y=Out(16))
def multiplier(m, p):
    """XOR-rich, deep."""
    m.d.comb += p.y.eq(p.a * p.b)


@_design(x=In(data.ArrayLayout(signed(5), 64)), y=Out(signed(11)))
def adder_tree(m, p):
    """Carry chains."""
    terms = list(p.x)
    while len(terms) > 1:
        terms = [a + b for a, b in zip(terms[0::2], terms[1::2], strict=True)]
    m.d.comb += p.y.eq(terms[0])


@_design(x=In(32), amount=In(5), y=Out(32))
def barrel_shifter(m, p):
    """Multiplexers."""
    value = p.x
    for k in range(5):
        value = Mux(p.amount[k], value.rotate_left(1 << k), value)
    m.d.comb += p.y.eq(value)


@_design(
    write=In(1),
    write_index=In(4),
    write_data=In(16),
    read_index=In(data.ArrayLayout(unsigned(4), 2)),
    read_data=Out(data.ArrayLayout(unsigned(16), 2)),
)
def register_file(m, p):
    """Flip-flops and wide selection."""
    registers = Array(Signal(16, name=f"r{k}") for k in range(16))
    with m.If(p.write):
        m.d.sync += registers[p.write_index].eq(p.write_data)
    for k in range(2):
        m.d.comb += p.read_data[k].eq(registers[p.read_index[k]])


@_design(a=In(signed(12)), b=In(signed(12)), total=Out(signed(32)))
def multiply_accumulate(m, p):
    """Deep logic between registers."""
    m.d.sync += p.total.eq(p.total + p.a * p.b)


@_design(x=In(data.ArrayLayout(unsigned(8), 16)), y=Out(8))
def maximum_tree(m, p):
    """Comparators that steer multiplexers."""
    terms = list(p.x)
    while len(terms) > 1:
        terms = [Mux(a > b, a, b) for a, b in zip(terms[0::2], terms[1::2], strict=True)]
    m.d.comb += p.y.eq(terms[0])
