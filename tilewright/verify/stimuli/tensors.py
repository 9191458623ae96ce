"""Random operands of accelerators: groups with every M, corners first; tensors of programs."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.params.formats import FP16, IntFormat
from tilewright.golden.weights import Weights, quantise

_MAX = FP16.max_finite_bits
_SIGN = 1 << 15


def mantissas(rng: Generator, count: int, most: int) -> NDArray[np.int64]:
    """Draw every M up to ``most``, the longest and the shortest first, then at random."""
    ends = [most, 1, *range(2, most)]
    return np.concatenate([ends, rng.integers(1, most + 1, count)])[:count]


def activations(rng: Generator, count: int, group: int, *, finite: bool) -> NDArray[np.uint16]:
    """Draw fp16 patterns (count, group): corner groups, then random ones of many kinds."""
    signs = np.arange(group) % 2 * _SIGN
    corner = [
        np.zeros(group, int),
        np.full(group, _SIGN),
        signs,
        np.full(group, _MAX),
        np.full(group, _MAX) | signs,
        np.full(group, _MAX | _SIGN),
        np.arange(group) % 0x400 | signs,  # subnormals
        np.full(group, 1) | signs,
        np.where(np.arange(group) == group - 1, _MAX, 1),  # the largest above the smallest
        np.arange(group) % 31 << 10 | signs,  # powers of two
    ]
    if not finite:
        corner += [
            np.where(np.arange(group) == 0, 0x7C00, 0x3C00),
            np.full(group, 0xFE00),
            np.where(np.arange(group) == 1, 0xFC01, 0),
        ]
    kinds = rng.integers(0, 4, (count, 1))
    heavy = rng.standard_t(2, (count, group)) * 10.0 ** rng.integers(-4, 3, (count, 1))
    heavy = np.clip(heavy, -65504, 65504).astype(np.float16).view(np.uint16)
    uniform = rng.integers(0, 1 << 16, (count, group))
    close = (
        0x3C00
        + rng.integers(0, 0x400, (count, group))
        + rng.integers(0, 2, (count, group)) * (_SIGN)
    )
    sparse = np.where(rng.random((count, group)) < 0.8, uniform & _SIGN, uniform)
    values = np.choose(kinds, [heavy, uniform, close, sparse]).astype(np.uint16)
    if finite:
        values = np.where(values & 0x7FFF > _MAX, values & 0x83FF, values).astype(np.uint16)
    corners = np.array(corner, np.uint16)[:count]
    return np.concatenate([corners, values])[:count]


def weights(rng: Generator, fmt: IntFormat, count: int, group: int) -> NDArray[np.int64]:
    """Draw weights (count, group): the extremes, then random ones."""
    low, high = fmt.minimum, fmt.maximum
    corner = np.array([[low], [high], [-1], [0]]) * np.ones(group, int)
    random = rng.integers(low, high + 1, (count, group))
    random[1::4] = rng.choice([low, high], random[1::4].shape)
    return np.concatenate([random[:8], corner, random[8:]])[:count]


def scales(rng: Generator, count: int) -> NDArray[np.uint16]:
    """Draw fp16 patterns: mostly of usual size, then any, also subnormal, infinite and NaN."""
    usual = (rng.standard_normal(count) * 0.01).astype(np.float16).view(np.uint16)
    wild = rng.choice([0, 1, 0x8001, 0x03FF, 0x0400, _MAX, 0x7C00, 0xFC00, 0x7E00], count)
    anything = rng.integers(0, 1 << 16, count)
    kind = rng.choice(3, count, p=[0.8, 0.1, 0.1])
    return np.choose(kind, [usual, wild, anything]).astype(np.uint16)


def heavy_tailed(rng: Generator, tokens: int, width: int) -> NDArray[np.uint16]:
    """fp16 patterns like activations of language models: a few channels are far larger."""
    values = rng.standard_t(4, (tokens, width))
    values *= np.where(rng.random(width) < 0.02, 30.0, 1.0)
    return values.astype(np.float16).view(np.uint16)


def with_outliers(rng: Generator, tokens: int, channels: int) -> NDArray[np.uint16]:
    """fp16 patterns like queries, keys and values: some channels are larger."""
    values = rng.standard_normal((tokens, channels))
    values *= np.where(rng.random(channels) < 0.1, 8.0, 1.0)
    return values.astype(np.float16).view(np.uint16)


def random_weights(rng: Generator, outputs: int, inputs: int, bits: int) -> Weights:
    return quantise(rng.standard_t(6, (outputs, inputs)) / np.sqrt(inputs), bits)
