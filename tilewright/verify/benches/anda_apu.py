"""Bench of the APU: dot products of one to five groups, every M, corner groups and scales."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden import bfp, planes
from tilewright.golden.anda import accumulate, group_sums, partial
from tilewright.golden.anda.cycles import dot_cycles
from tilewright.golden.arith import convert
from tilewright.golden.pack import Columns
from tilewright.golden.params.anda import MAX_MANTISSA_BITS, AndaApuParams, AndaNumerics
from tilewright.golden.params.formats import FP16, FP32
from tilewright.verify.anda_groups import activations, mantissas, scales, weights

MODULE = "tilewright.verify.timed_tests"
MAX_GROUPS = 5
BURST = 4


class Group(NamedTuple):
    """What the beats of one group say, for all rows."""

    mantissa: int
    words: NDArray  # (1 + mantissa, rows)
    exponents: NDArray  # (rows,)
    first: bool
    last: bool


def stimulus(params: AndaApuParams, rng: Generator, cases: int) -> dict[str, Columns]:
    """``cases`` dot products."""
    planes_in = plane_beats(params.numerics, rng, cases, rows=1)
    groups = int(planes_in.pop("groups"))
    planes_in["plane"] = planes_in.pop("planes")[:, 0]
    if not params.buffered:
        planes_in["plane"] = with_signs(planes_in)
    planes_in["exponent"] = planes_in.pop("exponents")[:, 0]
    return {
        "i0": planes_in,
        "i1": {
            "weights": weights(rng, params.numerics, groups),
            "scale": scales(rng, groups),
        },
    }


def expected(params: AndaApuParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    x, w = columns["i0"], columns["i1"]
    plane = x["plane"] if params.buffered else with_signs(x)
    beats = {**x, "planes": plane[:, np.newaxis], "exponents": x["exponent"][:, np.newaxis]}
    results = dot_products(
        params.numerics, beats, w["weights"][:, np.newaxis], w["scale"][:, np.newaxis]
    )
    return {"o": {"result": results[:, 0, 0]}}


def cycles(params: AndaApuParams, columns: dict[str, Columns]) -> NDArray[np.int64]:
    """When each result is offered, counted from the first plane, if nobody ever waits."""
    groups = [(g.mantissa, g.last) for g in groups_of(columns["i0"])]
    return dot_cycles(*zip(*groups, strict=True))


def with_signs(beats: Columns) -> NDArray:
    """``plane`` with every mantissa word XOR its group's sign word; its own inverse."""
    groups = [g.words for g in groups_of(beats)]
    taken = [np.concatenate([words[:1], words[1:] ^ words[0]]) for words in groups]
    rest = beats["plane"][sum(map(len, groups)) :]  # of a group that is not complete
    return np.concatenate([*taken, rest])


def plane_beats(numerics: AndaNumerics, rng: Generator, cases: int, rows: int) -> Columns:
    """Beats of ``cases`` dot products per row, and the number of ``groups``."""
    lengths = np.concatenate([[1, 2, MAX_GROUPS], rng.integers(1, MAX_GROUPS + 1, cases)])[:cases]
    bits = mantissas(rng, cases)
    if cases >= MAX_MANTISSA_BITS + 2 * BURST:
        # In the end runs of dot products as long as the published drain, 16 cycles, and shorter.
        bits[-2 * BURST : -BURST], lengths[-2 * BURST : -BURST] = 3, 4
        bits[-BURST:], lengths[-BURST:] = 1, 1
    groups = int(lengths.sum())
    values = activations(rng, groups * rows, numerics.group, finite=True)
    values = values.reshape(groups, rows, numerics.group)
    beats: dict[str, list] = {n: [] for n in ("mantissa", "planes", "exponents", "first", "last")}
    start = 0
    for mantissa, length in zip(bits.tolist(), lengths.tolist(), strict=True):
        fmt = numerics.block_format(mantissa)
        for k in range(length):
            blocks = bfp.encode(fmt, values[start + k])
            words = planes.pack(fmt, blocks)[:, 0].T
            count = len(words)
            beats["mantissa"].append(np.full(count, mantissa))
            beats["planes"].append(words)
            beats["exponents"].append(np.repeat(blocks.exponent.T, count, axis=0))
            beats["first"].append(np.full(count, k == 0))
            beats["last"].append(np.full(count, k == length - 1))
        start += length
    joined = {name: np.concatenate(parts) for name, parts in beats.items()}
    for flag in ("first", "last"):
        joined[f"{flag}_group"] = joined.pop(flag).astype(np.uint8)
    # Only the sign beat speaks of its group; the others may say anything.
    later = np.ones(len(joined["mantissa"]), bool)
    later[np.cumsum([0, *(len(m) for m in beats["mantissa"][:-1])])] = False
    joined["mantissa"] = np.where(later, rng.integers(0, 32, later.size), joined["mantissa"])
    joined["exponents"][later] ^= 31
    joined["first_group"][later] ^= 1
    joined["last_group"][later] ^= 1
    return {**joined, "groups": np.array(groups)}


def groups_of(beats: Columns) -> Iterator[Group]:
    """Whole groups, as the counting of beats finds them."""
    start = 0
    while start < len(beats["mantissa"]):
        mantissa = int(beats["mantissa"][start])
        end = start + 1 + mantissa
        if end > len(beats["mantissa"]):
            return
        yield Group(
            mantissa,
            beats["planes"][start:end] if "planes" in beats else beats["plane"][start:end],
            beats["exponents"][start] if "exponents" in beats else beats["exponent"][start],
            bool(beats["first_group"][start]),
            bool(beats["last_group"][start]),
        )
        start = end


def dot_products(
    numerics: AndaNumerics, beats: Columns, weights: NDArray, scale: NDArray
) -> NDArray:
    """fp16 results (dots, rows, columns) of weights (groups, columns, group) and their scales."""
    results = []
    total: NDArray = np.zeros((beats["planes"].shape[1], scale.shape[1]), np.uint32)
    for k, group in enumerate(groups_of(beats)):
        fmt = numerics.block_format(group.mantissa)
        words = group.words.T[:, np.newaxis]
        exponents = group.exponents[:, np.newaxis]
        blocks = planes.unpack(fmt, words, exponents, fmt.group)
        sums = group_sums(blocks, weights[k])
        partials = partial(numerics, group.mantissa, sums, exponents)
        before = np.zeros_like(total) if group.first else total
        total = accumulate(numerics, before, partials, scale[k])
        if group.last:
            results.append(convert(FP32, FP16, total))
    return np.array(results)
