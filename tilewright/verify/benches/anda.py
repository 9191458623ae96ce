"""Benches of Anda: bit-plane compressor, APU, MXU, and the vector unit, which Harmonia has too."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden import bfp, planes, vectors
from tilewright.golden.anda.cycles import dot_cycles, mxu_schedule
from tilewright.golden.anda.dot_products import accumulate, dot, group_sums, partial
from tilewright.golden.arith import convert
from tilewright.golden.bfp import Blocks
from tilewright.golden.bits import decode
from tilewright.golden.machine import vector
from tilewright.golden.params.anda import (
    MAX_MANTISSA_BITS,
    AndaApuParams,
    AndaCompressorLaneParams,
    AndaCompressorParams,
    AndaMxuParams,
    AndaNumerics,
)
from tilewright.golden.params.formats import FP16, FP32, BlockFormat
from tilewright.golden.params.vector import TABLES, VectorParams
from tilewright.golden.payload import Columns
from tilewright.verify.bench import Bench, PortColumns, StreamBench, WordBench
from tilewright.verify.dots import (
    ComparedArray,
    ComparedPE,
    DotProducts,
    Tensors,
    rows_of,
)
from tilewright.verify.stimuli.tensors import activations, mantissas, scales, weights

MAX_GROUPS = 5  # in a dot product
BURST = 4  # short dot products in a row
LONGEST_RUN = 6  # beats of one operation
RETURNING = slice(4, -2 * BURST, 4)  # dot products that take back what they added


class AndaApuBench(StreamBench[AndaApuParams], ComparedPE[AndaApuParams]):
    """Bench of the APU: dot products of one to five groups, every M, corner groups and scales."""

    timed, in_matrix = True, False
    variants = tuple(f"m{length}" for length in range(1, MAX_MANTISSA_BITS + 1))
    usual_variant = "m8"

    def stimulus(self, params: AndaApuParams, rng: Generator, cases: int) -> PortColumns:
        """Draw ``cases`` dot products."""
        beats, groups = plane_beats(params.numerics, rng, cases, rows=1)
        planes_in = dict(beats)
        planes_in["plane"] = planes_in.pop("planes")[:, 0]
        if not params.buffered:
            planes_in["plane"] = with_signs(planes_in)
        planes_in["exponent"] = planes_in.pop("exponents")[:, 0]
        operands: Columns = {
            "weights": weights(rng, params.numerics.weight_format, groups, params.numerics.group),
            "scale": scales(rng, groups),
        }
        cancel(params.numerics, rng, beats, operands)
        return {"i0": planes_in, "i1": operands}

    def expected(self, params: AndaApuParams, columns: PortColumns) -> PortColumns:
        x, w = columns["i0"], columns["i1"]
        plane = x["plane"] if params.buffered else with_signs(x)
        beats = {**x, "planes": plane[:, np.newaxis], "exponents": x["exponent"][:, np.newaxis]}
        results = dot_products(
            params.numerics, beats, w["weights"][:, np.newaxis], w["scale"][:, np.newaxis]
        )
        return {"o": {"result": results[:, 0, 0]}}

    def cycles(self, params: AndaApuParams, columns: PortColumns) -> NDArray[np.int64]:
        return dot_cycles(params, *_lengths(columns["i0"]))

    def dot_products(self, params: AndaApuParams, tensors: Tensors, variant: str) -> DotProducts:
        """Cut the activations into bit planes, a group's sign word first."""
        mantissa_bits = int(variant.removeprefix("m"))
        fmt = BlockFormat(group=tensors.group, mantissa_bits=mantissa_bits)
        blocks = bfp.encode(fmt, tensors.activation)
        weights = tensors.weight.reshape(tensors.groups.shape)
        streams, dots, length = tensors.activation.shape
        groups = length // tensors.group
        words = planes.pack(fmt, blocks)  # (streams, dots, groups, 1 + mantissa_bits)
        if not params.buffered:
            words[..., 1:] ^= words[..., :1]
        index = np.broadcast_to(np.arange(groups)[:, np.newaxis], words.shape)
        plane_columns = {
            "mantissa": np.full(words.shape, mantissa_bits),
            "plane": words,
            "exponent": np.broadcast_to(blocks.exponent[..., np.newaxis], words.shape),
            "first_group": index == 0,
            "last_group": index == groups - 1,
        }
        columns = {
            "i0": {name: x.reshape(streams, dots, -1) for name, x in plane_columns.items()},
            "i1": {"weights": weights, "scale": tensors.scale},
        }
        results = dot(params.numerics, mantissa_bits, blocks, weights, tensors.scale)
        return DotProducts(columns, {"result": results})


