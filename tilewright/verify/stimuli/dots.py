"""Dot products for the benches of PEs: corners, close sums, extremes, ordinary ones."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.bits import encode
from tilewright.golden.pack import Columns
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.pe import DecaLaneParams, GroupScaledParams, PEParams
from tilewright.golden.vectors import corners

BENCH_BEATS = 4  # beats of every dot product that the benches send


def beats_of(columns: Columns) -> Columns:
    """Return the columns of whole dot products, with an axis of beats.

    Beats of a dot product that is not complete have no result yet and are left out.
    """
    whole = len(columns["last"]) // BENCH_BEATS * BENCH_BEATS
    return {
        name: values[:whole].reshape(-1, BENCH_BEATS, *values.shape[1:])
        for name, values in columns.items()
    }


def flags(params: PEParams, rng: Generator, cases: int, every: int = 1) -> Columns:
    """Draw ``last``, every BENCH_BEATS beats, and the ends of groups of any length that fits.

    A group has a multiple of ``every`` beats.
    """
    position = np.arange(cases) % BENCH_BEATS
    last = position == BENCH_BEATS - 1
    limit = params.group // params.lanes
    chance = rng.choice([0.0, 0.4, 1.0], -(-cases // BENCH_BEATS))
    end = last | (rng.random(cases) < np.repeat(chance, BENCH_BEATS)[:cases])
    end &= position % every == every - 1
    end |= position % limit == limit - 1
    return {"group_end": end.astype(np.int64), "last": last.astype(np.int64)}


def scales(rng: Generator, cases: int) -> NDArray:
    """Draw mostly ordinary scales, and some at fp16's edges."""
    ordinary = encode(FP16, np.exp2(rng.uniform(-12, 4, cases)) * rng.choice([-1, 1], cases))
    return np.where(rng.random(cases) < 0.05, rng.choice(corners(FP16), cases), ordinary)


def floats(rng: Generator, cases: int, lanes: int) -> NDArray:
    """Draw fp16 patterns; a dot product is ordinary, close in size, of any size, tiny or edgy."""
    results = -(-cases // BENCH_BEATS)
    shape = (results, BENCH_BEATS, lanes)
    kind = rng.choice(6, (results, 1, 1), p=[0.15, 0.15, 0.3, 0.1, 0.15, 0.15])
    heavy = encode(FP16, rng.standard_t(2, shape) * 2)
    close = encode(FP16, rng.choice([-1, 1], shape) * (1 + rng.random(shape) / 64))
    any_size = encode(FP16, rng.choice([-1, 1], shape) * np.exp2(rng.uniform(-24, 15, shape)))
    tiny = rng.integers(0, 1 << 11, shape) | (rng.integers(0, 2, shape) << 15)
    sparse = np.where(rng.random(shape) < 0.7, 0, any_size)
    edge = np.where(rng.random(shape) < 0.1, rng.choice(corners(FP16), shape), any_size)
    values = np.choose(kind, [heavy, close, any_size, tiny, sparse, edge])
    return values.reshape(-1, lanes)[:cases]


def hide_large(rng: Generator, patterns: NDArray, partners: NDArray) -> NDArray:
    """Return ``partners`` with 0 beside every large pattern, in a third of the dot products.

    Zero products must not raise the exponent to which small ones are aligned.
    """
    results = -(-len(patterns) // BENCH_BEATS)
    chosen = np.repeat(rng.random(results) < 1 / 3, BENCH_BEATS)[: len(patterns), np.newaxis]
    large = (patterns >> FP16.mantissa_bits) & 0x1F >= FP16.bias - 5
    return np.where(chosen & large, 0, partners)


def weights(params: GroupScaledParams | DecaLaneParams, rng: Generator, cases: int) -> NDArray:
    """Draw integers, the extremes often enough to fill whole groups."""
    fmt = params.weight_format
    shape = (cases, params.lanes)
    values = rng.integers(fmt.minimum, fmt.maximum, shape, endpoint=True)
    extreme = rng.random((cases, 1)) < 0.3
    return np.where(extreme, rng.choice([fmt.minimum, fmt.maximum, 0]), values)


def take_back(rng: Generator, columns: Columns, sign: int, scale_fraction: int) -> Columns:
    """Return ``columns`` where every fourth dot product takes back what its first beat added.

    All but the last bit of one activation, times a weight of any size: a sum of few bits is left
    far below those that cancelled. ``sign`` is a bit of an activation, ``scale_fraction`` the bits
    of a scale below its exponent: half of the scales are powers of two.
    """
    changed = {name: values.copy() for name, values in columns.items()}
    first = np.arange(0, len(columns["last"]) - BENCH_BEATS + 1, 4 * BENCH_BEATS)
    short = first[rng.random(len(first)) < 0.5]
    changed["scale"][short] -= changed["scale"][short] & scale_fraction
    # Where no group ended the exponent could be anything; now it counts.
    exponent = changed["exponent"][first]
    field = exponent % 32
    changed["exponent"][first] = exponent - field + np.clip(field, 1, 30)
    for name in changed.keys() - {"last"}:
        changed[name][first + 1] = changed[name][first]
    changed["group_end"][first] = changed["group_end"][first + 1] = 1
    changed["activation"][first + 1] ^= sign
    changed["activation"][first + 1, 0] ^= 1
    for later in range(2, BENCH_BEATS):
        changed["activation"][first + later] = 0
    return changed


def unused(rng: Generator, cases: int) -> Columns:
    """Draw exponents and scales for PEs that ignore them."""
    return {
        "exponent": rng.integers(0, 32, cases),
        "scale": rng.integers(0, 1 << FP16.bits, cases),
    }
