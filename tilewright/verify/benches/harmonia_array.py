"""Bench of the array: operands loaded once, then tiles of every mode and length."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.harmonia import array
from tilewright.golden.pack import Columns
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import HarmoniaArrayParams, Mode
from tilewright.verify.anda_groups import scales

MODULE = "tilewright.verify.harmonia_array_tests"


def stimulus(params: HarmoniaArrayParams, rng: Generator, cases: int) -> dict[str, Columns]:
    """About ``cases`` sums in tiles of 2 to 40 sums, mostly short."""
    used = min(params.words, 64)
    count = used * params.columns
    loads = {
        "column": np.repeat(np.arange(params.columns), used),
        "address": np.tile(rng.permutation(params.words)[:used], params.columns),
        "b_signs": rng.integers(0, 2, (count, params.group)),
        "b": rng.integers(0, 16, (count, params.group)),
        "b_exponent": rng.integers(8, 22, count),
        "scale": scales(rng, count),
    }
    order = rng.permutation(count)
    tiles: list[Columns] = []
    while sum(len(t["mode"]) for t in tiles) < cases or len(tiles) < 6:
        tiles.append(_tile(params, rng, loads["address"][:used]))
    return {
        "load": {name: values[order] for name, values in loads.items()},
        "i": {name: np.concatenate([t[name] for t in tiles]) for name in tiles[0]},
    }


def expected(params: HarmoniaArrayParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    values = array.results(params, columns["load"], columns["i"])
    place = np.arange(len(values)) % params.columns
    return {"o": {"values": values, "last": (place == params.columns - 1).astype(int)}}


def cycles(params: HarmoniaArrayParams, columns: dict[str, Columns]) -> NDArray[np.int64]:
    return array.cycles(params, columns["i"])


def _tile(params: HarmoniaArrayParams, rng: Generator, addresses: NDArray) -> Columns:
    mode = rng.integers(0, len(Mode))
    sums = int(rng.choice([2, 4, 6, 40], p=[0.5, 0.3, 0.15, 0.05]))
    lanes = params.rows * params.group
    place = np.arange(sums)
    exponents = rng.integers(10, 20, (sums, params.rows))
    return {
        "mode": np.full(sums, mode),
        "first": (place == 0).astype(int),
        "last": (place == sums - 1).astype(int),
        "address": rng.choice(addresses, sums),
        "a_signs": rng.integers(0, 2, (sums, lanes)),
        "a": rng.integers(0, 256, (sums, lanes)) * (rng.random((sums, 1)) < 0.9),
        "a_exponents": np.clip(exponents, 1, (1 << FP16.exponent_bits) - 2),
    }