class AndaMxuBench(StreamBench[AndaMxuParams], ComparedArray[AndaMxuParams]):
    """Bench of the MXU: tiles of one to five groups, every M, corner groups and scales."""

    timed, in_matrix = True, False
    variants, usual_variant = AndaApuBench.variants, AndaApuBench.usual_variant
    growth: ClassVar = {"apu": "pe", "results": "each", "activations": "row"}
    growth |= {"weights": "column", "": "column"}

    def stimulus(self, params: AndaMxuParams, rng: Generator, cases: int) -> PortColumns:
        """Draw ``cases`` tiles."""
        numerics = params.numerics
        beats, groups = plane_beats(numerics, rng, cases, params.rows)
        values = weights(rng, numerics.weight_format, groups * params.columns, numerics.group)
        if params.row_groups > 1:
            return {"i0": beats, "i1": _shared_beats(params, rng, groups)}
        words = _weight_words(params, values.reshape(groups, params.columns, params.group))
        # Scales count on the first beat of a group; the others bring anything.
        scale = rng.integers(0, 1 << 16, (groups, params.weight_beats, params.columns))
        scale[:, 0] = scales(rng, groups * params.columns).reshape(groups, params.columns)
        return {
            "i0": beats,
            "i1": {
                "planes": words.reshape(groups * params.weight_beats, -1),
                "scales": scale.reshape(groups * params.weight_beats, params.columns),
            },
        }

    def expected(self, params: AndaMxuParams, columns: PortColumns) -> PortColumns:
        w = columns["i1"]
        if params.row_groups > 1:
            values, scale = _by_row(params, w)
        else:
            values = _weight_values(params, w["planes"])
            scale = w["scales"].reshape(-1, params.weight_beats, params.columns)[:, 0]
        tiles = dot_products(params.numerics, columns["i0"], values, scale)
        return {"o": {n: x.reshape(-1, *x.shape[2:]) for n, x in rows_of(tiles).items()}}

    def cycles(self, params: AndaMxuParams, columns: PortColumns) -> NDArray[np.int64]:
        beats = None
        if params.row_groups > 1:
            ends = np.flatnonzero(columns["i1"]["last"])
            beats = np.diff(ends, prepend=-1).tolist()
        mantissas, last = _lengths(columns["i0"])
        return mxu_schedule(params, mantissas, last, beats)

    def element(self, params: AndaMxuParams) -> tuple[AndaApuBench, AndaApuParams]:
        return AndaApuBench(), params.shared(AndaApuParams)

    def dot_products(self, params: AndaMxuParams, tensors: Tensors, variant: str) -> DotProducts:
        (rows, columns, shared), results = self.tile(params, tensors, variant)
        own, scale = rows["i0"], columns["i1"]["scale"]
        words = _weight_words(
            params, columns["i1"]["weights"].reshape(-1, params.columns, params.group)
        )
        beats = (*scale.shape[:2], scale.shape[2] * params.weight_beats)
        given = {
            "i0": shared["i0"] | {"planes": own["plane"], "exponents": own["exponent"]},
            "i1": {
                "planes": words.reshape(*beats, -1),
                "scales": np.repeat(scale, params.weight_beats, axis=2),
            },
        }
        return DotProducts(given, rows_of(results))


def _groups(params: AndaCompressorParams, rng: Generator, cases: int) -> Columns:
    """Every M, corner groups, infinities and NaNs in all lanes."""
    lanes = [
        rng.permutation(activations(rng, cases, params.group, finite=k % 2 == 0))
        for k in range(params.lanes)
    ]
    values = np.stack(lanes, axis=1).reshape(cases, -1)
    return {"mantissa": mantissas(rng, cases, MAX_MANTISSA_BITS), "values": values}


def _compressed(params: AndaCompressorParams, x: Columns) -> Columns:
    return _beats(params.group, x["mantissa"], x["values"].reshape(-1, params.lanes, params.group))


def _lane_groups(params: AndaCompressorLaneParams, rng: Generator, cases: int) -> Columns:
    """Every M, corner groups, infinities and NaNs."""
    values = activations(rng, cases, params.group, finite=False)
    return {"mantissa": mantissas(rng, cases, MAX_MANTISSA_BITS), "values": values}


def _compressed_lane(params: AndaCompressorLaneParams, x: Columns) -> Columns:
    beats = _beats(params.group, x["mantissa"], x["values"][:, np.newaxis])
    beats["word"] = beats.pop("words")[:, 0]
    beats["exponent"] = beats.pop("exponents")[:, 0]
    return beats


