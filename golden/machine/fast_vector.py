"""The vector unit's arithmetic by numpy's own: bit for bit that of golden.machine.vector.

float32 holds sums and products of two fp16 values so exactly that rounding them again to fp16 is
the same as rounding once: 24 bits are at least twice 11 and two more. Tensors are rows of the fp16
memory, (words, banks, values of a word), as patterns.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.machine.vector import elementwise
from tilewright.golden.params.vector import Operation

Patterns = NDArray[np.uint16]
ARITHMETIC = (Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY)
FUNCTIONS = (Operation.EXPONENTIAL, Operation.RECIPROCAL, Operation.RECIPROCAL_ROOT)
_NAN, _MAGNITUDE, _INFINITY, _SIGN = 0x7E00, 0x7FFF, 0x7C00, 0x8000


@cache
def table(operation: Operation) -> Patterns:
    """Results of an approximated function for all fp16 patterns."""
    return elementwise(operation, np.arange(1 << 16, dtype=np.uint16))


def masked(values: NDArray) -> Patterns:
    """Patterns of the fp16 values nearest to float32 or float64 ones; NaN has one pattern."""
    patterns: Patterns = values.astype(np.float16).view(np.uint16)
    if values.size and np.isnan(values.max()):  # which any NaN is
        patterns[np.isnan(values)] = _NAN
    return patterns


def arithmetic(operation: Operation, a: Patterns, b: Patterns) -> Patterns:
    """a + b, a - b or a * b."""
    x, y = (v.view(np.float16).astype(np.float32) for v in (a, b))
    match operation:
        case Operation.ADD:
            return masked(x + y)
        case Operation.SUBTRACT:
            return masked(x - y)
        case Operation.MULTIPLY:
            return masked(x * y)
    raise ValueError(f"{operation.name} is no operation of two elements")


def reduced(a: Patterns, b: Patterns | None, elements: int, scale: int) -> Patterns:
    """Sum of a, or of a * b, along the first ``elements``, times ``scale``: one for each bank."""
    terms = a.view(np.float16).astype(np.float32)
    if b is not None:
        terms = terms * b.view(np.float16).astype(np.float32)
    tail = elements % terms.shape[-1]
    if tail:
        terms[-1, ..., tail:] = 0
    # ``accumulate`` adds one after the other; a sum of nothing but -0 starts at +0.
    sums = np.add.accumulate(terms, axis=0)[-1] + np.float32(0)
    while sums.shape[-1] > 1:
        sums = sums[..., 0::2] + sums[..., 1::2]
    factor = np.array(scale, np.uint16).view(np.float16).astype(np.float64)
    return masked(sums[..., 0].astype(np.float64) * factor)


def largest(a: Patterns, elements: int) -> Patterns:
    """The largest of the first ``elements``; +0 is larger than -0, NaN wins: one for each bank."""
    words = a.astype(np.int32)
    tail = elements % words.shape[-1]
    if tail:
        words[-1, ..., tail:] = _SIGN | _INFINITY
    ordered = np.where(words & _SIGN, -(words & _MAGNITUDE), words + 1).max(axis=(0, 2))
    found = np.where(ordered > 0, ordered - 1, _SIGN | -ordered)
    invalid = ((words & _MAGNITUDE) > _INFINITY).any(axis=(0, 2))
    return np.where(invalid, _NAN, found).astype(np.uint16)
