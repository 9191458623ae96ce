"""Prefix networks; that integer units are right for every input is proved in tests/formal."""

import pytest

from tilewright.golden.params.arith import PrefixStyle
from tilewright.hw.arith.prefix_sum import prefix_network


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
