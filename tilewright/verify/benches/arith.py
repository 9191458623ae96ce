"""Benches of the arithmetic blocks: floats and integers."""

import numpy as np
from numpy.random import Generator

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
    AdderTreeParams,
    ExpandParams,
    FloatAddParams,
    FloatConvertParams,
    FloatMulParams,
    FloatRoundParams,
    FloatUnpackParams,
    IntToFloatParams,
    LeadingZerosParams,
    MaxTreeParams,
    PopcountParams,
    PrefixSumParams,
    ShifterParams,
)
from tilewright.golden.vectors import corners, operands
from tilewright.verify.bench import PortColumns, StreamBench
from tilewright.verify.stimuli.floats import (
    around_midpoints,
    edge_values,
    lone_bits,
    shortened,
    small_patterns,
    subnormal_ties,
)
from tilewright.verify.stimuli.integers import random_columns, random_masks


class FloatUnpackBench(StreamBench[FloatUnpackParams]):
    """Bench of the float unpacker: corner patterns, subnormals, uniform patterns, lone ones."""

    def stimulus(self, params: FloatUnpackParams, rng: Generator, cases: int) -> PortColumns:
        fmt = params.format
        (x,) = operands([fmt], rng, cases)
        # Uniform patterns are hardly ever subnormal, and those are what is normalised.
        sign_and_fraction = x & ((1 << (fmt.bits - 1)) | ((1 << fmt.mantissa_bits) - 1))
        x = np.where(rng.random(cases) < 0.3, sign_and_fraction, x)
        # A one that has only zeros below asks most of the count of zeros above it.
        ones = 1 << np.arange(fmt.mantissa_bits)[: cases // 2]
        x[cases - len(ones) :] = ones
        return {"i": {"x": x}}

    def expected(self, params: FloatUnpackParams, columns: PortColumns) -> PortColumns:
        parts = unpack(params.format, columns["i"]["x"], params.operand_subnormals)
        return {"o": {name: np.asarray(part, np.int64) for name, part in parts._asdict().items()}}


class FloatRoundBench(StreamBench[FloatRoundParams]):
    """Bench of the rounder: every leading-zero count, ties, both ends of the exponent range."""

    def stimulus(self, params: FloatRoundParams, rng: Generator, cases: int) -> PortColumns:
        width, fmt = params.significand_bits, params.format
        significand = rng.integers(0, 1 << width, cases, np.uint64)
        significand >>= rng.integers(0, width, cases, np.uint64, endpoint=True)
        cleared = rng.integers(0, width, cases, np.uint64)
        significand = np.where(
            rng.random(cases) < 0.5, significand >> cleared << cleared, significand
        )
        reach = 1 << (params.exponent_bits - 1)
        exponent = rng.integers(-reach, reach, cases)
        near = rng.integers(
            fmt.min_exponent - fmt.mantissa_bits - 2, fmt.max_exponent + width, cases
        )
        exponent = np.where(rng.random(cases) < 0.8, np.clip(near, -reach, reach - 1), exponent)
        return {
            "i": {
                "significand": significand,
                "exponent": exponent,
                "sign": rng.integers(0, 2, cases),
                "sticky": rng.integers(0, 2, cases) & (significand != 0),
                "infinite": (rng.random(cases) < 0.03).astype(np.int64),
                "nan": (rng.random(cases) < 0.03).astype(np.int64),
            }
        }

    def expected(self, params: FloatRoundParams, columns: PortColumns) -> PortColumns:
        x = columns["i"]
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
        return {"o": {"y": y}}


class FloatMulBench(StreamBench[FloatMulParams]):
    """Bench of the multiplier: corner pairs, ties, products at both ends of the range."""

    exhaustible = True

    def stimulus(self, params: FloatMulParams, rng: Generator, cases: int) -> PortColumns:
        count = cases * params.lanes
        plain, short, edge, tie = (len(part) for part in np.array_split(np.arange(count), 4))
        a, b = operands([params.a, params.b], rng, plain)
        a_short, b_short = (
            shortened(fmt, x, rng)
            for fmt, x in zip(
                (params.a, params.b), operands([params.a, params.b], rng, short), strict=True
            )
        )
        a_edge = rng.integers(1, params.a.max_finite_bits, edge)
        b_edge = encode(params.b, edge_values(params.out, rng, edge) / decode(params.a, a_edge))
        a_tie, b_tie = subnormal_ties(params.a, params.b, params.out, rng, tie)
        shape = (cases, params.lanes)
        return {
            "i": {
                "a": np.concatenate([a, a_short, a_edge, a_tie]).reshape(shape),
                "b": np.concatenate([b, b_short, b_edge, b_tie]).reshape(shape),
            }
        }

    def exhaustive(self, params: FloatMulParams) -> PortColumns:
        """List every pattern of ``a`` times every corner of ``b``, spread over the lanes.

        With lanes that divide the patterns, lane k sees the patterns k, k + lanes, ... of each
        round.
        """
        edge = corners(params.b)
        patterns = np.arange(1 << params.a.bits)
        shape = (-1, params.lanes)
        return {
            "i": {
                "a": np.tile(patterns, len(edge)).reshape(shape),
                "b": np.repeat(edge, len(patterns)).reshape(shape),
            }
        }

    def expected(self, params: FloatMulParams, columns: PortColumns) -> PortColumns:
        x = columns["i"]
        y = multiply(params.a, params.b, params.out, x["a"], x["b"], params.rules)
        return {"o": {"y": y}}


class FloatAddBench(StreamBench[FloatAddParams]):
    """Bench of the adder: corner pairs, close exponents, both small, cancellation, ties."""

    def stimulus(self, params: FloatAddParams, rng: Generator, cases: int) -> PortColumns:
        count = cases * params.lanes
        fmts = (params.a, params.b)
        part = count // 4
        plain = operands(fmts, rng, count - 2 * part)
        short = [shortened(f, x, rng) for f, x in zip(fmts, operands(fmts, rng, part), strict=True)]
        # A small operand added to one of usual size is lost, and so is its error.
        small = [small_patterns(f, rng, part) for f in fmts]
        a, b = (
            np.concatenate(parts).reshape(cases, params.lanes)
            for parts in zip(plain, short, small, strict=True)
        )
        return {"i": {"a": a, "b": b}}

    def expected(self, params: FloatAddParams, columns: PortColumns) -> PortColumns:
        x = columns["i"]
        return {"o": {"y": add(params.a, params.b, params.out, x["a"], x["b"], params.rules)}}


class FloatConvertBench(StreamBench[FloatConvertParams]):
    """Bench of the format conversion: corners, uniform patterns, midpoints, ends of the range.

    Then every NaN of one bit, where there is room.
    """

    def stimulus(self, params: FloatConvertParams, rng: Generator, cases: int) -> PortColumns:
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
        return {"i": {"a": a.reshape(cases, params.lanes)}}

    def expected(self, params: FloatConvertParams, columns: PortColumns) -> PortColumns:
        return {"o": {"y": convert(params.a, params.out, columns["i"]["a"], params.rules)}}


class IntToFloatBench(StreamBench[IntToFloatParams]):
    """Bench of the integer conversion: extremes, every magnitude, ties, powers of two."""

    def stimulus(self, params: IntToFloatParams, rng: Generator, cases: int) -> PortColumns:
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
        return {"i": {"a": a.reshape(cases, params.lanes)}}

    def expected(self, params: IntToFloatParams, columns: PortColumns) -> PortColumns:
        return {"o": {"y": int_to_float(params.out, columns["i"]["a"], params.rules)}}


class LeadingZerosBench(StreamBench[LeadingZerosParams]):
    """Bench of the leading-zero count: every position of the highest bit, and zero."""

    def stimulus(self, params: LeadingZerosParams, rng: Generator, cases: int) -> PortColumns:
        """Random bits below a highest bit that goes through all positions, or zeros alone."""
        (port,) = params.inputs
        columns = random_columns(port, rng, cases)
        turn, shift = np.divmod(np.arange(cases), params.width + 1)
        x = columns["x"]
        ones = (1 << params.width - 1) * np.ones(cases, dtype=object)
        columns["x"] = (np.where(turn % 2 == 1, ones, x) >> shift).astype(x.dtype)
        return {"i": columns}

    def expected(self, params: LeadingZerosParams, columns: PortColumns) -> PortColumns:
        return {"o": {"count": leading_zeros(columns["i"]["x"], params.width)}}


class ShifterBench(StreamBench[ShifterParams]):
    """Bench of the shifter: every amount, words with few and with many set bits."""

    def stimulus(self, params: ShifterParams, rng: Generator, cases: int) -> PortColumns:
        """Every other word has one set bit, at the edge of what is shifted out or anywhere."""
        (port,) = params.inputs
        columns = random_columns(port, rng, cases)
        columns["amount"] = np.arange(cases) % (1 << params.amount_bits)
        place = rng.integers(0, params.width, size=cases)
        edge = np.clip(columns["amount"] - rng.integers(0, 2, size=cases), 0, params.width - 1)
        place = np.where(rng.integers(0, 2, size=cases) == 1, place, edge)
        one = (np.ones(cases, dtype=object) << place).astype(columns["x"].dtype)
        columns["x"] = np.where(rng.integers(0, 2, size=cases) == 1, columns["x"], one)
        return {"i": columns}

    def expected(self, params: ShifterParams, columns: PortColumns) -> PortColumns:
        fields = columns["i"]
        y, sticky = shift(fields["x"], fields["amount"], params.width, params.direction)
        return {"o": {"y": y, "sticky": sticky}}


class AdderTreeBench(StreamBench[AdderTreeParams]):
    """Bench of the adder tree: extreme sums and random ones."""

    def expected(self, params: AdderTreeParams, columns: PortColumns) -> PortColumns:
        return {"o": {"sum": adder_tree(columns["i"]["terms"])}}


class PrefixSumBench(StreamBench[PrefixSumParams]):
    """Bench of the prefix sum: masks of every density."""

    def stimulus(self, params: PrefixSumParams, rng: Generator, cases: int) -> PortColumns:
        return {"i": {"mask": random_masks(rng, cases, params.width)}}

    def expected(self, params: PrefixSumParams, columns: PortColumns) -> PortColumns:
        index, total = prefix_sum(columns["i"]["mask"])
        return {"o": {"index": index, "total": total}}


class PopcountBench(StreamBench[PopcountParams]):
    """Bench of the population count: masks of every density."""

    def stimulus(self, params: PopcountParams, rng: Generator, cases: int) -> PortColumns:
        return {"i": {"mask": random_masks(rng, cases, params.width)}}

    def expected(self, params: PopcountParams, columns: PortColumns) -> PortColumns:
        return {"o": {"count": popcount(columns["i"]["mask"])}}


class ExpandBench(StreamBench[ExpandParams]):
    """Bench of the expansion crossbar: masks of every density, random words."""

    def stimulus(self, params: ExpandParams, rng: Generator, cases: int) -> PortColumns:
        (port,) = params.inputs
        columns = random_columns(port, rng, cases)
        columns["mask"] = random_masks(rng, cases, params.lanes)
        return {"i": columns}

    def expected(self, params: ExpandParams, columns: PortColumns) -> PortColumns:
        fields = columns["i"]
        return {"o": {"y": expand(fields["x"], fields["mask"])}}


class MaxTreeBench(StreamBench[MaxTreeParams]):
    """Bench of the max tree: ties, one large value at every place, random values."""

    def stimulus(self, params: MaxTreeParams, rng: Generator, cases: int) -> PortColumns:
        """Two of three cases are small values, and in one of these a larger one goes round."""
        (port,) = params.inputs
        columns = random_columns(port, rng, cases)
        terms, case = columns["terms"], np.arange(cases)
        small = case % 3 > 0
        shift = rng.integers(0, params.width, size=(cases, 1)).astype(np.uint64)
        terms[small] >>= shift[small]
        lone = np.flatnonzero(case % 3 == 1)
        place = np.arange(lone.size) % params.terms
        terms[lone, place] = np.minimum(terms[lone].max(axis=1) + 1, (1 << params.width) - 1)
        return {"i": columns}

    def expected(self, params: MaxTreeParams, columns: PortColumns) -> PortColumns:
        return {"o": {"max": max_tree(columns["i"]["terms"])}}
