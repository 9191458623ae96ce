"""Integer units beyond their benches: every mask, and the prefix networks."""

import numpy as np
import pytest

from tests.support.drive import drive
from tilewright.golden.integer import expand, popcount, prefix_sum
from tilewright.golden.params.arith import (
    ExpandParams,
    PopcountParams,
    PrefixStyle,
    PrefixSumParams,
)
from tilewright.golden.payload import pack
from tilewright.hw.arith.prefix_sum import prefix_network

WIDTH = 8
MASKS = (np.arange(1 << WIDTH)[:, None] >> np.arange(WIDTH)) & 1
WORDS = np.tile(np.arange(1, WIDTH + 1), (len(MASKS), 1))


@pytest.mark.parametrize(
    ("params", "fields", "results"),
    [
        *(
            (
                PrefixSumParams(width=WIDTH, style=style),
                {"mask": MASKS},
                dict(zip(("index", "total"), prefix_sum(MASKS), strict=True)),
            )
            for style in PrefixStyle
        ),
        (PopcountParams(width=WIDTH), {"mask": MASKS}, {"count": popcount(MASKS)}),
        (
            ExpandParams(lanes=WIDTH, width=4),
            {"x": WORDS, "mask": MASKS},
            {"y": expand(WORDS, MASKS)},
        ),
    ],
)
def test_every_mask(params, fields, results):
    (i,), (o,) = params.inputs, params.outputs
    _, monitor = drive(params, {"i": pack(i, fields)})
    assert monitor.words == pack(o, results)


@pytest.mark.parametrize("width", [2, 3, 8, 13, 32])
@pytest.mark.parametrize("style", PrefixStyle)
def test_prefix_network_sums_everything_below(style, width):
    covered = [{k} for k in range(width)]
    for level in prefix_network(style, width):
        covered = [
            covered[k] | covered[level[k]] if k in level else covered[k] for k in range(width)
        ]
    assert covered == [set(range(k + 1)) for k in range(width)]


def test_prefix_networks_are_as_deep_as_their_docstring_says():
    depth = {style: len(prefix_network(style, 32)) for style in PrefixStyle}
    assert depth == {PrefixStyle.RIPPLE: 31, PrefixStyle.SKLANSKY: 5, PrefixStyle.KOGGE_STONE: 5}
