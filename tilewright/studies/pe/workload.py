"""One dot-product workload in the form that each processing element takes.

Streams of dot products, each of ``LENGTH`` elements: activations and 4-bit weights of a language
model (``real``, :mod:`tilewright.studies.pe.tensors`), random bits (``random``), or nothing but
zeros (``zero``). Every element gets the same tensors.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.golden import bfp, planes
from tilewright.golden.anda import dot
from tilewright.golden.arith import convert
from tilewright.golden.bits import decode, encode
from tilewright.golden.harmonia.element import results as harmonia_results
from tilewright.golden.harmonia.element import split_operand
from tilewright.golden.pack import Columns
from tilewright.golden.params.anda import AndaApuParams
from tilewright.golden.params.block import BlockParams, Port
from tilewright.golden.params.formats import BF16, FP16, BlockFormat
from tilewright.golden.params.harmonia import HarmoniaPeParams, Mode
from tilewright.golden.params.pe import (
    AlignedParams,
    DecaLaneParams,
    FignaChunkParams,
    FpFpParams,
    FpIntParams,
    IfpuParams,
    PEParams,
)
from tilewright.golden.pe import (
    align,
    align_chunks,
    aligned_dot,
    chunked_dot,
    deca_lane_dot,
    fp_fp_dot,
    fp_int_dot,
)
from tilewright.golden.weights import WEIGHT_GROUP
from tilewright.studies.pe.tensors import DOTS, LENGTH, STREAMS, samples

KINDS = ("real", "random", "zero")
GROUP = 64
SEED = 7  # of random data

__all__ = ["KINDS", "Workload", "per_bit", "workload"]


@dataclass(frozen=True)
class Workload:
    """Beats for every port and the results they must give."""

    beats: dict[str, list[list[int]]]  # port -> beats -> one integer per bit, a bit per stream
    results: NDArray  # (streams, dots) fp16 patterns
    counted: range  # beats of the first port after the first dot product
    macs: int  # of one stream, while counting


@dataclass(frozen=True)
class Tensors:
    activation: NDArray  # (streams, dots, LENGTH) fp16 patterns
    weight: NDArray  # the same shape, integers
    scale: NDArray  # (streams, dots, LENGTH // GROUP) fp16 patterns


def workload(params: BlockParams, kind: str, variant: str = "") -> Workload:
    """For an element; Anda's has a mantissa length (``m8``), Harmonia's a mode (``m8w4``)."""
    tensors = _tensors(kind)
    if isinstance(params, AndaApuParams):
        columns, results = _anda(params, tensors, int(variant.removeprefix("m")))
    elif isinstance(params, HarmoniaPeParams):
        columns, results = _harmonia(params, tensors, Mode(variant))
    else:
        columns, results = _element(params, tensors)
    beats = {
        port.name: per_bit(port, {n: _in_order(v) for n, v in columns[port.name].items()})
        for port in params.inputs
    }
    total = len(next(iter(beats.values())))
    return Workload(beats, results, range(total // DOTS, total), (DOTS - 1) * LENGTH)


def per_bit(port: Port, columns: Columns) -> list[list[int]]:
    """Columns (beats, streams, ...) as one integer per beat and payload bit, a bit per stream."""
    bits = []
    for field in port.fields:
        values = columns[field.name].astype(np.int64)
        values = values[..., np.newaxis] if field.count is None else values
        taken = (values[..., np.newaxis] >> np.arange(field.bits)) & 1
        bits.append(taken.reshape(*values.shape[:2], -1).astype(np.uint8))
    joined = np.concatenate(bits, axis=2).transpose(0, 2, 1)  # beats, bits, streams
    packed = np.packbits(joined, axis=2, bitorder="little")
    return [[int.from_bytes(word.tobytes(), "little") for word in beat] for beat in packed]


def words_of(beats: Sequence[Sequence[int]], streams: int) -> NDArray:
    """Inverse of :func:`per_bit` for one scalar field: (streams, beats) integers."""
    return np.array(
        [
            [sum(((bit >> s) & 1) << k for k, bit in enumerate(beat)) for beat in beats]
            for s in range(streams)
        ]
    )


def _tensors(kind: str) -> Tensors:
    rng = np.random.default_rng(SEED)
    shape = (STREAMS, DOTS, LENGTH)
    if kind == "zero":
        one = np.full((STREAMS, DOTS, LENGTH // GROUP), 0x3C00)
        return Tensors(np.zeros(shape, np.int64), np.zeros(shape, np.int64), one)
    if kind == "random":
        # Exponents from the middle, so that no sum overflows and stays infinite.
        activation = rng.integers(0, 1 << 16, shape) & 0x83FF | (rng.integers(8, 23, shape) << 10)
        weight = rng.integers(-8, 8, shape)
        scale = rng.integers(0x2000, 0x3000, (STREAMS, DOTS, LENGTH // WEIGHT_GROUP))
    else:
        real = {name: samples()[name].astype(np.int64) for name in samples().dtype.names}
        activation = real["activation"]
        weight, scale = (  # the same for all dot products of a stream
            np.repeat(real[name][:, np.newaxis], DOTS, axis=1) for name in ("weight", "scale")
        )
    return Tensors(activation, weight, np.repeat(scale, WEIGHT_GROUP // GROUP, axis=-1))


def _element(params: PEParams, tensors: Tensors) -> tuple[dict[str, Columns], NDArray]:
    lanes, beats = params.lanes, LENGTH // params.lanes
    shape = (STREAMS, DOTS, beats, lanes)
    per_group = GROUP // lanes
    ends = np.zeros((STREAMS, DOTS, beats), np.int64)
    ends[..., per_group - 1 :: per_group] = 1
    last = np.zeros_like(ends)
    last[..., -1] = 1
    scale = np.repeat(tensors.scale, per_group, axis=-1)
    exponent = np.ones_like(ends)
    activation, weight = tensors.activation, tensors.weight
    if isinstance(params, FpFpParams):
        factors = np.repeat(decode(FP16, tensors.scale), GROUP, axis=-1)
        weight = encode(FP16, weight * factors).astype(np.int64)
        scale, ends = np.zeros_like(scale), last
    elif isinstance(params, DecaLaneParams):
        activation, scale = (convert(FP16, BF16, x).astype(np.int64) for x in (activation, scale))
    elif isinstance(params, FignaChunkParams):
        groups = activation.reshape(STREAMS, DOTS, -1, GROUP)
        activation, exponent = align_chunks(params, groups)
        exponent = exponent.reshape(ends.shape)
    elif isinstance(params, AlignedParams):
        groups = activation.reshape(STREAMS, DOTS, -1, GROUP)
        words, shared = align(params.mantissa_bits, groups)
        activation, exponent = words, np.repeat(shared, per_group, axis=-1)
    if isinstance(params, IfpuParams):
        # Elements of a beat stay for all bits of their weights, the highest first.
        bits = params.weight_bits
        shape = (STREAMS, DOTS, beats, lanes * bits)
        held = activation.reshape(STREAMS, DOTS, -1, 1, lanes * bits)
        activation = np.broadcast_to(held, (*held.shape[:3], bits, lanes * bits))
        whole = weight.reshape(held.shape)
        weight = (whole >> np.arange(bits - 1, -1, -1)[:, np.newaxis]) & 1
    columns = {
        "activation": activation.reshape(shape),
        "weight": weight.reshape(shape),
        "exponent": exponent,
        "scale": scale,
        "group_end": ends,
        "last": last,
    }
    a, w = columns["activation"], columns["weight"]
    if isinstance(params, FpFpParams):
        results = fp_fp_dot(params, a, w)
    elif isinstance(params, FpIntParams):
        results = fp_int_dot(params, a, w, scale, ends)
    elif isinstance(params, DecaLaneParams):
        results = deca_lane_dot(params, a, w, scale)
    elif isinstance(params, FignaChunkParams):
        results = chunked_dot(params, a, w, exponent, scale, ends)
    else:
        results = aligned_dot(params, a, w, exponent, scale, ends)
    return {"i": columns}, results


def _anda(
    params: AndaApuParams, tensors: Tensors, mantissa_bits: int
) -> tuple[dict[str, Columns], NDArray]:
    fmt = BlockFormat(group=GROUP, mantissa_bits=mantissa_bits)
    groups = LENGTH // GROUP
    blocks = bfp.encode(fmt, tensors.activation)
    weights = tensors.weight.reshape(STREAMS, DOTS, groups, GROUP)
    results = dot(params.numerics, mantissa_bits, blocks, weights, tensors.scale)
    words = planes.pack(fmt, blocks)  # (streams, dots, groups, 1 + mantissa)
    if not params.buffered:
        words[..., 1:] ^= words[..., :1]
    beats = (STREAMS, DOTS, groups, 1 + mantissa_bits)
    index = np.broadcast_to(np.arange(groups)[:, np.newaxis], beats)
    plane_beats = {
        "mantissa": np.full(beats, mantissa_bits),
        "plane": words,
        "exponent": np.broadcast_to(blocks.exponent[..., np.newaxis], beats),
        "first_group": index == 0,
        "last_group": index == groups - 1,
    }
    planes_in = {n: v.reshape(STREAMS, DOTS, -1) for n, v in plane_beats.items()}
    return {"i0": planes_in, "i1": {"weights": weights, "scale": tensors.scale}}, results


def _harmonia(
    params: HarmoniaPeParams, tensors: Tensors, mode: Mode
) -> tuple[dict[str, Columns], NDArray]:
    """Groups of 32, in M8M8 each twice; sums go to the sub-elements in order, steps in beats."""
    group = params.group
    grouped = (STREAMS, DOTS, LENGTH // group, group)
    a = bfp.encode(BlockFormat(group=group, mantissa_bits=8), tensors.activation)
    if mode is Mode.M8W4:
        weight = tensors.weight.reshape(grouped)
        b, b_sign, b_exponent = np.abs(weight), weight < 0, np.ones(grouped[:3], np.int64)
    else:
        factors = np.repeat(decode(FP16, tensors.scale), GROUP, axis=-1)
        fmt = BlockFormat(group=group, mantissa_bits=mode.operand_bits)
        other = bfp.encode(fmt, encode(FP16, tensors.weight * factors))
        b, b_sign, b_exponent = other.mantissa, other.sign, other.exponent
    a_mantissa, a_sign, a_exponent = a.mantissa, a.sign, a.exponent
    if mode is Mode.M8M8:
        b = split_operand(b).reshape(STREAMS, DOTS, -1, group)
        repeated = (np.repeat(x, 2, axis=2) for x in (a_mantissa, a_sign, b_sign))
        a_mantissa, a_sign, b_sign = repeated
        a_exponent, b_exponent = (np.repeat(x, 2, axis=2) for x in (a_exponent, b_exponent))
    steps = b.shape[2] // params.sub_elements
    beats = (STREAMS, DOTS, steps * params.fold)

    def lanes(x: NDArray) -> NDArray:
        parts = (STREAMS, DOTS, steps, params.sub_elements, params.fold, params.lanes)
        return np.swapaxes(x.reshape(parts), 3, 4).reshape(*beats, params.pairs)

    def steady(x: NDArray) -> NDArray:
        return np.repeat(x.reshape(STREAMS, DOTS, steps, -1), params.fold, axis=2)

    step = np.broadcast_to(np.arange(beats[2]) // params.fold, beats)
    scale = np.resize(
        np.moveaxis(tensors.scale[..., :: WEIGHT_GROUP // GROUP], 2, 0), (steps, STREAMS, DOTS)
    )
    columns = {
        "mode": np.full(beats, mode.code),
        "first": step == 0,
        "last": step == steps - 1,
        "a_signs": lanes(a_sign),
        "a": lanes(a_mantissa),
        "b_signs": lanes(b_sign),
        "b": lanes(b),
        "a_exponents": steady(a_exponent),
        "b_exponents": steady(b_exponent),
        "scale": steady(np.moveaxis(scale, 0, 2))[..., 0],
    }
    flat = {n: x.reshape(-1, *x.shape[3:]) for n, x in columns.items()}
    return {"i": columns}, harmonia_results(params, flat).reshape(STREAMS, DOTS)


def _in_order(values: NDArray) -> NDArray:
    """(streams, dots, beats, ...) to (beats of all dots, streams, ...)."""
    return np.moveaxis(values.reshape(len(values), -1, *values.shape[3:]), 0, 1)
