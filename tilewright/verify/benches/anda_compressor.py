"""Bench of the bit-plane compressor: every M, corner groups, infinities and NaNs in all lanes."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden import bfp, planes
from tilewright.golden.pack import Columns
from tilewright.golden.params.anda import AndaCompressorParams
from tilewright.golden.params.formats import FP16, BlockFormat
from tilewright.verify.anda_groups import activations, mantissas

# The tests of every stream unit, under a name of their own: the paper's size is no quick run.
MODULE = "tilewright.verify.anda_compressor_tests"


def stimulus(params: AndaCompressorParams, rng: Generator, cases: int) -> dict[str, Columns]:
    lanes = [
        rng.permutation(activations(rng, cases, params.group, finite=k % 2 == 0))
        for k in range(params.lanes)
    ]
    values = np.stack(lanes, axis=1).reshape(cases, -1)
    return {"i": {"mantissa": mantissas(rng, cases), "values": values}}


def expected(params: AndaCompressorParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    x = columns["i"]
    values = x["values"].reshape(-1, params.lanes, params.group)
    return {"o": plane_beats(params.group, x["mantissa"], values)}


def plane_beats(group: int, mantissa: NDArray, values: NDArray) -> Columns:
    """Output beats for sets of groups (sets, lanes, group), each with its own M."""
    sets = [
        _set_beats(BlockFormat(group=group, mantissa_bits=int(bits)), words)
        for bits, words in zip(mantissa, values, strict=True)
    ]
    return {name: np.concatenate([s[name] for s in sets]) for name in sets[0]}


def _set_beats(fmt: BlockFormat, values: NDArray) -> Columns:
    blocks = bfp.encode(fmt, values, saturate=True)
    beats = 1 + fmt.mantissa_bits
    number = np.arange(beats)
    special = bool(((values & 0x7FFF) > FP16.max_finite_bits).any())
    return {
        "first": (number == 0).astype(np.uint8),
        "last": (number == beats - 1).astype(np.uint8),
        "words": planes.pack(fmt, blocks)[:, 0].T,
        "exponents": np.repeat(blocks.exponent.T, beats, axis=0),
        "saturated": np.full(beats, special, np.uint8),
    }
