"""The vector unit's arithmetic on fp16 patterns: element by element, and along rows.

The approximated functions are specified here bit by bit.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.arith import add, convert, multiply
from tilewright.golden.bits import Unpacked, patterns, round_pack, unpack
from tilewright.golden.params.formats import FP16, FP32
from tilewright.golden.params.vector import (
    LOG2_E,
    LOG2_E_FRACTION,
    SEGMENT_BITS,
    STEP_BITS,
    TABLES,
    VALUE_BITS,
    VALUE_FRACTION,
    Operation,
    VectorParams,
)

_SIGN = 1 << (FP16.bits - 1)
_MINUS_INFINITY = _SIGN | 0x7C00
_NAN = 0x7E00
_EXP_FIELD_LIMIT = FP16.bias + 5  # exponent field of 32: beyond it e^x is 0 or infinity


def elementwise(operation: Operation, a: ArrayLike, b: ArrayLike = 0) -> NDArray[np.uint16]:
    """The fp16 result of an operation that does not reduce; ``b`` where it takes one."""
    a, b = np.broadcast_arrays(patterns(FP16, a), patterns(FP16, b))
    match operation:
        case Operation.COPY:
            return a.astype(np.uint16)
        case Operation.ADD:
            return add(FP16, FP16, FP16, a, b)
        case Operation.SUBTRACT:
            return add(FP16, FP16, FP16, a, b ^ _SIGN)
        case Operation.MULTIPLY:
            return multiply(FP16, FP16, FP16, a, b)
        case Operation.MAXIMUM:
            return _larger(a, b)
        case Operation.EXPONENTIAL:
            return _exponential(a)
        case Operation.RECIPROCAL:
            return _reciprocal(a)
        case Operation.RECIPROCAL_ROOT:
            return _reciprocal_root(a)
        case Operation.POWERS:
            return _exponential(elementwise(Operation.SUBTRACT, a, b))
    raise ValueError(f"{operation.name} is no operation of single elements")


def reduce_rows(
    operation: Operation, a: ArrayLike, b: ArrayLike, active: ArrayLike, scale: int
) -> NDArray[np.uint16]:
    """One value per row from words of shape (words, rows, row_lanes); (words, rows) running.

    ``active`` (words, row_lanes) marks the elements that count. Entry [w] of the result is the
    reduction of words 0 to w. WEIGH does not sum over lanes: (words, rows, row_lanes).
    """
    a, b = np.broadcast_arrays(patterns(FP16, a), patterns(FP16, b))
    counts = np.asarray(active, bool)[:, np.newaxis, :]
    if operation is Operation.LARGEST:
        lanes = np.where(counts, a, _MINUS_INFINITY).astype(np.uint16)
        largest = np.full(lanes.shape[1:], _MINUS_INFINITY, np.uint16)
        for w in range(len(lanes)):
            largest = lanes[w] = _larger(largest, lanes[w])
        while lanes.shape[-1] > 1:
            lanes = _larger(lanes[..., 0::2], lanes[..., 1::2])
        return lanes[..., 0]
    if operation in (Operation.DOT, Operation.DOTS, Operation.WEIGH):
        terms = multiply(FP16, FP16, FP32, a, b)
    elif operation is Operation.SUM:
        terms = convert(FP16, FP32, a)
    else:
        raise ValueError(f"{operation.name} reduces nothing")
    sums = np.where(counts, terms, 0).astype(np.uint32)
    total = np.zeros(sums.shape[1:], np.uint32)
    for w in range(len(sums)):  # each addition rounds, so their order is part of the result
        total = sums[w] = add(FP32, FP32, FP32, total, sums[w])
    if operation is Operation.WEIGH:
        return convert(FP32, FP16, sums)
    while sums.shape[-1] > 1:
        sums = add(FP32, FP32, FP32, sums[..., 0::2], sums[..., 1::2])
    return multiply(FP32, FP16, FP16, sums[..., 0], np.uint16(scale))


def reduce_tensor(
    operation: Operation, a: NDArray, b: NDArray, elements: int, row_lanes: int, scale: int
) -> NDArray[np.uint16]:
    """One value per row of tensors (rows, whole words); the first ``elements`` of a row count."""
    a_words, b_words = (v.reshape(len(v), -1, row_lanes).transpose(1, 0, 2) for v in (a, b))
    active = (np.arange(a.shape[1]) < elements).reshape(-1, row_lanes)
    return reduce_rows(operation, a_words, b_words, active, scale)[-1]


def largest(values: ArrayLike, counts: ArrayLike) -> NDArray[np.uint16]:
    """The largest value that counts along the last axis, as LARGEST; minus infinity if none."""
    values = patterns(FP16, values)
    found = np.full(values.shape[:-1], _MINUS_INFINITY, np.uint16)
    shown = np.where(counts, values, _MINUS_INFINITY)
    for k in range(values.shape[-1]):
        found = _larger(found, shown[..., k])
    return found


def beats(
    params: VectorParams,
    operation: NDArray,
    first: NDArray,
    active: NDArray,
    scale: NDArray,
    a: NDArray,
    b: NDArray,
) -> dict[str, NDArray[np.uint16]]:
    """Results of a stream of beats: (beats, lanes), and sums (beats, rows) if the unit is fused.

    Operation and scale change only on beats marked ``first``.
    """
    shape = (len(a), params.rows, params.row_lanes)
    a, b = a.reshape(shape), b.reshape(shape)
    result = np.zeros(shape, np.uint16)
    sums = np.zeros(shape[:2], np.uint16)
    starts = np.flatnonzero(first)
    for start, end in zip(starts, [*starts[1:], len(a)], strict=True):
        run, code = slice(start, end), Operation(int(operation[start]))
        if code.reduces:
            rows = reduce_rows(code, a[run], b[run], active[run], int(scale[start]))
            result[run] = rows[..., np.newaxis]
        elif code.attends:
            found = reduce_rows(code, a[run], b[run], active[run], int(scale[start]))
            result[run] = found if code is Operation.WEIGH else found[..., np.newaxis]
        else:
            counts = active[run][:, np.newaxis, :] != 0
            result[run] = np.where(counts, elementwise(code, a[run], b[run]), 0)
        if code.keeps_sum:
            sums[run] = reduce_rows(Operation.SUM, result[run], 0, active[run], int(scale[start]))
    given = {"values": result.reshape(len(a), -1)}
    return given | {"sums": sums} if params.fused else given


def _larger(a: NDArray, b: NDArray) -> NDArray[np.uint16]:
    nan = ((a & 0x7FFF) > 0x7C00) | ((b & 0x7FFF) > 0x7C00)
    bigger = np.where(_ordered(a) >= _ordered(b), a, b)
    return np.where(nan, _NAN, bigger).astype(np.uint16)


def _ordered(x: NDArray) -> NDArray:
    """Integers in the order of the values, -0 below +0."""
    words = x.astype(np.int64)
    return np.where(words & _SIGN, -(words & 0x7FFF), words + 1)


def _interpolate(operation: Operation, argument: NDArray) -> NDArray[np.int64]:
    """The table's function at ``argument`` / 2^16, in units of 2^-VALUE_FRACTION."""
    table = np.array(TABLES[operation], np.int64)
    segment, step = argument >> STEP_BITS, argument & ((1 << STEP_BITS) - 1)
    base, slope = table[segment, 0], table[segment, 1]
    return base + (slope * step >> STEP_BITS)


