"""Bench of the converter: both ways and both lengths in any order, corner groups first."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.harmonia import converter
from tilewright.golden.pack import Columns
from tilewright.golden.params.harmonia import HarmoniaConverterParams
from tilewright.verify.anda_groups import activations

MODULE = "tilewright.verify.timed_tests"


def stimulus(params: HarmoniaConverterParams, rng: Generator, cases: int) -> dict[str, Columns]:
    """About ``cases`` beats of whole blocks."""
    parts: list[Columns] = []
    beats = 0
    while beats < cases or len(parts) < 8:
        spatial, short = (int(x) for x in np.unravel_index(len(parts) % 4, (2, 2)))
        if len(parts) >= 4:
            spatial, short = rng.integers(0, 2, 2)
        parts.append(_block(params, rng, bool(spatial), bool(short)))
        beats += len(parts[-1]["spatial"])
    return {"i": {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}}


def expected(params: HarmoniaConverterParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    return {"o": converter.convert(params, columns["i"])}


def cycles(params: HarmoniaConverterParams, columns: dict[str, Columns]) -> NDArray[np.int64]:
    return converter.cycles(params, columns["i"])


def _block(params: HarmoniaConverterParams, rng: Generator, spatial: bool, short: bool) -> Columns:
    beats = params.block_beats(spatial)
    finite = bool(rng.random() < 0.7)
    # Corner groups come first: drawn from many, so that few are corners.
    groups = activations(rng, 64, params.group, finite=finite)
    groups = groups[rng.choice(len(groups), params.columns if spatial else params.rows)]
    if spatial:
        grid = groups.reshape(params.columns, params.loops, params.rows)
        values = grid.swapaxes(0, 1).reshape(beats, params.rows)
    else:
        values = groups.T
    # Only the first beat speaks of its block; the others may say anything.
    said = rng.integers(0, 2, (2, beats))
    said[:, 0] = spatial, short
    return {"spatial": said[0], "short": said[1], "values": values}