def _beats(group: int, mantissa: NDArray, values: NDArray) -> Columns:
    """Output beats for sets of groups (sets, lanes, group), each with its own M."""
    sets = [
        _set_beats(BlockFormat(group=group, mantissa_bits=int(bits)), words)
        for bits, words in zip(mantissa, values, strict=True)
    ]
    return {name: np.concatenate([s[name] for s in sets]) for name in sets[0]}


def _set_beats(fmt: BlockFormat, values: NDArray) -> Columns:
    blocks = bfp.encode(fmt, values, saturate=True)
    beats = 1 + fmt.mantissa_bits
    number = np.arange(beats)
    special = bool(((values & 0x7FFF) > FP16.max_finite_bits).any())
    return {
        "first": (number == 0).astype(np.uint8),
        "last": (number == beats - 1).astype(np.uint8),
        "words": planes.pack(fmt, blocks)[:, 0].T,
        "exponents": np.repeat(blocks.exponent.T, beats, axis=0),
        "saturated": np.full(beats, special, np.uint8),
    }


class Group(NamedTuple):
    """A group, as its first beat describes it."""

    mantissa: int
    beats: slice
    first: bool
    last: bool


def with_signs(beats: Columns) -> NDArray:
    """``plane`` with every mantissa word XOR its group's sign word; its own inverse."""
    plane = beats["plane"].copy()
    for group in groups_of(beats):
        plane[group.beats][1:] ^= plane[group.beats.start]
    return plane


def plane_beats(
    numerics: AndaNumerics, rng: Generator, cases: int, rows: int
) -> tuple[Columns, int]:
    """Beats of ``cases`` dot products per row, and the number of their groups."""
    lengths = np.concatenate([[1, 2, MAX_GROUPS], rng.integers(1, MAX_GROUPS + 1, cases)])[:cases]
    lengths[RETURNING] = 4
    bits = mantissas(rng, cases, MAX_MANTISSA_BITS)
    if cases >= MAX_MANTISSA_BITS + 2 * BURST:
        # In the end runs of dot products as long as the published drain, 16 cycles, and shorter.
        bits[-2 * BURST : -BURST], lengths[-2 * BURST : -BURST] = 3, 4
        bits[-BURST:], lengths[-BURST:] = 1, 1
    groups = int(lengths.sum())
    values = activations(rng, groups * rows, numerics.group, finite=True)
    values = values.reshape(groups, rows, numerics.group)
    for first in _returning(lengths):
        lone = rng.integers(5, 12, rows) << FP16.mantissa_bits
        values[first + 1] = np.where(np.arange(numerics.group) == 0, lone[:, np.newaxis], 0)
        values[first + 2], values[first + 3] = values[first + 1], values[first]
    of_group, place = np.repeat(bits, lengths), np.arange(groups)
    encoded = [
        (fmt, bfp.encode(fmt, group))
        for fmt, group in zip(map(numerics.block_format, of_group.tolist()), values, strict=True)
    ]
    count, ends = 1 + of_group, np.cumsum(lengths)
    # Only the sign beat describes its group; the others may hold anything.
    later = np.ones(count.sum(), bool)
    later[np.cumsum(count) - count] = False
    exponents = np.concatenate([blocks.exponent.T for _, blocks in encoded])
    beats = {
        "mantissa": np.where(later, rng.integers(0, 32, later.size), np.repeat(of_group, count)),
        "planes": np.concatenate([planes.pack(*pair)[:, 0].T for pair in encoded]),
        "exponents": np.repeat(exponents, count, axis=0),
        "first_group": (np.repeat(np.isin(place, ends - lengths), count) ^ later).astype(np.uint8),
        "last_group": (np.repeat(np.isin(place, ends - 1), count) ^ later).astype(np.uint8),
    }
    beats["exponents"][later] ^= 31
    return beats, groups


def _returning(lengths: NDArray) -> list[int]:
    """First groups of every fourth dot product, of four groups: the last one is as the first.

    The others have one power of two. Only where the first one's sum is taken away again does a
    result of half as many bits show how the last bit of the sum was rounded.
    """
    return [int(start) for start in (np.cumsum(lengths) - lengths)[RETURNING]]


