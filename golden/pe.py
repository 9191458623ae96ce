"""Processing elements that Anda is compared with: dot products, bit for bit.

Every element has a function on arrays of beats: ``activation`` and ``weight`` of shape
(..., beats, lanes), ``exponent``, ``scale`` and ``group_end`` of shape (..., beats); one fp16
pattern per dot product is returned, of shape (...). The last beat ends the dot product and its last
group. The numerics are those of :mod:`tilewright.golden.params.pe`.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.arith import add, convert, int_to_float, multiply
from tilewright.golden.bits import patterns, round_pack
from tilewright.golden.params.arith import AMX_RULES, IEEE_RULES, FloatRules
from tilewright.golden.params.formats import BF16, FP16, FP32
from tilewright.golden.params.pe import (
    AlignedParams,
    DecaLaneParams,
    FignaChunkParams,
    FpFpParams,
    FpIntParams,
    FusedParams,
    GroupScaledParams,
    GroupSum,
    IfpuParams,
    PeArrayParams,
    PEParams,
    SumForm,
)

Int64s = NDArray[np.int64]


class Terms(NamedTuple):
    """Exact values: (-1)^sign * magnitude, whose top bit has the weight of fp32's ``field``.

    Leading zeros are allowed. ``nan`` overrides ``infinite``, which overrides the number.
    """

    sign: NDArray
    field: NDArray
    magnitude: NDArray
    infinite: NDArray
    nan: NDArray


def fp_fp_dot(params: FpFpParams, activation: ArrayLike, weight: ArrayLike) -> NDArray:
    """fp16 times fp16, summed as ``params.form`` says."""
    a, w = _beats(params, patterns(FP16, activation)), _beats(params, patterns(FP16, weight))
    accumulator = np.zeros(a.shape[:-2], np.uint32)
    for beat in range(a.shape[-2]):
        x, y = a[..., beat, :], w[..., beat, :]
        if params.form is SumForm.FUSED:
            products = _products(_split(x), _split(y), params.product_bits)
            accumulator = fused_sum(params, accumulator, products)
        else:
            terms = _tree_sum(multiply(FP16, FP16, FP32, x, y))
            accumulator = add(FP32, FP32, FP32, accumulator, terms)
    return convert(FP32, params.result, accumulator)


def fp_int_dot(
    params: FpIntParams,
    activation: ArrayLike,
    weight: ArrayLike,
    scale: ArrayLike,
    group_end: ArrayLike,
) -> NDArray:
    """fp16 times integers, summed in every group as ``params.group_sum`` says."""
    a, w = _beats(params, patterns(FP16, activation)), _weights(params, weight)
    if params.group_sum is GroupSum.EXACT:
        return _exact_groups(params, a, w, scale, group_end)
    terms = _products(_split(a), _integers(w), params.product_bits)

    def grown(total: NDArray, beat: int) -> NDArray:
        return fused_sum(params, total, Terms(*(t[..., beat, :] for t in terms)))

    def partial(total: NDArray, beat: int) -> NDArray:
        return convert(FP32, params.partial, total)

    start = np.zeros(a.shape[:-2], np.uint32)
    return _scaled_groups(params, start, grown, partial, scale, group_end)


def _exact_groups(
    params: FpIntParams, a: NDArray, w: Int64s, scale: ArrayLike, group_end: ArrayLike
) -> NDArray:
    """Group sums as integers in units of fp16's smallest number; flags for what is not finite."""
    sign, field, significand, infinite, nan = _split(a)
    magnitude = (significand * np.abs(w)) << (field - 1)
    negative = sign ^ (w < 0)
    # Nothing of an infinity is summed: its number does not count.
    number = np.where(infinite | nan, 0, np.where(negative, -magnitude, magnitude))
    columns = (
        number.sum(axis=-1),  # exact: 11 + 7 + 29 + 10 bits at most
        (infinite & ~negative).any(axis=-1),
        (infinite & negative).any(axis=-1),
        (nan | (infinite & (w == 0))).any(axis=-1),
    )
    beats = np.stack([column.astype(np.int64) for column in columns], axis=-1)
    bits = params.magnitude_bits

    def grown(total: NDArray, beat: int) -> NDArray:
        return total + beats[..., beat, :]

    def partial(total: NDArray, beat: int) -> NDArray:
        value, plus, minus = total[..., 0], total[..., 1] > 0, total[..., 2] > 0
        return round_pack(
            params.partial,
            np.where(plus | minus, minus, value < 0),
            np.full(value.shape, bits - 1 - (FP16.bias - 1 + FP16.mantissa_bits)),
            np.abs(value),
            significand_bits=bits,
            infinite=plus | minus,
            nan=(total[..., 3] > 0) | (plus & minus),
        )

    start = np.zeros((*a.shape[:-2], 4), np.int64)
    return _scaled_groups(params, start, grown, partial, scale, group_end)


