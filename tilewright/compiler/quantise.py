"""Weights of a model as arrays take them: 4-bit integers with an fp16 scale for each group.

A weight of 8 bits is two of 4, ``16 * high + low``; its codes are -119..119, so that both are
within -8..7. The halves of an output's weights follow each other along its inputs, each with scales
of its own.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.bits import decode, encode
from tilewright.golden.formats import NumberFormat
from tilewright.golden.llm.model import Layer, LazyLayers, Model
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16, IntFormat
from tilewright.golden.weights import Weights, dequantise, quantise

LARGEST_CODE = 7 * 16 + 7  # of a weight of 8 bits
_PIECE = 1 << 20  # weights that are quantised at a time
_NOTHING = np.empty((0, 0), np.float32)
_INT4, _INT8 = IntFormat(bits=4), IntFormat(bits=8)


def codes(matrix: NDArray[np.float32], group: int) -> Weights:
    """Weights of 8 bits, each to the nearest multiple of its group's scale."""
    outputs, inputs = matrix.shape
    groups = -(-inputs // group)
    padded = np.zeros((outputs, groups * group), np.float32)
    padded[:, :inputs] = matrix
    grouped = padded.reshape(outputs, groups, group)
    largest = np.abs(grouped).max(axis=2)
    scales = encode(FP16, np.where(largest == 0, 1.0, largest / LARGEST_CODE))
    steps = decode(FP16, scales).astype(np.float32)
    require(bool((steps > 0).all()), "a group of weights is too small for an fp16 scale")
    require(bool((16 * steps < 65504).all()), "a group of weights is too large for an fp16 scale")
    grouped /= steps[..., np.newaxis]
    np.rint(grouped, out=grouped)
    np.clip(grouped, -LARGEST_CODE, LARGEST_CODE, out=grouped)
    values = grouped.reshape(outputs, -1)[:, :inputs].astype(np.int8)
    return Weights(_INT8, values, scales, group)


def own_codes(matrix: NDArray[np.float32], form: NumberFormat) -> Weights:
    """Weights in a format of the user's own, if it is integers times fp16 scales."""
    inputs = matrix.shape[1]
    padded = np.pad(matrix.astype(np.float64), [(0, 0), (0, -inputs % form.group)])
    patterns, scales = form.encode(padded)
    decoded = form.decode(patterns, scales)
    if form.scale_bits == 16:
        steps = np.repeat(decode(FP16, scales), form.group, axis=-1)
        values = np.rint(np.divide(decoded, steps, out=np.zeros_like(decoded), where=steps > 0))
        most = LARGEST_CODE if form.bits == 8 else 1 << (form.bits - 1)
        if np.array_equal(values * steps, decoded) and np.abs(values).max(initial=0) <= most:
            scales = np.where(scales == 0, encode(FP16, 1.0), scales).astype(np.uint16)
            integers = values[:, :inputs].astype(np.int8)
            return Weights(_INT8 if form.bits == 8 else _INT4, integers, scales, form.group)
    raise ValueError(
        f"{form.name} cannot be compiled: arrays multiply integers of 4 bits, or of 8 up to"
        f" {LARGEST_CODE}, times one fp16 scale for each group, whose pattern encode returns"
    )


def quantised_model(
    model: Model,
    *,
    weight_bits: int,
    head_bits: int,
    group: int,
    form: NumberFormat | None = None,
    lazy: bool = False,
) -> tuple[Model, Weights]:
    """The model with the projections and head of the image, and the head's integers.

    Its embedding and norms stay as they are. ``form`` is the projections' format, if it is one of
    the user's own. ``lazy``: layers are quantised when they are asked
    for, every time, and have integers alone; the head stays as it is.
    """
    number, whole = len(model.layers), model.layers

    def quantised_layer(k: int) -> Layer:
        return _layer(whole[k], weight_bits, group, form, dequantised=not lazy)

    head = _by_rows(model.head, head_bits, group)
    if lazy:
        return replace(model, layers=LazyLayers(number, quantised_layer)), head
    layers = tuple(quantised_layer(k) for k in range(number))
    return replace(model, layers=layers, head=dequantise(head).astype(np.float32)), head


def _layer(
    layer: Layer, bits: int, group: int, form: NumberFormat | None, *, dequantised: bool
) -> Layer:
    parts: dict[str, Any] = {}
    for name, linear in layer.linears.items():
        weights = _by_rows(linear.weight, bits, group, form)
        values = dequantise(weights).astype(np.float32) if dequantised else _NOTHING
        parts[name] = replace(linear, weight=values, integers=weights)
    return replace(layer, **parts)


def _by_rows(
    matrix: NDArray[np.float32], bits: int, group: int, form: NumberFormat | None = None
) -> Weights:
    """Integers of a matrix, some of its outputs at a time: the temporaries are several times it."""
    outputs, inputs = matrix.shape
    values = np.empty((outputs, inputs), np.int8)
    scales = np.empty((outputs, -(-inputs // group)), np.uint16)
    step = max(1, _PIECE // inputs)
    for first in range(0, outputs, step):
        rows = slice(first, first + step)
        part = matrix[rows]
        if form is not None:
            piece = own_codes(part, form)
        else:
            piece = codes(part, group) if bits == 8 else quantise(part, 4, group)
        values[rows], scales[rows] = piece.values, piece.scales
    return Weights(_INT8 if bits == 8 else _INT4, values, scales, group)


def halved(weights: Weights, group: int) -> Weights:
    """Weights as 4-bit integers with a scale for every ``group`` of them."""
    repeated = np.repeat(weights.scales, weights.group // group, axis=1)
    scales = repeated[:, : -(-weights.inputs // group)]
    if weights.fmt == _INT4:
        return Weights(_INT4, weights.values, scales, group)
    values = weights.values.astype(np.int16)
    high = (values + 8) >> 4
    low = values - 16 * high
    sixteenfold = encode(FP16, 16 * decode(FP16, scales))
    return Weights(
        _INT4,
        np.concatenate([high, low], axis=1).astype(np.int8),
        np.concatenate([sixteenfold, scales], axis=1),
        group,
    )