def cancel(numerics: AndaNumerics, rng: Generator, beats: Columns, operands: Columns) -> None:
    """Weights and scales with which dot products of one row return, as `_returning` says.

    The second group makes the sum odd. The third adds one or three halves of its last place, or up
    to eight times that.
    """
    groups = list(groups_of(beats))
    lengths = np.diff(np.flatnonzero([*(group.first for group in groups), True]))
    lowest = numerics.weight_format.minimum
    for k in _returning(lengths):
        weight, scale = operands["weights"][k : k + 4], operands["scale"][k : k + 4]
        weight[0] = np.maximum(weight[0], lowest + 1)
        weight[1], weight[2] = rng.choice([1, -1]), rng.choice([1, -1, 3, -3])
        weight[3] = -weight[0]
        scale[0] = scale[3] = rng.integers(0x3C00, 0x5800)
        partials = _partials(numerics, beats, groups[k], weight[:1])
        total = accumulate(numerics, np.zeros_like(partials), partials, scale[:1])
        # fp32 holds 24 bits; the half of the last one is 24 places below the first.
        half = int(np.frexp(decode(FP32, total).item() or 1.0)[1]) - 1 - FP32.significand_bits
        more = int(rng.choice([0, 0, 0, 1, 2, 3]))
        for later, place in ((1, half + 1), (2, half + more)):
            own = int(beats["exponents"][groups[k + later].beats.start, 0])
            field = place - own + 2 * FP16.bias
            scale[later] = np.clip(field, 1, 2 * FP16.bias) << FP16.mantissa_bits


def groups_of(beats: Columns) -> Iterator[Group]:
    """Whole groups, as the counting of beats finds them."""
    start = 0
    while start < len(beats["mantissa"]):
        mantissa = int(beats["mantissa"][start])
        end = start + 1 + mantissa
        if end > len(beats["mantissa"]):
            return
        first, last = (bool(beats[name][start]) for name in ("first_group", "last_group"))
        yield Group(mantissa, slice(start, end), first, last)
        start = end


def _lengths(beats: Columns) -> Iterable[tuple[Any, ...]]:
    """The mantissas of all groups, and which groups are the last of their dot products."""
    return zip(*((group.mantissa, group.last) for group in groups_of(beats)), strict=True)


def dot_products(
    numerics: AndaNumerics, beats: Columns, weights: NDArray, scale: NDArray
) -> NDArray:
    """fp16 results (dots, rows, columns) of weights (groups, columns, group) and their scales.

    Rows may have weights and scales of their own: (groups, rows, columns, group).
    """
    results = []
    total: NDArray = np.zeros((beats["planes"].shape[1], scale.shape[-1]), np.uint32)
    for k, group in enumerate(groups_of(beats)):
        before = np.zeros_like(total) if group.first else total
        partials = _partials(numerics, beats, group, weights[k])
        total = accumulate(numerics, before, partials, scale[k])
        if group.last:
            results.append(convert(FP32, FP16, total))
    return np.array(results)


def _partials(numerics: AndaNumerics, beats: Columns, group: Group, weights: NDArray) -> NDArray:
    """Sums of a group, (rows, columns), before their scales."""
    fmt = numerics.block_format(group.mantissa)
    words = beats["planes"][group.beats].T[:, np.newaxis]
    exponents = beats["exponents"][group.beats.start][:, np.newaxis]
    blocks = planes.unpack(fmt, words, exponents, fmt.group)
    return partial(numerics, group.mantissa, group_sums(blocks, weights), exponents)


def _weight_words(params: AndaMxuParams, values: NDArray) -> NDArray:
    """Plane words (groups, weight_bits, columns), the sign plane first."""
    codes = (values & ((1 << params.weight_bits) - 1)).astype(np.uint8)
    fmt = BlockFormat(group=params.group, mantissa_bits=params.weight_bits)
    unsigned = Blocks(np.zeros(codes.shape, bool), codes, np.empty(0, np.uint8), params.group)
    return planes.pack(fmt, unsigned)[..., 1:].transpose(0, 2, 1)


def _weight_values(params: AndaMxuParams, words: NDArray) -> NDArray[np.int64]:
    """Inverse of :func:`_weight_words`, of beats in order: (groups, columns, group)."""
    by_plane = words.reshape(-1, params.weight_bits, params.columns).transpose(0, 2, 1)
    signs = np.zeros((*by_plane.shape[:2], 1), by_plane.dtype)
    fmt = BlockFormat(group=params.group, mantissa_bits=params.weight_bits)
    whole = np.concatenate([signs, by_plane], axis=2)
    codes = planes.unpack(fmt, whole, np.empty(0, np.uint8), params.group).mantissa
    values = codes.astype(np.int64)
    return values - ((values >> (params.weight_bits - 1)) << params.weight_bits)


