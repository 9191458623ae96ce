"""The reconfigurable element on a stream of beats of any mix of modes."""

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.arith import add, convert, multiply
from tilewright.golden.bits import bits_dtype
from tilewright.golden.block_gemm import lowest_bit, partial
from tilewright.golden.params.formats import FP16, FP32
from tilewright.golden.params.harmonia import ACTIVATION_BITS, OPERAND_BITS, HarmoniaPeParams, Mode
from tilewright.golden.payload import Columns


def results(params: HarmoniaPeParams, beats: Columns) -> NDArray:
    """Patterns of the result format, one for every step marked last."""
    ends = np.flatnonzero(beats["last"][params.fold - 1 :: params.fold])
    if len(ends) == 0:
        return np.zeros(0, bits_dtype(params.result))
    steps = int(ends[-1]) + 1
    beats = {name: values[: steps * params.fold] for name, values in beats.items()}
    last_beat = {name: values[params.fold - 1 :: params.fold] for name, values in beats.items()}
    mode = np.repeat(last_beat["mode"].astype(np.int64), params.sub_elements)
    halves = _half_sums(params, beats, steps).reshape(-1)
    output = np.cumsum(last_beat["first"].astype(np.int64)) - 1
    output = np.repeat(output, params.sub_elements)
    fused = mode == Mode.M8M8.code
    is_low = fused & (np.cumsum(fused) % 2 == 0)  # halves are in pairs, whatever is between them
    high = np.concatenate([[0], halves[:-1]])
    sums = np.where(is_low, (high << OPERAND_BITS) + halves, halves)
    step = _step(params, last_beat, mode)
    scale = np.repeat(last_beat["scale"].astype(np.uint16), params.sub_elements)
    complete = ~fused | is_low
    sums, step, scale, mode, output = (x[complete] for x in (sums, step, scale, mode, output))
    terms = _terms(params, partial(params.numerics, sums, step), scale, mode)
    return convert(FP32, params.result, _accumulate(terms, output))


def _half_sums(params: HarmoniaPeParams, beats: Columns, steps: int) -> NDArray[np.int64]:
    """(steps, sub_elements): exact sums of 8-bit by 4-bit products."""
    shape = (steps, params.fold, params.sub_elements, params.lanes)
    a, b, a_signs, b_signs = (
        beats[name].astype(np.int64).reshape(shape) for name in ("a", "b", "a_signs", "b_signs")
    )
    return np.where(a_signs ^ b_signs, -a * b, a * b).sum(axis=(1, 3))


def _place_within(output: NDArray[np.int64]) -> NDArray[np.int64]:
    starts = np.flatnonzero(np.diff(output, prepend=-1))
    return np.arange(len(output)) - starts[output]


def _step(params: HarmoniaPeParams, steps: Columns, mode: NDArray) -> NDArray[np.int64]:
    a, b = (steps[name].astype(np.int64).reshape(-1) for name in ("a_exponents", "b_exponents"))
    bits = np.where(mode == Mode.M8M8.code, ACTIVATION_BITS, OPERAND_BITS)
    of_a, of_b = lowest_bit(a, ACTIVATION_BITS), lowest_bit(b, bits)
    return of_a + np.where(mode == Mode.M8W4.code, 0, of_b)


def _terms(
    params: HarmoniaPeParams, partials: NDArray, scale: NDArray, mode: NDArray
) -> NDArray[np.uint32]:
    scaled = multiply(params.partial, FP16, FP32, partials, scale)
    plain = convert(params.partial, FP32, partials)
    return np.where(mode == Mode.M8W4.code, scaled, plain)


def _accumulate(terms: NDArray[np.uint32], output: NDArray[np.int64]) -> NDArray[np.uint32]:
    """fp32 sums of each output's terms, from +0, in order."""
    place = _place_within(output)
    table = np.zeros((output[-1] + 1, place.max() + 1), np.uint32)
    table[output, place] = terms
    present = np.zeros(table.shape, bool)
    present[output, place] = True
    total = np.zeros(len(table), np.uint32)
    for k in range(table.shape[1]):  # the order of the roundings is part of the result
        total = np.where(present[:, k], add(FP32, FP32, FP32, total, table[:, k]), total)
    return total


def split_operand(mantissa: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """8-bit mantissas (..., group) as two 4-bit operands (..., 2, group), high half first."""
    return np.stack([mantissa >> OPERAND_BITS, mantissa & ((1 << OPERAND_BITS) - 1)], axis=-2)
