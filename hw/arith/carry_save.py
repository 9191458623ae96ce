"""Products in carry-save form: two rows whose sum is the product.

Written out, because Yosys's own multiplier is larger and slower than a carry-save tree, and
because a pipeline register fits between the tree and its final adder. Rows are added whole, not
column by column: event-driven simulators treat a row as one value, a tree of single bits as
thousands. Bits outside a row are constant and cost no gates.
"""

from collections.abc import Sequence

from amaranth import Cat, Const, Module, Signal, Value


def carry_save_product(m: Module, a: Sequence[Value], b: Sequence[Value]) -> tuple[Value, Value]:
    """Two rows of ``len(a) + len(b)`` bits that add up to the product of ``a`` and ``b``.

    The factors are given by their bits, lowest first; a constant one costs no gates.
    """
    width = len(a) + len(b)
    factor = Cat(*b)
    rows = []
    for k, bit in enumerate(a):
        product = factor & bit.replicate(len(b))
        rows.append(_named(m, f"row_{k}", Cat(Const(0, k), product), width))
    level = 0
    while len(rows) > 2:
        level += 1
        whole = len(rows) - len(rows) % 3
        reduced = []
        for k in range(0, whole, 3):
            total, carry = carry_save_sum(*rows[k : k + 3])
            reduced.append(_named(m, f"sum_{level}_{k}", total, width))
            # The product fits, so a carry out of the top is never set.
            reduced.append(_named(m, f"carry_{level}_{k}", Cat(Const(0, 1), carry[:-1]), width))
        rows = [*reduced, *rows[whole:]]
    first, *rest = rows
    return first, rest[0] if rest else Const(0, width)


def carry_save_sum(x: Value, y: Value, z: Value) -> tuple[Value, Value]:
    """Sum bits, and carry bits of twice their weight, of three rows of equal width."""
    return x ^ y ^ z, (x & y) | ((x ^ y) & z)


def _named(m: Module, name: str, value: Value, width: int) -> Signal:
    signal = Signal(width, name=name)
    m.d.comb += signal.eq(value)
    return signal