def aligned_dot(
    params: AlignedParams,
    activation: ArrayLike,
    weight: ArrayLike,
    exponent: ArrayLike,
    scale: ArrayLike,
    group_end: ArrayLike,
) -> NDArray:
    """Aligned mantissas times integers: FIGNA and iFPU, which differ in their cycles only.

    In FIGNA-C each beat's exact sum is rounded down at the group's unit and its guard bits.
    """
    if isinstance(params, IfpuParams):
        w = _placed_bits(params, weight, group_end)
    else:
        w = _weights(params, weight)
    products = _aligned_products(params, activation, w)
    if not isinstance(params, FignaChunkParams):
        return _shared_groups(params, products, exponent, scale, group_end)
    fields = np.asarray(exponent, np.int64)
    bits = params.exponent_bits
    _require_within(fields, 0, (1 << bits) - 1, f"an exponent is not a word of {bits} bits")
    aligned = (products << params.guard_bits) >> (fields >> FP16.exponent_bits)
    shared = fields & ((1 << FP16.exponent_bits) - 1)
    return _shared_groups(params, aligned, shared, scale, group_end)


def deca_lane_dot(
    params: DecaLaneParams, activation: ArrayLike, weight: ArrayLike, scale: ArrayLike
) -> NDArray:
    """Codes to scaled bf16 weights, times bf16 activations, summed in fp32."""
    a, codes = _beats(params, patterns(BF16, activation)), _weights(params, weight)
    values = int_to_float(BF16, codes)
    scales = patterns(BF16, scale)[..., np.newaxis]
    w = multiply(BF16, BF16, BF16, values, scales, AMX_RULES)
    products = multiply(BF16, BF16, FP32, a, w, AMX_RULES)
    accumulator = np.zeros(a.shape[:-2], np.uint32)
    for beat in range(a.shape[-2]):
        terms = _tree_sum(products[..., beat, :], AMX_RULES)
        accumulator = add(FP32, FP32, FP32, accumulator, terms, AMX_RULES)
    return convert(FP32, params.result, accumulator)


def array_cycles(params: PeArrayParams, last: ArrayLike) -> Int64s:
    """Cycle in which an array gives each row, counted from the first beat taken.

    ``last`` marks the last beats of tiles; beats are never late, and rows are taken at once.
    """
    given: list[int] = []
    waited, free = 0, 0  # cycles of all tiles so far; when the drain has room
    for end in np.flatnonzero(np.asarray(last)):
        complete = int(end) + 1 + params.element.latency
        waited = max(waited, free - complete)
        free = complete + waited + params.rows
        given.extend(range(free - params.rows + 1, free + 1))
    return np.array(given, np.int64)


def _aligned_products(params: AlignedParams, activation: ArrayLike, w: Int64s) -> Int64s:
    """Exact sums of every beat's products of {mantissa, sign} words and integers."""
    words, bits = _beats(params, np.asarray(activation)).astype(np.int64), params.activation_bits
    _require_within(words, 0, (1 << bits) - 1, f"an activation is not a word of {bits} bits")
    mantissa = words & ((1 << params.mantissa_bits) - 1)
    value = np.where(words >> params.mantissa_bits, -mantissa, mantissa)
    return (value * w).sum(axis=-1)  # exact: a whole group has 40 + 7 + 10 bits at most


def _shared_groups(
    params: AlignedParams,
    products: Int64s,
    exponent: ArrayLike,
    scale: ArrayLike,
    group_end: ArrayLike,
) -> NDArray:
    lowest = _shared(exponent, group_end) - FP16.bias - (params.kept_bits - 1)

    def partial(total: Int64s, beat: int) -> NDArray:
        bits, top = params.magnitude_bits, lowest[..., beat] + params.magnitude_bits - 1
        return round_pack(params.partial, total < 0, top, np.abs(total), significand_bits=bits)

    start = np.zeros(products.shape[:-1], np.int64)
    return _scaled_groups(
        params, start, lambda total, beat: total + products[..., beat], partial, scale, group_end
    )


