"""External memory accesses of both dataflows, and where they change places."""

import numpy as np
import pytest

from tests.support.claims import claim
from tilewright.golden.harmonia.traffic import TiledShape
from tilewright.golden.params.harmonia_machine import Dataflow

COLUMN, ROW = Dataflow.COLUMN_MAJOR, Dataflow.ROW_MAJOR


@pytest.mark.parametrize("dataflow", Dataflow)
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 40])
def test_accesses_are_those_of_a_walk_over_tiles(dataflow, rows):
    """Read what each resident tile needs, tile by tile."""
    inner, columns, m, k = 6, 21, 8, 16
    read = 0
    if dataflow is COLUMN:
        for first in range(0, columns, k):
            read += inner * min(k, columns - first)  # the tile of B, once
            read += rows * inner  # all of A passes
    else:
        for first in range(0, rows, m):
            read += min(m, rows - first) * inner
            read += inner * columns
    assert TiledShape(rows, inner, columns, m, k).accesses(dataflow) == read


def test_accesses_are_the_papers_formulas_on_whole_tiles():
    rng = np.random.default_rng(1)
    for _ in range(50):
        m, k = (int(x) for x in rng.integers(1, 64, 2))
        tiles, n, columns = (int(x) for x in rng.integers(1, 20, 3))
        values = {"M": tiles * m, "N": n, "K": columns * k, "m": m, "k": k}
        product = TiledShape(tiles * m, n, columns * k, m, k)
        for dataflow, name in ((COLUMN, "column_major"), (ROW, "row_major")):
            formula = claim(f"harmonia.accesses_{name}")
            assert product.accesses(dataflow) == eval(formula, values)


def test_equal_cost_is_row_major():
    assert TiledShape(4096, 8, 4096, 128, 128).better is ROW
