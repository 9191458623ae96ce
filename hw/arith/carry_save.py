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
        columns = _reduce(m, columns, height)
    rows = [[column[k] if len(column) > k else Const(0) for column in columns] for k in (0, 1)]
    return Cat(*rows[0]), Cat(*rows[1])


def carry_save_sum(x: Value, y: Value, z: Value | None = None) -> tuple[Value, Value]:
    """Sum bits, and carry bits of twice their weight, of two or three rows of equal width."""
    if z is None:
        return x ^ y, x & y
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


def _reduce(m: Module, columns: Columns, height: int) -> Columns:
    """One level: as few adders as bring every column to ``height`` bits, carries included."""
    made: list[Value] = []  # by the adders of this level, none of which feeds another
    reduced: list[list[Value | int]] = []  # an int is a place in ``made``
    carries: list[int] = []
    for column in columns:
        old, new, carries = column, carries, []
        while len(old) + len(new) > height:
            inputs = 2 if len(old) + len(new) == height + 1 else 3
            total, carry = carry_save_sum(*old[:inputs])
            old = old[inputs:]
            new = [*new, len(made)]
            carries.append(len(made) + 1)
            made += [total, carry]
        reduced.append([*old, *new])
    # One signal per level: written, and simulated, in one piece.
    level = Signal(len(made), name=f"level_{height}")
    m.d.comb += level.eq(Cat(*made))
    return [[level[b] if isinstance(b, int) else b for b in column] for column in reduced]
