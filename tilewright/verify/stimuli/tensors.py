"""Random tensors of programs: activations, keys and values, weights."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.weights import Weights, quantise


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