def _exponential(a: NDArray) -> NDArray[np.uint16]:
    words = a.astype(np.int64)
    field = np.maximum((words >> FP16.mantissa_bits) & 0x1F, 1)
    significand = words & 0x3FF | np.where(words & 0x7C00, 0x400, 0)
    x = unpack(FP16, a)
    huge = (field >= _EXP_FIELD_LIMIT) & ~x.nan
    # a log2(e) in units of 2^-16: the significand has 10 fraction bits, the field its bias.
    drop = FP16.mantissa_bits + LOG2_E_FRACTION - VALUE_FRACTION + FP16.bias
    magnitude = significand * LOG2_E >> (drop - np.minimum(field, _EXP_FIELD_LIMIT - 1))
    power = np.where(x.sign, -magnitude, magnitude)
    return round_pack(
        FP16,
        False,
        power >> VALUE_FRACTION,
        np.where(huge, 0, _interpolate(Operation.EXPONENTIAL, power & 0xFFFF)),
        significand_bits=VALUE_BITS,
        infinite=huge & ~x.sign,
        nan=x.nan,
    )


def _reciprocal(a: NDArray) -> NDArray[np.uint16]:
    x = unpack(FP16, a)
    argument = (x.significand & 0x3FF) << (SEGMENT_BITS + STEP_BITS - FP16.mantissa_bits)
    return _inverse(Operation.RECIPROCAL, x, -x.exponent, argument, x.nan)


def _reciprocal_root(a: NDArray) -> NDArray[np.uint16]:
    x = unpack(FP16, a)
    odd = x.exponent & 1
    argument = (odd << FP16.mantissa_bits | x.significand & 0x3FF) << (
        SEGMENT_BITS + STEP_BITS - FP16.mantissa_bits - 1
    )
    nan = x.nan | (x.sign & ~x.zero)
    return _inverse(Operation.RECIPROCAL_ROOT, x, -(x.exponent >> 1), argument, nan)


def _inverse(
    operation: Operation, x: Unpacked, exponent: NDArray, argument: NDArray, nan: NDArray
) -> NDArray[np.uint16]:
    value = np.where(x.infinite, 0, _interpolate(operation, argument))
    return round_pack(
        FP16, x.sign, exponent, value, significand_bits=VALUE_BITS, infinite=x.zero, nan=nan
    )