def _shared_beats(params: AndaMxuParams, rng: Generator, groups: int) -> Columns:
    """Beats of groups of which some row groups share tiles, some have tiles of their own, or
    none: the first of all gives one to each."""
    span = rng.choice(params.spans, groups)
    span[0] = params.spans[-1]
    tiles = params.row_groups >> span
    few = rng.random(groups) < 1 / 4
    tiles[few] = rng.integers(1, tiles[few] + 1)
    count = -(-tiles // params.beat_tiles)
    beats = int(count.sum())
    values = weights(rng, params.numerics.weight_format, beats * params.beat_columns, params.group)
    words = _weight_words(params, values.reshape(-1, params.columns, params.group))
    return {
        "planes": words.reshape(beats, -1),
        "scales": scales(rng, beats * params.beat_columns).reshape(beats, -1),
        "span": np.repeat(span, count),
        "last": np.isin(np.arange(beats), np.cumsum(count) - 1).astype(np.uint8),
    }


def _by_row(params: AndaMxuParams, beats: Columns) -> tuple[NDArray, NDArray]:
    """Weights (groups, rows, columns, group) of each row and their scales.

    Row groups without a tile have that of the group before.
    """
    words = beats["planes"].reshape(-1, params.beat_tiles, params.weight_bits * params.columns)
    values = _weight_values(params, words).reshape(*words.shape[:2], params.columns, params.group)
    scale = beats["scales"].reshape(*words.shape[:2], params.columns)
    own, rows = np.zeros((2, params.row_groups), int), []
    first = 0
    for beat, (span, last) in enumerate(zip(beats["span"], beats["last"], strict=True)):
        tile = np.arange(params.row_groups) >> int(span)
        given = tile // params.beat_tiles == beat - first
        own[:, given] = np.stack([np.full_like(tile, beat), tile % params.beat_tiles])[:, given]
        if last:
            rows.append(np.repeat(own, params.group_rows, axis=1))
            first = beat + 1
    beat, slot = np.moveaxis(np.array(rows), 1, 0)
    return values[beat, slot], scale[beat, slot]


def _operations(params: VectorParams, rng: Generator, cases: int) -> Columns:
    """Every operation on corners and moderate values, in short runs."""
    first = rng.random(cases) < 1 / 3
    first[0] = True
    first[LONGEST_RUN::LONGEST_RUN] = True
    run = np.cumsum(first) - 1
    runs = run[-1] + 1
    codes = np.array([int(operation) for operation in params.operations])
    operation = codes[rng.permutation(runs) % len(codes)][run]
    scale = vectors.operands((FP16,), rng, runs)[0]
    scale[rng.random(runs) < 0.5] = 0x3C00
    return {
        "operation": operation,
        "first": first.astype(np.uint8),
        "active": (rng.random((cases, params.row_lanes)) < 0.9).astype(np.uint8),
        "scale": scale[run],
        "a": _vector_values(params, rng, cases),
        "b": _vector_values(params, rng, cases),
    }


def _approximations(params: VectorParams) -> Columns:
    """List every fp16 pattern through every approximation."""
    patterns = np.arange(1 << FP16.bits, dtype=np.uint16).reshape(-1, params.lanes)
    functions = [*TABLES, *(o for o in params.operations if o.keeps_sum)]
    cases = len(functions) * len(patterns)
    a = np.tile(patterns, (len(functions), 1))
    return {
        "operation": np.repeat([int(operation) for operation in functions], len(patterns)),
        "first": np.ones(cases, np.uint8),
        "active": np.ones((cases, params.row_lanes), np.uint8),
        "scale": np.zeros(cases, np.uint16),
        "a": a,
        "b": np.zeros_like(a),
    }


def _vector_values(params: VectorParams, rng: Generator, cases: int) -> NDArray:
    """Half of the beats from everything there is, half of them of moderate size."""
    shape = (cases, params.lanes)
    wild = vectors.operands((FP16,), rng, cases * params.lanes)[0].reshape(shape)
    moderate = rng.standard_t(4, shape).astype(np.float16).view(np.uint16)
    return np.where(rng.random((cases, 1)) < 0.5, wild, moderate)


# The paper's compressor is no quick run, nor is a lane, where a group takes M + 1 cycles.
BENCHES: dict[str, Bench] = {
    "anda_compressor": WordBench(_compressed, _groups, in_matrix=False),
    "anda_compressor_lane": WordBench(_compressed_lane, _lane_groups, in_matrix=False),
    "anda_apu": AndaApuBench(),
    "anda_mxu": AndaMxuBench(),
    "anda_vector": WordBench(
        lambda p, x: vector.beats(p, **x), _operations, exhaustive=_approximations
    ),
}
