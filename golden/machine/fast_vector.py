"""The vector unit's arithmetic with numpy's floats, bit for bit that of golden.machine.vector.

Rounding a sum or product of two fp16 values to float32 and then to fp16 equals rounding it once,
since 24 bits are at least twice 11 and two more. Tensors are patterns (words, banks, lanes), as the
fp16 memory holds them.
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
    x, y = _values(a), _values(b)
    match operation:
        case Operation.ADD:
            return masked(x + y)
        case Operation.SUBTRACT:
            return masked(x - y)
        case Operation.MULTIPLY:
            return masked(x * y)
    raise ValueError(f"{operation.name} is no operation of two elements")


def reduced(a: Patterns, b: Patterns | None, elements: int, scale: int) -> Patterns:
    """Sums of a, or of a * b, over the first ``elements``, times ``scale``: (..., banks)."""
    terms = _values(a) if b is None else _values(a) * _values(b)
    tail = elements % terms.shape[-1]
    if tail:
        terms[..., -1, :, tail:] = 0
    sums = _added(terms)
    while sums.shape[-1] > 1:
        sums = sums[..., 0::2] + sums[..., 1::2]
    factor = np.array(scale, np.uint16).view(np.float16).astype(np.float64)
    return masked(sums[..., 0].astype(np.float64) * factor)


def dots(a: Patterns, b: Patterns, elements: int, scale: int) -> Patterns:
    """The dot product of each of several tensors ``a`` with ``b``, as elements of one tensor."""
    results = reduced(a, b, elements, scale)
    (count, banks), lanes = results.shape, a.shape[-1]
    words = np.pad(results, [(0, -count % lanes), (0, 0)]).reshape(-1, lanes, banks)
    return np.ascontiguousarray(words.swapaxes(1, 2))


def weighed(a: Patterns, weights: Patterns) -> Patterns:
    """The sum of the words of each tensor ``a``, times weights (banks, words)."""
    return masked(_added(_values(a) * _values(weights.T[..., np.newaxis])))


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


def _values(patterns: Patterns) -> NDArray[np.float32]:
    return patterns.view(np.float16).astype(np.float32)


def _added(terms: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sums over words, one after the other from +0 on."""
    # ``accumulate`` adds in order; a sum of nothing but -0 starts at +0.
    return np.add.accumulate(terms, axis=-3)[..., -1, :, :] + np.float32(0)
