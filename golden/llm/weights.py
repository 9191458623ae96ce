"""Weight-only quantisation: intN with a searched fp16 scale per group.

The scale of every group minimises the expected error of the product: the squared error of each
weight times the mean square of its activation in the calibration text. Candidates are the scale
that makes the largest magnitude the largest integer, and smaller ones, which clip a few weights for
finer steps of all others.
"""

from collections import defaultdict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.bits import decode, encode
from tilewright.golden.llm.engine import Session
from tilewright.golden.llm.model import Model
from tilewright.golden.llm.sites import Floats, Format, Site
from tilewright.golden.parallel import for_each_piece
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16, IntFormat
from tilewright.golden.weights import WEIGHT_GROUP, Weights

SHRINKING = np.linspace(1.0, 0.5, 26)  # scales that are tried, in shares of the one for `nearest`
CALIBRATION_WINDOW = 512  # tokens
SITE_OF_LINEAR = {
    **{"query": Site.A_QKV, "key": Site.A_QKV, "value": Site.A_QKV},
    **{"output": Site.A_O, "gate": Site.A_U, "up": Site.A_U, "down": Site.A_D},
}
_PIECE = 1 << 14  # weights of a piece, which stays in a core's cache with its temporaries


def searched_weights(model: Model, layer: int, calibration: ArrayLike) -> dict[str, Weights]:
    """The projections of a layer as int4; ``calibration`` are tokens of a text."""
    squares = mean_squares(model, np.asarray(calibration))
    return {
        name: searched(linear.weight, squares[layer, SITE_OF_LINEAR[name]], 4)
        for name, linear in model.layers[layer].linears.items()
    }


def mean_squares(model: Model, tokens: NDArray) -> dict[tuple[int, Site], NDArray[np.float64]]:
    """(layer, linear site) -> mean square of each channel over the tokens."""
    window = min(CALIBRATION_WINDOW, len(tokens), model.config.max_position_embeddings)
    windows = tokens[: len(tokens) // window * window].reshape(-1, window)
    recorder = _Squares()
    for each in windows:
        Session(model, recorder).hidden(each)
    return {key: total / windows.size for key, total in recorder.totals.items()}


class _Squares(Format):
    def __init__(self) -> None:
        self.totals: dict[tuple[int, Site], NDArray[np.float64]] = defaultdict(lambda: np.zeros(1))

    def activation(self, site: Site, layer: int, values: Floats) -> Floats:
        if site.is_linear:
            squares = np.einsum("tc,tc->c", values, values, dtype=np.float64)
            self.totals[layer, site] = self.totals[layer, site] + squares
        return values


def searched(
    matrix: NDArray[np.float32], importance: NDArray, bits: int, group: int = WEIGHT_GROUP
) -> Weights:
    """Weights (outputs, inputs) with the best of the scales; ``importance`` is one per input."""
    fmt = IntFormat(bits=bits)
    outputs, inputs = matrix.shape
    groups = -(-inputs // group)
    padding = (0, groups * group - inputs)
    rows = np.pad(matrix, ((0, 0), padding)).reshape(outputs, groups, group)
    factors = np.pad(importance, padding).astype(np.float32).reshape(groups, group)
    largest = np.abs(rows).max(axis=2)
    start = np.where(largest == 0, 1.0, largest / fmt.maximum)
    candidates = encode(FP16, start * SHRINKING[:, np.newaxis, np.newaxis])
    steps = decode(FP16, candidates).astype(np.float32)[..., np.newaxis]
    require(bool((steps > 0).all()), "a group of weights is too small for an fp16 scale")
    require(bool(np.isfinite(steps).all()), "a group of weights is too large for an fp16 scale")
    values = np.empty(rows.shape, np.int8)
    scales = np.empty((outputs, groups), np.uint16)

    def work(piece: slice) -> None:
        part = rows[piece]
        least = np.full(part.shape[:2], np.inf, np.float32)
        for patterns, step in zip(candidates, steps, strict=True):
            codes = np.rint(part / step[piece])
            np.clip(codes, fmt.minimum, fmt.maximum, out=codes)
            error = codes * step[piece]
            error -= part
            error *= error
            expected = np.einsum("ogi,gi->og", error, factors)
            better = expected < least
            least[better] = expected[better]
            values[piece][better] = codes[better]
            scales[piece][better] = patterns[piece][better]

    for_each_piece(work, outputs, max(1, _PIECE // (groups * group)))
    flat = values.reshape(outputs, -1)[:, :inputs]
    return Weights(fmt, np.ascontiguousarray(flat), scales, group)