def align(mantissa_bits: int, bits: ArrayLike) -> tuple[Int64s, Int64s]:
    """fp16 patterns of shape (..., group) as {mantissa, sign} words and shared exponents (...).

    As :func:`tilewright.golden.bfp.encode` with ``saturate``, for mantissas of up to 40 bits.
    """
    words = patterns(FP16, bits).astype(np.int64)
    magnitude = np.minimum(words & 0x7FFF, FP16.max_finite_bits)
    field = magnitude >> FP16.mantissa_bits
    level = np.maximum(field, 1)
    significand = magnitude - ((level - 1) << FP16.mantissa_bits)
    shared = level.max(axis=-1)
    # In 40 bits nothing is lost before the cut: exponents differ by 29 at most.
    distance = shared[..., np.newaxis] - level + (40 - mantissa_bits)
    mantissa = (significand << (40 - FP16.significand_bits)) >> distance
    return mantissa | ((words >> 15) << mantissa_bits), shared


def align_chunks(params: FignaChunkParams, bits: ArrayLike) -> tuple[Int64s, Int64s]:
    """fp16 patterns (..., group) as words (..., chunks, lanes) and {distance, exponent} (...)."""
    values = np.asarray(bits)
    words, own = align(params.mantissa_bits, values.reshape(*values.shape[:-1], -1, params.lanes))
    shared = own.max(axis=-1, keepdims=True)
    return words, ((shared - own) << FP16.exponent_bits) | shared


def fused_sum(
    params: FusedParams, accumulator: NDArray[np.uint32], products: Terms
) -> NDArray[np.uint32]:
    """fp32 accumulator (...) plus products (..., lanes), rounded once."""
    window = params.window_bits
    place = window - params.growth - params.product_bits
    total = _aligned_sum(products._replace(magnitude=products.magnitude << place), params.growth)
    word = accumulator.astype(np.int64)
    fraction, field = word & ((1 << FP32.mantissa_bits) - 1), (word >> FP32.mantissa_bits) & 0xFF
    # Never subnormal: products are multiples of a power of two that fp32 has as a normal number.
    significand = np.where(field == 0, 0, fraction | (1 << FP32.mantissa_bits))
    own = Terms(
        sign=word >> 31 != 0,
        field=field,
        magnitude=significand << (window - FP32.significand_bits),
        infinite=(field == 0xFF) & (fraction == 0),
        nan=(field == 0xFF) & (fraction != 0),
    )
    both = Terms(*(np.stack(pair, axis=-1) for pair in zip(own, total, strict=True)))
    result = _aligned_sum(both, 1)
    return round_pack(
        FP32,
        result.sign,
        result.field - FP32.bias,
        result.magnitude,
        significand_bits=window + 1,
        infinite=result.infinite,
        nan=result.nan,
    )


def _aligned_sum(terms: Terms, growth: int) -> Terms:
    """Sum over the last axis, ``growth`` bits longer, after alignment to the largest exponent."""
    field = np.where(terms.magnitude == 0, 0, terms.field)
    top = field.max(axis=-1)
    aligned = terms.magnitude >> np.minimum(top[..., np.newaxis] - field, 63)
    total = np.where(terms.sign, -aligned, aligned).sum(axis=-1)
    plus = (terms.infinite & ~terms.sign).any(axis=-1)
    minus = (terms.infinite & terms.sign).any(axis=-1)
    return Terms(
        sign=np.where(plus | minus, minus, total < 0),
        field=np.where(total == 0, 0, top + growth),
        magnitude=np.abs(total),
        infinite=plus | minus,
        nan=terms.nan.any(axis=-1) | (plus & minus),
    )


Parts = tuple[NDArray, Int64s, Int64s, NDArray, NDArray]


def _split(words: NDArray) -> Parts:
    """Sign, exponent field at least 1, significand, infinite and NaN of fp16 patterns."""
    word = words.astype(np.int64)
    fraction, field = word & ((1 << FP16.mantissa_bits) - 1), (word >> FP16.mantissa_bits) & 0x1F
    special = field == 0x1F
    significand = fraction | ((field != 0).astype(np.int64) << FP16.mantissa_bits)
    return (
        word >> 15 != 0,
        np.maximum(field, 1),
        significand,
        special & (fraction == 0),
        special & (fraction != 0),
    )


def _integers(w: Int64s) -> Parts:
    """The same of integers, whose lowest bit is worth 1."""
    never = np.zeros(w.shape, bool)
    return w < 0, np.full(w.shape, FP16.bias + FP16.mantissa_bits), np.abs(w), never, never


