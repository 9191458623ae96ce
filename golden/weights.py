"""Weights of an FP-INT GEMM: two's complement integers with one fp16 scale per group of inputs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.bfp import Blocks
from tilewright.golden.bits import decode, decode_int, encode, encode_int, patterns
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16, IntFormat

WEIGHT_GROUP = 128  # weights that share a scale


@dataclass(frozen=True, eq=False)
class Weights:
    """A matrix (outputs, inputs), as a linear layer stores it; groups run along the inputs."""

    fmt: IntFormat
    values: NDArray[np.int8]  # (outputs, inputs)
    scales: NDArray[np.uint16]  # (outputs, groups): fp16 patterns
    group: int = WEIGHT_GROUP

    def __post_init__(self) -> None:
        outputs, inputs = self.values.shape
        want = (outputs, -(-inputs // self.group))
        require(self.scales.shape == want, f"scales are {self.scales.shape}, not {want}")
        low, high = self.fmt.minimum, self.fmt.maximum
        if self.values.size:
            for extreme in (int(self.values.min()), int(self.values.max())):
                require(low <= extreme <= high, f"weight {extreme} is not an {self.fmt}")
        patterns(FP16, self.scales)

    @property
    def outputs(self) -> int:
        return self.values.shape[0]

    @property
    def inputs(self) -> int:
        return self.values.shape[1]

    def grouped(
        self, group: int, outputs: int | None = None
    ) -> tuple[NDArray[np.int8], NDArray[np.uint16]]:
        """Values (outputs, groups, group) and a scale for each group, zero-padded."""
        require(
            self.group % group == 0,
            f"a weight group of {self.group} is no multiple of the activations' {group}",
        )
        rows, groups = outputs or self.outputs, -(-self.inputs // group)
        values = np.zeros((rows, groups * group), np.int8)
        values[: self.outputs, : self.inputs] = self.values
        scales = np.zeros((rows, groups), np.uint16)
        scales[: self.outputs] = np.repeat(self.scales, self.group // group, axis=1)[:, :groups]
        return values.reshape(rows, groups, group), scales


def require_match(blocks: Blocks, weights: Weights, group: int, fmt: IntFormat) -> None:
    """Refuse activations (rows, groups, group) and weights that cannot be multiplied."""
    have = blocks.mantissa
    require(have.ndim == 3, f"activations are a matrix, not {have.ndim - 1}D")
    require(have.shape[2] == group, f"activations have groups of {have.shape[2]}, not {group}")
    require(weights.fmt == fmt, f"weights are {weights.fmt}, not {fmt}")
    require(
        blocks.length == weights.inputs,
        f"{blocks.length} activations but {weights.inputs} weights of an output",
    )


def quantise(weights: ArrayLike, bits: int = 4, group: int = WEIGHT_GROUP) -> Weights:
    """Round-to-nearest, symmetric: a group's largest magnitude becomes the largest integer.

    The scale is rounded to fp16 first, then every weight to the nearest multiple of it, ties to
    even, clipped to the format. A group of zeros has the scale 1.
    """
    matrix = np.asarray(weights, np.float64)
    require(matrix.ndim == 2, f"weights are a matrix, not of shape {matrix.shape}")
    fmt = IntFormat(bits=bits)
    outputs, inputs = matrix.shape
    groups = -(-inputs // group)
    padded = np.zeros((outputs, groups * group))
    padded[:, :inputs] = matrix
    grouped = padded.reshape(outputs, groups, group)
    largest = np.abs(grouped).max(axis=2)
    scales = encode(FP16, np.where(largest == 0, 1.0, largest / fmt.maximum))
    steps = decode(FP16, scales)
    require(bool((steps > 0).all()), "a group of weights is too small for an fp16 scale")
    require(bool(np.isfinite(steps).all()), "a group of weights is too large for an fp16 scale")
    codes = encode_int(fmt, grouped / steps[..., np.newaxis])
    values = decode_int(fmt, codes).astype(np.int8).reshape(outputs, -1)[:, :inputs]
    return Weights(fmt, np.ascontiguousarray(values), scales, group)


def dequantise(weights: Weights) -> NDArray[np.float64]:
    scales = np.repeat(decode(FP16, weights.scales), weights.group, axis=1)
    return weights.values * scales[:, : weights.inputs]
