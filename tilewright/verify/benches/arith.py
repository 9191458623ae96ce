"""Benches of the arithmetic blocks, floats and integers, and of the stream blocks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.arith import add, convert, int_to_float, multiply
from tilewright.golden.bits import decode, encode, round_pack, unpack
from tilewright.golden.integer import (
    adder_tree,
    expand,
    leading_zeros,
    max_tree,
    popcount,
    prefix_sum,
    shift,
)
from tilewright.golden.params.arith import (
    FloatAddParams,
    FloatConvertParams,
    FloatMulParams,
    FloatRoundParams,
    FloatUnpackParams,
    IntToFloatParams,
    LeadingZerosParams,
    MaxTreeParams,
    ShifterParams,
)
from tilewright.golden.params.formats import FloatFormat
from tilewright.golden.payload import Columns
from tilewright.golden.vectors import corners, operands
from tilewright.verify.bench import Bench, WordBench
from tilewright.verify.stimuli.numbers import (
    around_midpoints,
    edge_values,
    lone_bits,
    random_columns,
    random_masks,
    shortened,
    small_patterns,
    subnormal_ties,
)


def _unpacked(params: FloatUnpackParams, x: Columns) -> Columns:
    parts = unpack(params.format, x["x"], params.operand_subnormals)
    return {name: np.asarray(part, np.int64) for name, part in parts._asdict().items()}


def _patterns(params: FloatUnpackParams, rng: Generator, cases: int) -> Columns:
    """Corner patterns, subnormals, uniform patterns, lone ones."""
    fmt = params.format
    (x,) = operands([fmt], rng, cases)
    # Uniform patterns are hardly ever subnormal, and those are what is normalised.
    sign_and_fraction = x & ((1 << (fmt.bits - 1)) | ((1 << fmt.mantissa_bits) - 1))
    x = np.where(rng.random(cases) < 0.3, sign_and_fraction, x)
    # A one that has only zeros below asks most of the count of zeros above it.
    ones = 1 << np.arange(fmt.mantissa_bits)[: cases // 2]
    x[cases - len(ones) :] = ones
    return {"x": x}


def _rounded(params: FloatRoundParams, x: Columns) -> Columns:
    y = round_pack(
        params.format,
        x["sign"].astype(bool),
        x["exponent"],
        x["significand"],
        x["sticky"].astype(bool),
        params.rules,
        significand_bits=params.significand_bits,
        infinite=x["infinite"].astype(bool),
        nan=x["nan"].astype(bool),
    )
    return {"y": y}


def _to_round(params: FloatRoundParams, rng: Generator, cases: int) -> Columns:
    """Every leading-zero count, ties, both ends of the exponent range."""
    width, fmt = params.significand_bits, params.format
    significand = rng.integers(0, 1 << width, cases, np.uint64)
    significand >>= rng.integers(0, width, cases, np.uint64, endpoint=True)
    cleared = rng.integers(0, width, cases, np.uint64)
    significand = np.where(rng.random(cases) < 0.5, significand >> cleared << cleared, significand)
    reach = 1 << (params.exponent_bits - 1)
    exponent = rng.integers(-reach, reach, cases)
    near = rng.integers(fmt.min_exponent - fmt.mantissa_bits - 2, fmt.max_exponent + width, cases)
    exponent = np.where(rng.random(cases) < 0.8, np.clip(near, -reach, reach - 1), exponent)
    return {
        "significand": significand,
        "exponent": exponent,
        "sign": rng.integers(0, 2, cases),
        "sticky": rng.integers(0, 2, cases) & (significand != 0),
        "infinite": (rng.random(cases) < 0.03).astype(np.int64),
        "nan": (rng.random(cases) < 0.03).astype(np.int64),
    }


def _shortened_operands(
    fmts: tuple[FloatFormat, FloatFormat], rng: Generator, cases: int
) -> list[NDArray]:
    return [shortened(f, x, rng) for f, x in zip(fmts, operands(fmts, rng, cases), strict=True)]


def _factors(params: FloatMulParams, rng: Generator, cases: int) -> Columns:
    """Corner pairs, ties, products at both ends of the range."""
    count, fmts = cases * params.lanes, (params.a, params.b)
    plain, short, edge, tie = (len(part) for part in np.array_split(np.arange(count), 4))
    parts: list[Sequence[NDArray]] = [
        operands(fmts, rng, plain),
        _shortened_operands(fmts, rng, short),
    ]
    a_edge = rng.integers(1, params.a.max_finite_bits, edge)
    b_edge = encode(params.b, edge_values(params.out, rng, edge) / decode(params.a, a_edge))
    parts += [(a_edge, b_edge), subnormal_ties(params.a, params.b, params.out, rng, tie)]
    return _pairs(params, parts)


def _all_factors(params: FloatMulParams) -> Columns:
    """List every pattern of ``a`` times every corner of ``b``, spread over the lanes.

    With lanes that divide the patterns, lane k sees the patterns k, k + lanes, ... of each round.
    """
    edge, patterns = corners(params.b), np.arange(1 << params.a.bits)
    shape = (-1, params.lanes)
    return {
        "a": np.tile(patterns, len(edge)).reshape(shape),
        "b": np.repeat(edge, len(patterns)).reshape(shape),
    }


def _terms(params: FloatAddParams, rng: Generator, cases: int) -> Columns:
    """Corner pairs, close exponents, both small, cancellation, ties."""
    count, fmts = cases * params.lanes, (params.a, params.b)
    part = count // 4
    plain, short = operands(fmts, rng, count - 2 * part), _shortened_operands(fmts, rng, part)
    # A small operand added to one of usual size is lost, and so is its error.
    return _pairs(params, [plain, short, [small_patterns(f, rng, part) for f in fmts]])


def _pairs(params: FloatMulParams | FloatAddParams, parts: Any) -> Columns:
    """Operands ``a`` and ``b`` from several pairs of arrays."""
    a, b = (np.concatenate(part).reshape(-1, params.lanes) for part in zip(*parts, strict=True))
    return {"a": a, "b": b}


def _to_convert(params: FloatConvertParams, rng: Generator, cases: int) -> Columns:
    """Corners, uniform patterns, midpoints, ends of the range; then NaNs of one bit."""
    count = cases * params.lanes
    plain, middle, edge = (len(part) for part in np.array_split(np.arange(count), 3))
    a = np.concatenate(
        [
            *operands([params.a], rng, plain),
            around_midpoints(params.a, params.out, rng, middle),
            encode(params.a, edge_values(params.out, rng, edge)),
        ]
    )
    nans = lone_bits(params.a)[:edge]
    a[count - len(nans) :] = nans
    return {"a": a.reshape(cases, params.lanes)}


def _integers(params: IntToFloatParams, rng: Generator, cases: int) -> Columns:
    """Extremes, every magnitude, ties, powers of two."""
    count = cases * params.lanes
    low, high = -(1 << (params.bits - 1)), (1 << (params.bits - 1)) - 1
    a = rng.integers(low, high, count, endpoint=True) >> rng.integers(0, params.bits, count)
    # One significand bit more than the result has, then zeros: half of these are ties.
    length = min(params.out.significand_bits + 1, params.bits - 1)
    longer = rng.integers(1 << (length - 1), 1 << length, count)
    longer <<= rng.integers(0, params.bits - 1 - length, count, endpoint=True)
    beside = np.clip(longer + rng.integers(-1, 1, count, endpoint=True), 0, high)
    a = np.where(rng.random(count) < 0.5, beside * rng.choice([-1, 1], count), a)
    extremes = np.array([0, 1, -1, low, high, low + 1, high - 1])[:count]
    a[: len(extremes)] = extremes
    # A one that has only zeros below asks most of the count of zeros above it.
    ones = (1 << np.arange(params.bits - 1))[: count // 2]
    a[count - len(ones) :] = ones * rng.choice([-1, 1], len(ones))
    return {"a": a.reshape(cases, params.lanes)}


def _leading(params: LeadingZerosParams, rng: Generator, cases: int) -> Columns:
    """Random bits below a highest bit that goes through all positions, or zeros alone."""
    columns = random_columns(params.inputs[0], rng, cases)
    turn, shift = np.divmod(np.arange(cases), params.width + 1)
    x = columns["x"]
    ones = (1 << params.width - 1) * np.ones(cases, dtype=object)
    columns["x"] = (np.where(turn % 2 == 1, ones, x) >> shift).astype(x.dtype)
    return columns


def _to_shift(params: ShifterParams, rng: Generator, cases: int) -> Columns:
    """Every amount; half of the words have one set bit, at the edge of what is lost or anywhere."""
    columns = random_columns(params.inputs[0], rng, cases)
    columns["amount"] = np.arange(cases) % (1 << params.amount_bits)
    place = rng.integers(0, params.width, size=cases)
    edge = np.clip(columns["amount"] - rng.integers(0, 2, size=cases), 0, params.width - 1)
    place = np.where(rng.integers(0, 2, size=cases) == 1, place, edge)
    one = (np.ones(cases, dtype=object) << place).astype(columns["x"].dtype)
    columns["x"] = np.where(rng.integers(0, 2, size=cases) == 1, columns["x"], one)
    return columns


def _shifted(params: ShifterParams, x: Columns) -> Columns:
    y, sticky = shift(x["x"], x["amount"], params.width, params.direction)
    return {"y": y, "sticky": sticky}


def _masks(params: Any, rng: Generator, cases: int) -> Columns:
    return {"mask": random_masks(rng, cases, params.width)}


def _masked_words(params: Any, rng: Generator, cases: int) -> Columns:
    words = random_columns(params.inputs[0], rng, cases)
    return words | {"mask": random_masks(rng, cases, params.lanes)}


def _largest(params: MaxTreeParams, rng: Generator, cases: int) -> Columns:
    """Two of three cases are small values, and in one of these a larger one goes round."""
    columns = random_columns(params.inputs[0], rng, cases)
    terms, case = columns["terms"], np.arange(cases)
    small = case % 3 > 0
    shift = rng.integers(0, params.width, size=(cases, 1)).astype(np.uint64)
    terms[small] >>= shift[small]
    lone = np.flatnonzero(case % 3 == 1)
    place = np.arange(lone.size) % params.terms
    terms[lone, place] = np.minimum(terms[lone].max(axis=1) + 1, (1 << params.width) - 1)
    return columns


BENCHES: dict[str, Bench] = {
    "register_slice": WordBench(lambda p, x: x),
    "queue": WordBench(lambda p, x: x),
    "leading_zeros": WordBench(lambda p, x: {"count": leading_zeros(x["x"], p.width)}, _leading),
    "shifter": WordBench(_shifted, _to_shift),
    "adder_tree": WordBench(lambda p, x: {"sum": adder_tree(x["terms"])}),
    "prefix_sum": WordBench(
        lambda p, x: dict(zip(("index", "total"), prefix_sum(x["mask"]), strict=True)), _masks
    ),
    "popcount": WordBench(lambda p, x: {"count": popcount(x["mask"])}, _masks),
    "expand": WordBench(lambda p, x: {"y": expand(x["x"], x["mask"])}, _masked_words),
    "max_tree": WordBench(lambda p, x: {"max": max_tree(x["terms"])}, _largest),
    "float_unpack": WordBench(_unpacked, _patterns),
    "float_round": WordBench(_rounded, _to_round),
    "float_mul": WordBench(
        lambda p, x: {"y": multiply(p.a, p.b, p.out, x["a"], x["b"], p.rules)},
        _factors,
        exhaustive=_all_factors,
    ),
    "float_add": WordBench(
        lambda p, x: {"y": add(p.a, p.b, p.out, x["a"], x["b"], p.rules)}, _terms
    ),
    "float_convert": WordBench(
        lambda p, x: {"y": convert(p.a, p.out, x["a"], p.rules)}, _to_convert
    ),
    "int_to_float": WordBench(lambda p, x: {"y": int_to_float(p.out, x["a"], p.rules)}, _integers),
}
