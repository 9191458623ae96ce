"""The bit-serial dot product of one group: first over the elements, then over the planes."""

from amaranth import Cat, Const, Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.anda import AndaNumerics
from tilewright.hw.arith.carry_save import carry_save_sum


def compress_columns(m: Module, columns: list[Value]) -> tuple[Value, Value]:
    """Two rows whose sum is, modulo 2^len(columns), that of all bits; column k weighs 2^k.

    Full adders work on slices of a column at once: simulators see a few wide operations, gates
    are those of a carry-save tree.
    """
    level = 0
    while max(map(len, columns)) > 2:
        level += 1
        reduced: list[list[Value]] = [[] for _ in columns]
        for k, column in enumerate(columns):
            third = len(column) // 3
            if third:
                slices = [column[n * third : (n + 1) * third] for n in range(3)]
                total, carry = carry_save_sum(*slices)
                reduced[k].append(total)
                if k + 1 < len(columns):
                    reduced[k + 1].append(carry)
            if len(column) % 3:
                reduced[k].append(column[3 * third :])
        columns = []
        for k, parts in enumerate(reduced):
            column = Signal(sum(map(len, parts)), name=f"column{k}_{level}")
            m.d.comb += column.eq(Cat(parts))
            columns.append(column)
    rows = [Cat(Cat(column, Const(0, 2))[row] for column in columns) for row in range(2)]
    return rows[0], rows[1]


def ripple_sum(m: Module, name: str, a: Value, b: Value, carry: Value) -> Signal:
    """``a + b + carry`` in their width, a full adder per bit: the smallest adder there is."""
    total = Signal(len(a), name=name)
    for k, (x, y) in enumerate(zip(a, b, strict=True)):
        bit, following = carry_save_sum(x, y, carry)
        m.d.comb += total[k].eq(bit)
        carry = Signal(name=f"{name}_carry{k}")
        m.d.comb += carry.eq(following)
    return total


class PlaneDot(wiring.Component):
    """Sum over a group of (-1)^sign * mantissa * weight, exact, a plane a cycle.

    A signed mantissa is, in two's complement, the mantissa's bits each flipped where the sign is
    set, the sign itself weighing -2^M, and the sign added once more: no element is ever negated.
    So ``plane`` is the sign word on the ``sign_beat`` and each mantissa word XOR the sign word
    after it, and with S(p) the sum of the weights that plane p selects, the result is

        sum over planes of 2^k * (S(plane) - S(signs)).

    The weights' sign bits are counted where they are absent, which adds the same constant to
    S(plane) and S(signs).

    Timing: a plane is taken with ``step``; ``fresh`` marks a group's first mantissa plane.
    ``total`` is complete after the last one, and stays until the next ``fresh`` one is taken.
    """

    def __init__(self, numerics: AndaNumerics):
        self.numerics = numerics
        super().__init__(
            {
                "step": In(1),
                "sign_beat": In(1),
                "fresh": In(1),
                "plane": In(numerics.group),
                "weights": In(data.ArrayLayout(numerics.weight_bits, numerics.group)),
                "total": Out(numerics.group_sum_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        n = self.numerics
        width = n.plane_sum_bits + 1
        sign_sum = Signal(width, reset_less=True)  # one's complement of the trees' sum of signs
        group_sum = Signal(n.group_sum_bits, reset_less=True)
        doubled = Signal(n.group_sum_bits)
        m.d.comb += [
            self.total.eq(group_sum),
            doubled.eq(Cat(Const(0, 1), group_sum & ~self.fresh.replicate(len(group_sum)))),
        ]
        top = n.weight_bits - 1
        columns: list[list[Value]] = [[] for _ in range(width)]
        for k in range(top + 1):
            bits = Signal(n.group, name=f"weight_bits{k}")
            selected = Signal(n.group, name=f"selected{k}")
            m.d.comb += [
                bits.eq(Cat(weight[k] for weight in self.weights)),
                selected.eq(bits & self.plane),
            ]
            columns[k].append(selected)
        # The weights' sign bits weigh -2^top: counted first, then the count is subtracted. That
        # its complement is too large by a constant falls out with the sum of signs.
        count_bits = n.group.bit_length()
        negative = compress_columns(m, [columns[top].pop(), *[Const(0, 0)] * (count_bits - 1)])
        count = ripple_sum(m, "negative", *negative, Const(0, 1))
        for k, bit in enumerate(count):
            columns[top + k].append(~bit)
        for k, bit in enumerate(sign_sum):
            columns[k].append(bit & ~self.sign_beat)
        rows = compress_columns(m, [Cat(parts) for parts in columns])
        difference = Signal(signed(width))
        m.d.comb += difference.eq(ripple_sum(m, "plane_sum", *rows, ~self.sign_beat))
        extended = Signal(signed(len(doubled)))
        m.d.comb += extended.eq(difference)
        total = ripple_sum(m, "total_sum", doubled, extended, Const(0, 1))
        with m.If(self.step):
            with m.If(self.sign_beat):
                m.d.sync += sign_sum.eq(~difference)
            with m.Else():
                m.d.sync += group_sum.eq(total)
        return m
