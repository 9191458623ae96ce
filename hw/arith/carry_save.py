"""Products in carry-save form: two rows whose sum is the product.

Written out, because Yosys's own multiplier is larger and slower than a Dadda tree, and because a
pipeline register fits between the tree and its final adder.
"""

from collections.abc import Sequence

from amaranth import Cat, Const, Module, Signal, Value

__all__ = ["carry_save_product", "carry_save_sum"]

Columns = list[list[Value]]  # bits of equal weight, lowest weight first


def carry_save_product(m: Module, a: Sequence[Value], b: Sequence[Value]) -> tuple[Value, Value]:
    """Two rows of ``len(a) + len(b)`` bits that add up to the product of ``a`` and ``b``.

    The factors are given by their bits, lowest first; a constant one costs no gates.
    """
    columns: Columns = [[] for _ in range(len(a) + len(b))]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            columns[i + j].append(_and(x, y))
    for height in _heights(max(len(column) for column in columns)):
        columns = _name_level(m, _reduce(columns, height), height)
    rows = [[column[k] if len(column) > k else Const(0) for column in columns] for k in (0, 1)]
    return Cat(*rows[0]), Cat(*rows[1])


def carry_save_sum(x: Value, y: Value, z: Value) -> tuple[Value, Value]:
    """Sum bits, and carry bits of twice their weight, of three rows of equal width."""
    return x ^ y ^ z, (x & y) | ((x ^ y) & z)


def _and(x: Value, y: Value) -> Value:
    if isinstance(x, Const):
        x, y = y, x
    return x if isinstance(y, Const) and y.value == 1 else x & y


def _heights(height: int) -> list[int]:
    """Column heights after each level of a Dadda tree: 2, 3, 4, 6, 9, ... from the back."""
    heights = [2]
    while heights[-1] * 3 // 2 < height:
        heights.append(heights[-1] * 3 // 2)
    return heights[::-1] if height > 2 else []


def _reduce(columns: Columns, height: int) -> Columns:
    """One level: as few adders as bring every column to ``height`` bits, carries included."""
    reduced: Columns = []
    carries: list[Value] = []
    for column in columns:
        # Sums and carries of this level go last, so that none feeds another if it can be helped.
        bits, carries = column + carries, []
        while len(bits) > height:
            if len(bits) == height + 1:
                (x, y), bits = bits[:2], bits[2:]
                bits.append(x ^ y)
                carries.append(x & y)
            else:
                (x, y, z), bits = bits[:3], bits[3:]
                total, carry = carry_save_sum(x, y, z)
                bits.append(total)
                carries.append(carry)
        reduced.append(bits)
    return reduced


def _name_level(m: Module, columns: Columns, height: int) -> Columns:
    """The same columns as bits of one signal: a level is written, and simulated, in one piece."""
    level = Signal(sum(len(column) for column in columns), name=f"level_{height}")
    m.d.comb += level.eq(Cat(*(bit for column in columns for bit in column)))
    bits = iter(level)
    return [[next(bits) for _ in column] for column in columns]
