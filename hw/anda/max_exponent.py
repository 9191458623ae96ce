"""The largest exponent of a group."""

from collections.abc import Sequence

from amaranth import Cat, Module, Signal, Value


def largest(m: Module, values: Sequence[Value]) -> Value:
    """Largest of ``values``, which are unsigned and equally wide.

    Decided bit by bit from the top: a bit of the result is set if any value still in the running
    has it, and then those without it drop out. A third of the gates of a tree of comparators.
    """
    running = Signal(len(values), name="running", init=-1)
    m.d.comb += running.eq(-1)
    bits = []
    for k in reversed(range(len(values[0]))):
        column = Cat(value[k] for value in values)
        bit = Signal(name=f"largest{k}")
        m.d.comb += bit.eq((running & column).any())
        bits.append(bit)
        left = Signal(len(values), name=f"running{k}")
        m.d.comb += left.eq(running & (column | ~bit.replicate(len(values))))
        running = left
    return Cat(reversed(bits))
