"""How many cycles compressor, APU, MXU and a whole GeMM take when nobody makes them wait.

Every formula is held against the RTL, cycle for cycle.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# From a dot product's last plane to its result: normalise, multiply, accumulate, then it is there.
RESULT_LATENCY = 4


def compressor_cycles(mantissa_bits: int, sets: int = 1) -> int:
    """Cycles in which the compressor gives words: a set is one group in every lane."""
    return sets * (1 + mantissa_bits)


def group_cycles(mantissa_bits: int) -> int:
    """Cycles of a group in an APU: its sign word and M planes."""
    return 1 + mantissa_bits


def dot_cycles(mantissa_bits: Sequence[int], last: Sequence[bool]) -> NDArray[np.int64]:
    """Cycle in which an APU offers each result, counted from the first plane taken.

    One entry per group: its M, and whether it ends a dot product.
    """
    taken = np.cumsum([group_cycles(bits) for bits in mantissa_bits]) - 1
    return taken[np.asarray(last, bool)] + RESULT_LATENCY
