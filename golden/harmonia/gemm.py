"""GEMM of block floating point with integer weights or with block floating point.

Per group, in order: the exact integer sum; to the partial format by the shared exponents; in
M8W4 times the weight scale into fp32; added to an fp32 sum that starts at +0. The sum leaves as
fp16. Every step rounds to nearest even and keeps subnormals.

The exact sums are left to a float32 matrix product (they have at most 22 bits) and the rounding to
numpy's casts; :mod:`tilewright.golden.harmonia.pe` takes every step with integer arithmetic.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.arith import convert
from tilewright.golden.bfp import Blocks
from tilewright.golden.bits import round_pack
from tilewright.golden.harmonia.mixed import MixedBlocks
from tilewright.golden.parallel import for_each_piece
from tilewright.golden.params.arith import IEEE_RULES
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16, FP32
from tilewright.golden.params.harmonia import ACTIVATION_BITS, HarmoniaNumerics
from tilewright.golden.weights import Weights, require_match

_PIECE = 1 << 17  # results of a piece: its sums and temporaries stay in cache


def linear(numerics: HarmoniaNumerics, blocks: Blocks, weights: Weights) -> NDArray[np.uint16]:
    """M8W4: fp16 patterns (rows, outputs) of activations (rows, inputs) and a layer's weights."""
    factors, scales = _grouped_weights(numerics, blocks, weights)
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        scale_values = scales.view(np.float16).astype(np.float32)

    def group_result(k: int, sums: NDArray) -> NDArray:
        return _as_partial(numerics, sums) * scale_values[:, k]

    values = _scaled(blocks.sign, blocks.mantissa, blocks.exponent, ACTIVATION_BITS)
    return _accumulated(values, factors.astype(np.float32), group_result)


def gemm(numerics: HarmoniaNumerics, a: Blocks, b: MixedBlocks) -> NDArray[np.uint16]:
    """M8M4 and M8M8: fp16 patterns (rows of a, rows of b); ``b``'s lengths choose the mode."""
    _check_operands(numerics, a, b)
    values = _scaled(a.sign, a.mantissa, a.exponent, ACTIVATION_BITS)
    factors = _scaled(b.sign, b.mantissa, b.exponent, b.bits)
    return _accumulated(values, factors, lambda k, sums: _as_partial(numerics, sums))


def partial(numerics: HarmoniaNumerics, sums: NDArray, step: NDArray) -> NDArray:
    """Exact group sums in units of 2^step as patterns of the partial format."""
    width = numerics.group_sum_bits
    return round_pack(
        numerics.partial,
        sums < 0,
        step + width - 1,
        np.abs(sums),
        False,
        IEEE_RULES,
        significand_bits=width,
    )


def _accumulated(
    values: NDArray[np.float32],
    factors: NDArray[np.float32],
    group_result: Callable[[int, NDArray], NDArray],
) -> NDArray[np.uint16]:
    """fp16 patterns of the sums over groups of values (rows, groups, group) times factors."""
    results = np.empty((len(values), len(factors)), np.uint16)
    by_group = np.ascontiguousarray(factors.transpose(1, 2, 0))

    def work(piece: slice) -> None:
        total = np.zeros((len(values[piece]), len(factors)), np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for k in range(values.shape[1]):
                total += group_result(k, values[piece, k] @ by_group[k])
        results[piece] = convert(FP32, FP16, total.view(np.uint32))

    for_each_piece(work, len(values), max(1, _PIECE // max(1, len(factors))))
    return results


def _as_partial(numerics: HarmoniaNumerics, sums: NDArray) -> NDArray[np.float32]:
    """Rounded to the partial format, as the fp32 value it is from then on."""
    narrow = np.float16 if numerics.partial == FP16 else np.float32
    return sums.astype(narrow).astype(np.float32, copy=False)


def _scaled(sign: NDArray, mantissa: NDArray, exponent: NDArray, bits: NDArray | int) -> NDArray:
    """The blocks' exact values as float32, by groups: at most 8 significant bits each."""
    step = _step(exponent, bits).astype(np.int32)
    return np.ldexp(_signed(sign, mantissa).astype(np.float32), step[..., np.newaxis])


def _signed(sign: NDArray, mantissa: NDArray) -> NDArray[np.int64]:
    magnitude = mantissa.astype(np.int64)
    return np.where(sign, -magnitude, magnitude)


def _step(exponent: NDArray, bits: NDArray | int) -> NDArray[np.int64]:
    """Power of two of a mantissa's lowest bit."""
    return exponent.astype(np.int64) - FP16.bias - (np.asarray(bits, np.int64) - 1)


def _grouped_weights(
    numerics: HarmoniaNumerics, blocks: Blocks, weights: Weights
) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """Weights (outputs, groups, group), zero beyond the last input; a scale for each group."""
    require_match(blocks, weights, numerics.group, numerics.weight_format)
    groups, group = blocks.mantissa.shape[1:]
    factors = np.zeros((weights.outputs, groups * group), np.int64)
    factors[:, : weights.inputs] = weights.values
    scales = np.repeat(weights.scales, weights.group // group, axis=1)[:, :groups]
    return factors.reshape(-1, groups, group), np.ascontiguousarray(scales)


def _check_operands(numerics: HarmoniaNumerics, a: Blocks, b: MixedBlocks) -> None:
    for name, blocks in (("first", a), ("second", b)):
        group = blocks.mantissa.shape[-1]
        require(group == numerics.group, f"{name} operand's group is {group}, not {numerics.group}")
    require(a.length == b.length, f"{a.length} elements meet {b.length}")
