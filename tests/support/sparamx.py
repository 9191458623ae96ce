"""Weights and activations for the tests of the sparse format, golden and compiled."""

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.bits import encode
from tilewright.golden.params.formats import BF16
from tilewright.golden.params.sparamx import ElementType, WeightFormat
from tilewright.golden.sparamx import coded

FORMATS = [WeightFormat(element=e, sparse=s) for e in ElementType for s in (True, False)]
SHAPES = [(1, 1), (1, 70), (19, 1), (16, 64), (17, 65), (40, 200)]


def weights(fmt: WeightFormat, shape: tuple[int, int], sparsity: float, seed: int = 0) -> NDArray:
    """Random weights with exactly round(sparsity * all) zeros."""
    rng = np.random.default_rng(seed)
    if fmt.element is ElementType.INT8:
        values = rng.integers(1, 128, shape) * rng.choice([-1, 1], shape)
        values = values.astype(np.int8)
    else:
        values = encode(BF16, rng.normal(0, 1, shape) * 2.0 ** rng.integers(-3, 4, shape))
        values = values.astype(np.uint16)
    zeros = rng.permutation(values.size)[: round(sparsity * values.size)]
    values.reshape(-1)[zeros] = 0
    return values


def activations(fmt: WeightFormat, batch: int, inputs: int, seed: int = 1) -> NDArray:
    rng = np.random.default_rng(seed)
    if fmt.element is ElementType.INT8:
        return rng.integers(-128, 128, (batch, inputs), np.int8)
    return encode(BF16, rng.normal(0, 1, (batch, inputs))).astype(np.uint16)


def dense_values(weights: coded.CodedWeights) -> NDArray:
    """(outputs, inputs) values that the records of coded weights hold, tile by tile."""
    tiles, scales = coded.elements(weights)
    values = (tiles.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    strips, along = weights.tiles
    matrix = values.reshape(strips, along, 16, 16, 2).transpose(0, 3, 1, 2, 4)
    if scales is not None:
        numbers = coded.SCALES[weights.scale].numbers(scales) * weights.tensor_scale
        groups = numbers.reshape(strips, along, -1, 16).transpose(0, 3, 1, 2)
        matrix = matrix * groups.repeat(16 // groups.shape[-1], axis=-1)[..., np.newaxis]
    return matrix.reshape(strips * 16, -1)[: weights.shape[0], : weights.shape[1]]
