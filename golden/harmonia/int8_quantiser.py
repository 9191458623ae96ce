"""The int8 quantiser on a stream of beats: its results and their cycles."""

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import Int8QuantiserParams
from tilewright.golden.payload import Columns


def quantise(params: Int8QuantiserParams, beats: Columns) -> Columns:
    """Beats of ``o`` for the whole groups among the beats of ``i``."""
    groups = len(beats["values"]) // params.group
    shape = (groups, params.group, params.rows)
    words = beats["values"][: groups * params.group].reshape(shape).astype(np.int64)
    magnitude = np.minimum(words & 0x7FFF, FP16.max_finite_bits)
    largest = magnitude.max(axis=1, keepdims=True)
    significand, exponent = _parts(magnitude)
    top, top_exponent = _parts(largest)
    # A subnormal group is lifted until its largest value has a hidden bit.
    lift = np.maximum(FP16.significand_bits - _bit_length(top), 0)
    factors = np.array([params.factor(f) for f in range(1 << FP16.mantissa_bits)])
    factor = factors[(top << lift) & 0x3FF]
    drop = FP16.mantissa_bits + params.FACTOR_FRACTION + top_exponent - exponent
    product = (significand << lift) * factor
    rounded = (product + (1 << (drop - 1))) >> drop
    codes = np.minimum(rounded, params.LIMIT)
    last = np.zeros((groups, params.group), np.uint8)
    last[:, -1] = 1
    return {
        "codes": np.where(words >> 15, -codes, codes).reshape(-1, params.rows),
        "largest": np.broadcast_to(largest, shape).reshape(-1, params.rows),
        "last": last.reshape(-1),
    }


def cycles(params: Int8QuantiserParams, beats: Columns) -> NDArray[np.int64]:
    """Cycle of every output beat, counted from the first input beat, if nobody ever waits."""
    groups = len(beats["values"]) // params.group
    return params.group + 1 + np.arange(groups * params.group)


def _parts(magnitude: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Significand with its hidden bit, and exponent field, 1 for subnormals."""
    field = magnitude >> FP16.mantissa_bits
    significand = (magnitude & 0x3FF) | np.where(field > 0, 0x400, 0)
    return significand, np.maximum(field, 1)


def _bit_length(x: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.frexp(x.astype(np.float64))[1]