def _products(a: Parts, w: Parts, product_bits: int) -> Terms:
    a_sign, a_field, a_significand, a_infinite, a_nan = a
    w_sign, w_field, w_significand, w_infinite, w_nan = w
    magnitude, infinite = a_significand * w_significand, a_infinite | w_infinite
    lowest = a_field + w_field - 2 * (FP16.bias + FP16.mantissa_bits)
    return Terms(
        sign=a_sign ^ w_sign,
        field=lowest + product_bits - 1 + FP32.bias,
        magnitude=magnitude,
        infinite=infinite,
        nan=a_nan | w_nan | (infinite & (magnitude == 0)),
    )


def _tree_sum(terms: NDArray, rules: FloatRules = IEEE_RULES) -> NDArray:
    """Neighbours first, each sum rounded to fp32."""
    while terms.shape[-1] > 1:
        terms = add(FP32, FP32, FP32, terms[..., 0::2], terms[..., 1::2], rules)
    return terms[..., 0]


def _scaled_groups(
    params: GroupScaledParams,
    start: NDArray,
    grown: Callable[[NDArray, int], NDArray],
    partial: Callable[[NDArray, int], NDArray],
    scale: ArrayLike,
    group_end: ArrayLike,
) -> NDArray:
    """Group sums that begin at ``start`` and have ``grown`` by every beat, through the tail."""
    scales, ends = patterns(FP16, scale), np.asarray(group_end).astype(bool)
    if not ends[..., -1].all():
        raise ValueError("the last beat of a dot product must end its group")
    shape = ends.shape[:-1]
    accumulator, length = np.zeros(shape, np.uint32), np.zeros(shape, np.int64)
    total = start
    for beat in range(ends.shape[-1]):
        end = ends[..., beat]
        length = length + params.lanes
        if (length > params.group).any():
            raise ValueError(f"a group has {length.max()} elements, at most {params.group} fit")
        total = grown(total, beat)
        if end.any():
            scaled = multiply(params.partial, FP16, FP32, partial(total, beat), scales[..., beat])
            accumulator = np.where(end, add(FP32, FP32, FP32, accumulator, scaled), accumulator)
        # A sum may have several parts, on an axis of their own.
        over = end.reshape(shape + (1,) * (start.ndim - len(shape)))
        total, length = np.where(over, start, total), np.where(end, 0, length)
    return convert(FP32, params.result, accumulator)


def _shared(exponent: ArrayLike, group_end: ArrayLike) -> Int64s:
    """Shared exponents; those of beats that end no group do not matter."""
    values = np.where(np.asarray(group_end), np.asarray(exponent, np.int64), 1)
    highest = FP16.max_exponent + FP16.bias
    _require_within(values, 1, highest, f"shared exponents are 1..{highest}, not {{}}..{{}}")
    return values


def _require_within(values: Int64s, low: int, high: int, message: str) -> None:
    if values.size and not low <= int(values.min()) <= int(values.max()) <= high:
        raise ValueError(message.format(values.min(), values.max()))


def _beats(params: PEParams, values: NDArray) -> NDArray:
    if values.ndim < 2 or values.shape[-1] != params.beat_elements:
        raise ValueError(
            f"beats of {params.beat_elements} elements expected, not shape {values.shape}"
        )
    return values


def _weights(params: GroupScaledParams | DecaLaneParams, weight: ArrayLike) -> Int64s:
    values = _beats(params, np.asarray(weight)).astype(np.int64)
    fmt = params.weight_format
    _require_within(values, fmt.minimum, fmt.maximum, f"weights leave {fmt}: {{}}..{{}}")
    return values


def _placed_bits(params: IfpuParams, weight: ArrayLike, group_end: ArrayLike) -> Int64s:
    """The value of each bit of a beat in its weight: 0 or a power of two, negative at the top."""
    bits = _beats(params, np.asarray(weight)).astype(np.int64)
    _require_within(bits, 0, 1, "weights are given as bits, not {}..{}")
    place = params.weight_bits - 1 - np.arange(bits.shape[-2]) % params.weight_bits
    if (np.asarray(group_end).astype(bool) & (place != 0)).any():
        raise ValueError("a group must end on the beat of the lowest weight bits")
    value = np.where(place == params.weight_bits - 1, -1, 1) << place
    return bits * value[:, np.newaxis]
