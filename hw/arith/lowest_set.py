"""The lowest set bit of a word."""

from amaranth import Cat, Value


def lowest_set(value: Value) -> Value:
    """``value`` with all but its lowest set bit cleared."""
    return Cat(bit & ~value[:k].any() for k, bit in enumerate(value))
