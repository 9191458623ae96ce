"""The workload on which processing elements are compared: dot products of three kinds of data.

Streams of dot products, each of ``LENGTH`` elements: activations and 4-bit weights of a language
model (``real``, :mod:`tilewright.studies.pe.tensors`), random bits (``random``), or nothing but
zeros (``zero``). Every PE gets the same tensors; its bench
(:class:`tilewright.verify.dots.ComparedPE`) turns them into its operands.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.params.block import BlockParams, Port
from tilewright.golden.payload import Columns
from tilewright.golden.weights import WEIGHT_GROUP
from tilewright.studies.pe.tensors import DOTS, LENGTH, STREAMS, samples
from tilewright.verify import bench_of
from tilewright.verify.dots import GROUP, ComparedPE, Tensors

__all__ = ["KINDS", "SEED", "Workload", "pe_bench", "per_bit", "words_of", "workload"]

KINDS = ("real", "random", "zero")
SEED = 7  # of random data


@dataclass(frozen=True)
class Workload:
    """Beats for every port and the results they must give."""

    beats: dict[str, list[list[int]]]  # port -> beats -> one integer per bit, a bit per stream
    results: NDArray  # (streams, dots) fp16 patterns
    counted: range  # beats of the first port after the first dot product
    macs: int  # of one stream, while counting


def pe_bench(params: BlockParams) -> ComparedPE[BlockParams]:
    """Return the bench of a PE; a block that computes no dot products is refused."""
    bench = bench_of(params)
    if not isinstance(bench, ComparedPE):
        raise CommandError(
            f"{params.block} is not compared: its bench is no tilewright.verify.dots.ComparedPE"
        )
    return bench


def workload(params: BlockParams, kind: str, variant: str = "") -> Workload:
    """Make the workload of one PE: ``kind`` of data, ``variant`` of what its bench lists."""
    made = pe_bench(params).dot_products(params, _tensors(kind), variant)
    beats = {
        port.name: per_bit(port, {n: _in_order(v) for n, v in made.columns[port.name].items()})
        for port in params.inputs
    }
    total = len(next(iter(beats.values())))
    return Workload(beats, made.results, range(total // DOTS, total), (DOTS - 1) * LENGTH)


def per_bit(port: Port, columns: Columns) -> list[list[int]]:
    """Turn columns (beats, streams, ...) into one integer per beat and bit, a bit per stream."""
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
    """Invert :func:`per_bit` for one scalar field: (streams, beats) integers."""
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
        tensors = ("activation", "weight", "scale")
        real = {name: samples()[name].astype(np.int64) for name in tensors}
        activation = real["activation"]
        weight, scale = (  # the same for all dot products of a stream
            np.repeat(real[name][:, np.newaxis], DOTS, axis=1) for name in ("weight", "scale")
        )
    return Tensors(activation, weight, np.repeat(scale, WEIGHT_GROUP // GROUP, axis=-1))


def _in_order(values: NDArray) -> NDArray:
    """Turn (streams, dots, beats, ...) into (beats of all dots, streams, ...)."""
    return np.moveaxis(values.reshape(len(values), -1, *values.shape[3:]), 0, 1)
