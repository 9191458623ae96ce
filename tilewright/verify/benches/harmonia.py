"""Benches of Harmonia: converter, offset generator, quantiser, array, PE."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden import bfp
from tilewright.golden.bits import decode, encode
from tilewright.golden.harmonia import array, converter, int8_quantiser, offset
from tilewright.golden.harmonia.pe import results, split_operand
from tilewright.golden.params.formats import FP16, BlockFormat
from tilewright.golden.params.harmonia import (
    ACTIVATION_BITS,
    OPERAND_BITS,
    HarmoniaArrayParams,
    HarmoniaConverterParams,
    HarmoniaOffsetParams,
    HarmoniaPeParams,
    Int8QuantiserParams,
    Mode,
)
from tilewright.golden.payload import Columns
from tilewright.golden.weights import WEIGHT_GROUP
from tilewright.verify.bench import Bench, PortColumns, StreamBench, WordBench
from tilewright.verify.dots import ComparedArray, ComparedPE, DotProducts, Tensors
from tilewright.verify.stimuli.dots import FP16_ONE, FP16_POWERS, lone_products, shared_powers
from tilewright.verify.stimuli.dots import scales as ordinary_scales
from tilewright.verify.stimuli.tensors import activations, scales

BENCH_STEPS = 2  # steps of every dot product that the bench of the PE sends
# A mantissa counts in two to the power of its exponent less this.
ACTIVATION_UNIT = FP16.bias + ACTIVATION_BITS - 1


def _blocks(params: HarmoniaConverterParams, rng: Generator, cases: int) -> Columns:
    """About ``cases`` beats of blocks: both ways and both lengths in any order, corners first."""
    parts: list[Columns] = []
    beats = 0
    while beats < cases or len(parts) < 8:
        spatial, short = (int(x) for x in np.unravel_index(len(parts) % 4, (2, 2)))
        if len(parts) >= 4:
            spatial, short = rng.integers(0, 2, 2)
        # Each exponent in both halves of the memory, as long as a third of the beats.
        largest = len(parts) // 2 - 1 if 4 <= len(parts) < 64 and beats < cases / 3 else 0
        parts.append(_block(params, rng, bool(spatial and not largest), bool(short), largest))
        beats += len(parts[-1]["spatial"])
    return _joined(parts)


def _windows(params: HarmoniaOffsetParams, rng: Generator, cases: int) -> Columns:
    """About ``cases`` beats: a window of any length that learns, beats that apply it, and again."""
    # Before any window every channel is unchanged, also where an earlier run learned some.
    parts: list[Columns] = [_applied(params, rng, params.channels // params.width, 0)]
    parts[0]["channel"] = np.arange(params.channels // params.width) * params.width
    while sum(len(part["learn"]) for part in parts) < cases or len(parts) < 5:
        channels = int(rng.integers(2, params.channels + 1))
        kind = len(parts) // 2 % 3
        parts.append(_window(params, rng, channels, int(rng.integers(1, 4)), kind))
        parts.append(_applied(params, rng, 2 * channels, kind))
    return _joined(parts)


def _joined(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _int8_groups(params: Int8QuantiserParams, rng: Generator, cases: int) -> Columns:
    """``cases`` beats, rounded up to whole groups: corners and subnormals among ordinary ones."""
    count = -(-cases // params.group)
    pool = activations(rng, 64 + count * params.rows, params.group, finite=False)
    groups = rng.permutation(pool)[: count * params.rows].reshape(count, params.rows, params.group)
    # The largest value is normalised where it is subnormal. A one that has only zeros below
    # asks most of the count of zeros above it.
    place = (count, params.rows, 1)
    top = (1 << rng.integers(0, FP16.mantissa_bits, place)) + rng.integers(0, 2, place)
    below = rng.integers(0, top, groups.shape, endpoint=True)
    signs = rng.integers(0, 2, groups.shape) << (FP16.bits - 1)
    small = np.where(np.arange(params.group) == 0, top, below) | signs
    groups = np.where(rng.random(place) < 0.25, small, groups).astype(groups.dtype)
    return {"values": groups.swapaxes(1, 2).reshape(-1, params.rows)}


class HarmoniaArrayBench(StreamBench[HarmoniaArrayParams], ComparedArray[HarmoniaArrayParams]):
    """Bench of the array: operands loaded once, then tiles of every mode and length."""

    timed, in_matrix = True, False
    first = ("load",)
    variants, usual_variant = tuple(mode.value for mode in Mode), Mode.M8W4.value
    # Activations move from column to column: registers of each element, as the queue of results.
    growth: ClassVar = {"element": "pe", "": "each", "results": "each", "operands": "memory"}

    def stimulus(self, params: HarmoniaArrayParams, rng: Generator, cases: int) -> PortColumns:
        """Draw about ``cases`` sums in tiles of 2 to 40 sums, mostly short; corners in turn.

        Half of the words have the same exponent and the same power of two as their scale in all
        columns, so that a tile's activations decide where its sums lie; the first of these has the
        largest operands.
        """
        used = min(params.words, 64)
        count = used * params.columns
        half = used // 2
        loads: Columns = {
            "column": np.repeat(np.arange(params.columns), used),
            "address": np.tile(rng.permutation(params.words)[:used], params.columns),
            "b_signs": rng.integers(0, 2, (count, params.group)),
            "b": rng.integers(0, 16, (count, params.group)),
            "b_exponent": rng.integers(8, 22, count),
            "scale": scales(rng, count),
        }
        order = rng.permutation(count)
        of_word = {
            "address": loads["address"][:half],
            "b_exponent": rng.integers(1, 10, half),
            "scale": rng.integers(1, 12, half) << FP16.mantissa_bits,
        }
        for name in ("b_exponent", "scale"):
            loads[name].reshape(params.columns, used)[:, :half] = of_word[name]
        loads["b"][::used], loads["b_signs"][::used] = (1 << OPERAND_BITS) - 1, 0
        tiles: list[Columns] = []
        while sum(len(t["mode"]) for t in tiles) < cases or len(tiles) < 6:
            tile, kind = _tile(params, rng, loads["address"][:used]), len(tiles) % 5
            tiles.append(_CORNERS[kind - 1](params, rng, tile, of_word) if kind else tile)
        return {
            "load": {name: values[order] for name, values in loads.items()},
            "i": _joined(tiles),
        }

    def expected(self, params: HarmoniaArrayParams, columns: PortColumns) -> PortColumns:
        values = array.results(params, columns["load"], columns["i"])
        place = np.arange(len(values)) % params.columns
        return {"o": {"values": values, "last": (place == params.columns - 1).astype(int)}}

    def cycles(self, params: HarmoniaArrayParams, columns: PortColumns) -> NDArray[np.int64]:
        return array.cycles(params, columns["i"])

    def element(self, params: HarmoniaArrayParams) -> "tuple[HarmoniaPeBench, HarmoniaPeParams]":
        return HarmoniaPeBench(), replace(params.pe, result=FP16)

    def dot_products(
        self, params: HarmoniaArrayParams, tensors: Tensors, variant: str
    ) -> DotProducts:
        """A sum's operands at an address of their own, loaded while a tile of zeros passes."""
        parts, results = self.tile(params, tensors, variant)
        rows, columns, shared = (part["i"] for part in parts)
        streams, dots, steps = shared["last"].shape
        words = dots * steps
        place = np.arange(words * params.columns)

        def flat(values: NDArray, axes: int) -> NDArray:
            return values.reshape(streams, 1, -1, *values.shape[axes:])

        def steady(values: NDArray) -> NDArray:
            return np.broadcast_to(values, (streams, 1, len(values)))

        load = {name: flat(columns[name], 4) for name in ("b_signs", "b", "scale")}
        load |= {"column": steady(place % params.columns)}
        load |= {"address": steady(place // params.columns)}
        load |= {"b_exponent": flat(columns["b_exponents"], 5)}
        sums = {name: flat(shared[name], 3) for name in ("mode", "first", "last")}
        for name in ("a_signs", "a", "a_exponents"):
            sums[name] = flat(rows[name].reshape(streams, dots, steps, -1), 3)
        sums["address"] = steady(np.arange(words))
        before = {n: np.repeat(x[:, :, :1], len(place), axis=2) for n, x in sums.items()}
        before |= {"a": np.zeros_like(before["a"]), "first": steady(place == 0)}
        before |= {"last": steady(place == len(place) - 1)}
        sums = {n: np.concatenate([before[n], x], axis=2) for n, x in sums.items()}
        tiles = np.swapaxes(results, 2, 3).reshape(streams, 1, -1, params.rows)
        zeros = np.zeros((streams, 1, params.columns, params.rows), tiles.dtype)
        values = np.concatenate([zeros, tiles], axis=2)
        ends = np.arange(values.shape[2]) % params.columns == params.columns - 1
        given = {"values": values, "last": np.broadcast_to(ends, values.shape[:3])}
        return DotProducts({"i": sums, "load": load}, given, unmeasured=len(place))


class HarmoniaPeBench(StreamBench[HarmoniaPeParams], ComparedPE[HarmoniaPeParams]):
    """Bench of the Harmonia PE: every mode, switching from result to result, extremes, ties."""

    variants = tuple(mode.value for mode in Mode)
    usual_variant = Mode.M8W4.value

    def result_beats(self, params: HarmoniaPeParams) -> int:
        return BENCH_STEPS * params.fold

    def stimulus(self, params: HarmoniaPeParams, rng: Generator, cases: int) -> PortColumns:
        """Draw ``cases`` beats; what does not fill a dot product has no result."""
        beats = self.result_beats(params)
        count = -(-cases // beats)
        shape = (count, BENCH_STEPS, params.fold, params.pairs)
        kind = rng.integers(0, 4, (count, 1, 1, 1))  # random, extreme, sparse, cancelling
        # Runs of one mode, and changes at every result.
        drawn = rng.integers(0, len(Mode), count)
        mode = np.where(rng.random(count) < 0.4, drawn[0], drawn)
        a_signs, b_signs = (rng.integers(0, 2, shape) for _ in range(2))
        a = rng.integers(0, 256, shape)
        b = rng.integers(0, 16, shape)
        b = np.where((mode == Mode.M8W4.code)[:, np.newaxis, np.newaxis, np.newaxis], b % 9, b)
        same_sign = rng.integers(0, 2, (count, 1, 1, 1))
        a = np.where(kind == 1, 255, np.where(kind == 2, a * (rng.random(shape) < 0.2), a))
        b = np.where(kind == 1, b.max(axis=(1, 2, 3), keepdims=True), b)
        a_signs = np.where(kind == 1, same_sign, a_signs)
        b_signs = np.where(kind == 1, 0, b_signs)
        exponents = np.repeat(_exponents(rng, count, params), params.fold, axis=3)
        step = np.arange(BENCH_STEPS)[:, np.newaxis]
        columns = {
            "mode": np.broadcast_to(mode[:, np.newaxis, np.newaxis], shape[:3]),
            "first": np.broadcast_to(step == 0, shape[:3]).astype(np.int64),
            "last": np.broadcast_to(step == BENCH_STEPS - 1, shape[:3]).astype(np.int64),
            "a_signs": a_signs,
            "a": a,
            "b_signs": b_signs,
            "b": b,
            "a_exponents": exponents[0],
            "b_exponents": exponents[1],
            "scale": ordinary_scales(rng, shape[:3], edges=0.1),
        }
        columns = self._with_lone_products(params, rng, columns, cases // beats)
        # Zero, so that after a reset a sum that did not start again shows.
        columns["a"][0], columns["scale"][0] = 0, FP16_ONE
        columns["a_exponents"][0] = columns["b_exponents"][0] = FP16.bias
        return {"i": {n: x.reshape(-1, *x.shape[3:])[:cases] for n, x in columns.items()}}

    def _with_lone_products(
        self, params: HarmoniaPeParams, rng: Generator, columns: Columns, results: int
    ) -> Columns:
        """Return ``columns`` with :func:`lone_products` times scales in some dot products.

        The first is a sum of the first step, the others are sums of the second.
        """
        own = 1 - ACTIVATION_UNIT, FP16.max_exponent + FP16.bias - ACTIVATION_UNIT
        lengths = ACTIVATION_BITS, FP16.significand_bits
        powers = own[0] + FP16_POWERS[0], own[1] + FP16_POWERS[1]
        places = 2 + (params.sub_elements > 1)
        lone = lone_products(rng, results, places, lengths, powers, small_first=True)
        of_a, of_scale = shared_powers(lone.power, own, FP16_POWERS)
        changed = {name: np.array(values) for name, values in columns.items()}
        for name, value in (("mode", Mode.M8W4.code), ("a", 0), ("scale", FP16_ONE)):
            changed[name][lone.result] = value
        step, element = np.minimum(lone.place, 1), lone.place // 2
        lane = element * params.lanes + rng.integers(params.lanes, size=len(step))
        for name, values in (
            ("a_signs", lone.left < 0),
            ("a", np.abs(lone.left)),
            ("b_signs", 0),
            ("b", 1),
        ):
            changed[name][lone.result, step, 0, lane] = values
        for beat in range(params.fold):
            changed["a_exponents"][lone.result, step, beat, element] = of_a + ACTIVATION_UNIT
            scale = encode(FP16, np.ldexp(lone.right, of_scale))
            changed["scale"][lone.result, step, beat] = scale
        return changed

    def expected(self, params: HarmoniaPeParams, columns: PortColumns) -> PortColumns:
        return {"o": {"y": results(params, columns["i"])}}

    def dot_products(self, params: HarmoniaPeParams, tensors: Tensors, variant: str) -> DotProducts:
        """Encode both operands in groups of 32, as the mode says.

        In M8M8 each group is sent twice. Sums go to the sub-PEs in order, steps in beats. Where a
        mode multiplies mantissas with mantissas, the weights stand in for the second activation.
        """
        mode, group = Mode(variant), params.group
        streams, dots, length = tensors.activation.shape
        grouped = (streams, dots, length // group, group)
        a = bfp.encode(BlockFormat(group=group, mantissa_bits=8), tensors.activation)
        if mode is Mode.M8W4:
            weight = tensors.weight.reshape(grouped)
            b, b_sign, b_exponent = np.abs(weight), weight < 0, np.ones(grouped[:3], np.int64)
        else:
            factors = np.repeat(decode(FP16, tensors.scale), tensors.group, axis=-1)
            fmt = BlockFormat(group=group, mantissa_bits=mode.operand_bits)
            other = bfp.encode(fmt, encode(FP16, tensors.weight * factors))
            b, b_sign, b_exponent = other.mantissa, other.sign, other.exponent
        a_mantissa, a_sign, a_exponent = a.mantissa, a.sign, a.exponent
        if mode is Mode.M8M8:
            b = split_operand(b).reshape(streams, dots, -1, group)
            a_mantissa, a_sign, b_sign, a_exponent, b_exponent = (
                np.repeat(x, 2, axis=2)
                for x in (a_mantissa, a_sign, b_sign, a_exponent, b_exponent)
            )
        steps = b.shape[2] // params.sub_elements
        beats = (streams, dots, steps * params.fold)

        def lanes(x: NDArray) -> NDArray:
            parts = (streams, dots, steps, params.sub_elements, params.fold, params.lanes)
            return np.swapaxes(x.reshape(parts), 3, 4).reshape(*beats, params.pairs)

        def steady(x: NDArray) -> NDArray:
            return np.repeat(x.reshape(streams, dots, steps, -1), params.fold, axis=2)

        step = np.broadcast_to(np.arange(beats[2]) // params.fold, beats)
        scales = np.moveaxis(tensors.scale[..., :: WEIGHT_GROUP // tensors.group], 2, 0)
        of_step = np.moveaxis(np.resize(scales, (steps, streams, dots)), 0, 2)
        columns = {
            "mode": np.full(beats, mode.code),
            "first": step == 0,
            "last": step == steps - 1,
            "a_signs": lanes(a_sign),
            "a": lanes(a_mantissa),
            "b_signs": lanes(b_sign),
            "b": lanes(b),
            "a_exponents": steady(a_exponent),
            "b_exponents": steady(b_exponent),
            "scale": steady(of_step)[..., 0],
        }
        flat = {name: x.reshape(-1, *x.shape[3:]) for name, x in columns.items()}
        return DotProducts({"i": columns}, {"y": results(params, flat).reshape(streams, dots)})


def _block(
    params: HarmoniaConverterParams, rng: Generator, spatial: bool, short: bool, largest: int
) -> Columns:
    """Draw a block; with ``largest`` its rows begin with that exponent, the others are one less."""
    beats = params.block_beats(spatial)
    finite = bool(rng.random() < 0.7)
    # Corner groups come first: drawn from many, so that few are corners.
    groups = activations(rng, 64, params.group, finite=finite)
    groups = groups[rng.choice(len(groups), params.columns if spatial else params.rows)]
    if largest:
        field = np.full(groups.shape, largest - 1)
        field[:, 0] = largest
        groups = (groups & 0x83FF | field << FP16.mantissa_bits).astype(groups.dtype)
    if spatial:
        grid = groups.reshape(params.columns, params.loops, params.rows)
        values = grid.swapaxes(0, 1).reshape(beats, -1)
        junk = rng.integers(0, 1 << FP16.bits, (beats, params.lanes - values.shape[1]))
        values = np.hstack([values, junk.astype(values.dtype)])
    else:
        values = groups.T.reshape(beats, params.lanes)
    # Only the first beat describes its block; the others may hold anything.
    said = rng.integers(0, 2, (2, beats))
    said[:, 0] = spatial, short
    return {"spatial": said[0], "short": said[1], "values": values}


def _window(
    params: HarmoniaOffsetParams, rng: Generator, channels: int, blocks: int, kind: int
) -> Columns:
    beats = channels * blocks
    channel = np.tile(np.arange(channels), blocks)
    last = np.zeros(beats, int)
    last[-1] = 1
    return {
        "learn": np.ones(beats, int),
        "first": (np.arange(beats) < channels).astype(int),
        "last": last,
        "channel": channel,
        "values": _values(rng, beats, params.rows * params.width, kind),
    }


def _applied(params: HarmoniaOffsetParams, rng: Generator, beats: int, kind: int) -> Columns:
    values = _values(rng, beats, params.rows * params.width, kind)
    if kind == 2:
        longest = _before_a_power(rng, values.shape)
        values = np.where(rng.random(values.shape) < 0.2, longest, values)
    return {
        "learn": np.zeros(beats, int),
        "first": rng.integers(0, 2, beats),  # ignored here
        "last": rng.integers(0, 2, beats),
        "channel": rng.integers(0, params.channels // params.width, beats) * params.width,
        "values": values,
    }


def _values(rng: Generator, beats: int, rows: int, kind: int) -> NDArray:
    """Draw anything; few magnitudes, so that ties are common; or all below 2^-13."""
    if kind == 0:
        return rng.permutation(activations(rng, beats, rows, finite=False))
    if kind == 1:
        return rng.choice([0x3C00, 0xBC00, 0x4200, 0xC200, 0x0401], (beats, rows))
    # Halves of those that end in 3 in binary, 11, are rounded up, of other odd ones down.
    small = rng.integers(0, 0x800, (beats, rows)) | rng.choice([0, 3], (beats, rows))
    return small | rng.integers(0, 2, (beats, rows)) << 15


def _before_a_power(rng: Generator, shape: tuple[int, ...]) -> NDArray:
    """Draw values just below a power of two, to which offsets of about 2^-14 round them up."""
    fraction = (1 << FP16.mantissa_bits) - 1
    field = rng.integers(FP16.bias - 6, FP16.bias - 2, shape)
    return rng.integers(0, 2, shape) << 15 | field << FP16.mantissa_bits | fraction


def _ends(mode: int, sums: int) -> Columns:
    """Mode and ends of a tile."""
    place = np.arange(sums)
    ends = {"first": (place == 0).astype(int), "last": (place == sums - 1).astype(int)}
    return {"mode": np.full(sums, mode), **ends}


def _tile(params: HarmoniaArrayParams, rng: Generator, addresses: NDArray) -> Columns:
    mode = int(rng.integers(0, len(Mode)))
    sums = int(rng.choice([2, 4, 6, 40], p=[0.5, 0.3, 0.15, 0.05]))
    lanes = params.rows * params.group
    lowest = int(rng.choice([10, 20], p=[0.8, 0.2]))  # many results of the latter are infinite
    return {
        **_ends(mode, sums),
        "address": rng.choice(addresses, sums),
        "a_signs": rng.integers(0, 2, (sums, lanes)),
        "a": rng.integers(0, 256, (sums, lanes)) * (rng.random((sums, 1)) < 0.9),
        "a_exponents": rng.integers(lowest, lowest + 10, (sums, params.rows)),
    }


def _halfway_tile(
    params: HarmoniaArrayParams, rng: Generator, tile: Columns, of_word: Columns
) -> Columns:
    """Return a tile whose results are halfway between two subnormals of fp16, of one short product.

    In M8W4 the sum in fp32 is rounded, in other modes the group's own.
    """
    word = int(rng.integers(len(of_word["address"])))
    half = FP16.min_exponent - FP16.mantissa_bits - 1
    unit = half + ACTIVATION_UNIT
    mode = list(Mode)[tile["mode"][0]]
    if mode is Mode.M8W4:
        exponent = unit + FP16.bias - (of_word["scale"][word] >> FP16.mantissa_bits)
    else:
        fraction = ACTIVATION_BITS if mode is Mode.M8M8 else OPERAND_BITS
        exponent = unit + FP16.bias + fraction - 1 - of_word["b_exponent"][word]
    sums = len(tile["mode"])
    # The same product with more zeros below it, in smaller units.
    zeros, place = int(rng.integers(ACTIVATION_BITS)), int(rng.integers(2))
    if mode is Mode.M8M8 and place == 0:
        exponent -= OPERAND_BITS  # the high half of a pair
    short = rng.integers(1 << min(ACTIVATION_BITS - zeros, 6), size=params.rows) | 1
    a = np.zeros((sums, params.rows, params.group), int)
    lane = rng.integers(params.group, size=params.rows)
    a[place, np.arange(params.rows), lane] = short << zeros
    return tile | {
        "address": np.full(sums, of_word["address"][word]),
        "a": a.reshape(sums, -1),
        "a_exponents": np.full_like(tile["a_exponents"], np.clip(exponent - zeros, 1, 30)),
    }


def _largest_tile(
    params: HarmoniaArrayParams, rng: Generator, tile: Columns, of_word: Columns
) -> Columns:
    """Return a tile of the largest sums, whose top bits are about where fp16 is subnormal."""
    sums, top = len(tile["mode"]), params.pe.numerics.group_sum_bits - 2
    # The sum of both mantissas' exponents with which the top bit is that of the smallest normal.
    border = FP16.min_exponent - top + 2 * ACTIVATION_UNIT
    exponent = border + rng.integers(-3, 2, (sums, params.rows)) - of_word["b_exponent"][0]
    return tile | {
        "mode": np.full(sums, rng.choice([Mode.M8M4.code, Mode.M8M8.code])),
        "address": np.full(sums, of_word["address"][0]),
        "a_signs": np.full_like(tile["a_signs"], rng.integers(2)),
        "a": np.full_like(tile["a"], (1 << ACTIVATION_BITS) - 1),
        "a_exponents": np.clip(exponent, 1, 30),
    }


def _full_tile(
    params: HarmoniaArrayParams, rng: Generator, _: Columns, of_word: Columns
) -> Columns:
    """Draw a tile of products below each other, all ones where the operand is a power of two.

    A last one makes that a power of two: a carry runs through all bits. Every other sum is zero,
    so that pairs are as well such products.
    """
    sums = 8
    last = int(rng.integers(ACTIVATION_BITS)) + 1  # bits of the last ones
    mode = int(rng.integers(0, len(Mode)))
    highest = 19 if mode == Mode.M8W4.code else 30  # of which a group's sum is finite
    below = np.array([0, 8, 8 + last, 8 + last])
    a = np.zeros((sums, params.rows, params.group), int)
    lane = rng.integers(params.group, size=params.rows)
    a[1::2, np.arange(params.rows), lane] = np.array([[255], [255], [(1 << last) - 1], [1]])
    return {
        **_ends(mode, sums),
        "address": np.full(sums, rng.choice(of_word["address"])),
        "a_signs": np.tile(rng.integers(0, 2, params.rows * params.group), (sums, 1)),
        "a": a.reshape(sums, -1),
        "a_exponents": np.repeat(highest - below, 2)[:, np.newaxis] * np.ones(params.rows, int),
    }


def _taken_back_tile(
    params: HarmoniaArrayParams, rng: Generator, _: Columns, of_word: Columns
) -> Columns:
    """Draw two large sums, two smaller ones, and the large ones with the other sign."""
    again = np.array([0, 1, 2, 3, 0, 1])
    lanes = params.rows * params.group
    a_signs, a = rng.integers(0, 2, (4, lanes)), rng.integers(0, 256, (4, lanes))
    large = rng.integers(16, 23, params.rows)
    smaller = np.maximum(large - rng.integers(0, 20, params.rows), 1)
    return {
        **_ends(int(rng.integers(0, len(Mode))), 6),
        "address": rng.choice(of_word["address"], 4)[again],
        "a_signs": a_signs[again] ^ (np.arange(6) >= 4)[:, np.newaxis],
        "a": a[again],
        "a_exponents": np.where((again < 2)[:, np.newaxis], large, smaller),
    }


def _exponents(rng: Generator, count: int, params: HarmoniaPeParams) -> NDArray:
    """Draw exponents of both operands, (2, count, steps, 1, sub_elements), close or anywhere."""
    shape = (2, count, BENCH_STEPS, params.sub_elements)
    centre = rng.integers(4, 28, (2, count, 1, 1))
    close = np.clip(centre + rng.integers(-2, 3, shape), 1, 30)
    anywhere = rng.random((1, count, 1, 1)) < 0.3
    return np.where(anywhere, rng.integers(1, 31, shape), close)[:, :, :, np.newaxis]


_CORNERS = (_halfway_tile, _taken_back_tile, _full_tile, _largest_tile)
BENCHES: dict[str, Bench] = {
    "harmonia_converter": WordBench(converter.convert, _blocks, cycles=converter.cycles),
    "harmonia_offset": WordBench(
        lambda p, x: {"values": offset.results(p, x)}, _windows, cycles=offset.cycles
    ),
    "int8_quantiser": WordBench(
        int8_quantiser.quantise, _int8_groups, cycles=int8_quantiser.cycles
    ),
    "harmonia_array": HarmoniaArrayBench(),
    "harmonia_pe": HarmoniaPeBench(),
}
