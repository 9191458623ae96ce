"""Bench of the offset generator: windows of several lengths, any values, ties, subnormals."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.harmonia import offset_stream
from tilewright.golden.pack import Columns
from tilewright.golden.params.harmonia import HarmoniaOffsetParams
from tilewright.verify.anda_groups import activations

MODULE = "tilewright.verify.timed_tests"


def stimulus(params: HarmoniaOffsetParams, rng: Generator, cases: int) -> dict[str, Columns]:
    """About ``cases`` beats: a window that learns, beats that apply it, and again."""
    parts: list[Columns] = [_applied(params, rng, 3, 0)]  # before any window: unchanged
    while sum(len(part["learn"]) for part in parts) < cases or len(parts) < 5:
        channels = int(rng.integers(2, params.channels + 1))
        kind = len(parts) // 2 % 3
        parts.append(_window(params, rng, channels, int(rng.integers(1, 4)), kind))
        parts.append(_applied(params, rng, 2 * channels, kind))
    return {"i": {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}}


def expected(params: HarmoniaOffsetParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    return {"o": {"values": offset_stream.results(params, columns["i"])}}


def cycles(params: HarmoniaOffsetParams, columns: dict[str, Columns]) -> NDArray[np.int64]:
    return offset_stream.cycles(params, columns["i"])


def _window(
    params: HarmoniaOffsetParams, rng: Generator, channels: int, blocks: int, kind: int
) -> Columns:
    beats = channels * blocks
    channel = np.tile(np.arange(channels), blocks)
    last = np.zeros(beats, int)
    last[-1] = 1
    return {
        "learn": np.ones(beats, int),
        "first": (np.arange(beats) < channels).astype(int),
        "last": last,
        "channel": channel,
        "values": _values(rng, beats, params.rows, kind),
    }


def _applied(params: HarmoniaOffsetParams, rng: Generator, beats: int, kind: int) -> Columns:
    return {
        "learn": np.zeros(beats, int),
        "first": rng.integers(0, 2, beats),  # means nothing here
        "last": rng.integers(0, 2, beats),
        "channel": rng.integers(0, params.channels, beats),
        "values": _values(rng, beats, params.rows, kind),
    }


def _values(rng: Generator, beats: int, rows: int, kind: int) -> NDArray[np.uint16]:
    """Anything; few magnitudes, so that ties are common; or all below 2^-13."""
    if kind == 0:
        return rng.permutation(activations(rng, beats, rows, finite=False))
    if kind == 1:
        return rng.choice([0x3C00, 0xBC00, 0x4200, 0xC200, 0x0401], (beats, rows))
    return rng.integers(0, 0x800, (beats, rows)) | rng.integers(0, 2, (beats, rows)) << 15
