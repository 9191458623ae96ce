"""Bench of the MXU: tiles of one to five groups, every M, corner groups and scales."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden import planes
from tilewright.golden.anda.cycles import mxu_schedule
from tilewright.golden.bfp import Blocks
from tilewright.golden.pack import Columns
from tilewright.golden.params.anda import AndaMxuParams
from tilewright.golden.params.formats import BlockFormat
from tilewright.verify.anda_groups import scales, weights
from tilewright.verify.benches.anda_apu import dot_products, groups_of, plane_beats

MODULE = "tilewright.verify.timed_tests"


def stimulus(params: AndaMxuParams, rng: Generator, cases: int) -> dict[str, Columns]:
    """``cases`` tiles."""
    numerics = params.numerics
    beats = plane_beats(numerics, rng, cases, params.rows)
    groups = int(beats.pop("groups"))
    values = weights(rng, numerics, groups * params.columns)
    words = _weight_words(params, values.reshape(groups, params.columns, params.group))
    # Scales count on the first beat of a group; the others bring anything.
    scale = rng.integers(0, 1 << 16, (groups, params.weight_beats, params.columns))
    scale[:, 0] = scales(rng, groups * params.columns).reshape(groups, params.columns)
    return {
        "i0": beats,
        "i1": {
            "planes": words.reshape(groups * params.weight_beats, -1),
            "scales": scale.reshape(groups * params.weight_beats, params.columns),
        },
    }


def expected(params: AndaMxuParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    w = columns["i1"]
    values = _weight_values(params, w["planes"])
    scale = w["scales"].reshape(-1, params.weight_beats, params.columns)[:, 0]
    tiles = dot_products(params.numerics, columns["i0"], values, scale)
    row = np.tile(np.arange(params.rows), len(tiles))
    return {
        "o": {
            "row": row,
            "values": tiles.reshape(-1, params.columns),
            "last": (row == params.rows - 1).astype(np.uint8),
        }
    }


def cycles(params: AndaMxuParams, columns: dict[str, Columns]) -> NDArray[np.int64]:
    """When each row is given, counted from the first plane, if nobody ever waits."""
    groups = [(g.mantissa, g.last) for g in groups_of(columns["i0"])]
    return mxu_schedule(params, *zip(*groups, strict=True))


def _weight_words(params: AndaMxuParams, values: NDArray) -> NDArray:
    """Plane words (groups, weight_bits, columns), the sign plane first."""
    codes = (values & ((1 << params.weight_bits) - 1)).astype(np.uint8)
    fmt = BlockFormat(group=params.group, mantissa_bits=params.weight_bits)
    unsigned = Blocks(np.zeros(codes.shape, bool), codes, np.empty(0, np.uint8), params.group)
    return planes.pack(fmt, unsigned)[..., 1:].transpose(0, 2, 1)


def _weight_values(params: AndaMxuParams, words: NDArray) -> NDArray[np.int64]:
    """Inverse of :func:`_weight_words`, of the beats as they come: (groups, columns, group)."""
    by_plane = words.reshape(-1, params.weight_bits, params.columns).transpose(0, 2, 1)
    signs = np.zeros((*by_plane.shape[:2], 1), by_plane.dtype)
    fmt = BlockFormat(group=params.group, mantissa_bits=params.weight_bits)
    whole = np.concatenate([signs, by_plane], axis=2)
    codes = planes.unpack(fmt, whole, np.empty(0, np.uint8), params.group).mantissa
    values = codes.astype(np.int64)
    return values - ((values >> (params.weight_bits - 1)) << params.weight_bits)
