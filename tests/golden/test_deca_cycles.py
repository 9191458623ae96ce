"""Cycle model: against the paper's closed form, brute force and random tiles."""

from fractions import Fraction
from math import ceil

import numpy as np
import pytest

from tests.support.claims import claim
from tilewright.golden.deca import expected_cycles, tile_cycles
from tilewright.golden.params.deca import CODE_BITS, DecaParams, TileConfig

MACHINES = {"w32l8": "paper", "w8l4": "small", "w64l64": "large"}


@pytest.mark.parametrize(
    ("machine", "percent"), [(m, p) for m in MACHINES for p in claim(f"deca.cycles_per_tile.{m}")]
)
def test_closed_form_gives_the_papers_cycles(machine, percent):
    params = DecaParams.preset(MACHINES[machine])
    config = TileConfig(sparse=percent != "100")
    cycles = expected_cycles(params, config, Fraction(int(percent), 100))
    printed = claim(f"deca.cycles_per_tile.{machine}")[percent]
    assert round(float(cycles), 4) == printed


@pytest.mark.parametrize("bits", claim("deca.cycles_per_tile.dense"))
def test_dense_tiles_take_the_papers_cycles(bits):
    config = TileConfig(code_bits=int(bits))
    got = tile_cycles(DecaParams(), config, np.ones((3, 512), bool))
    assert got.total.tolist() == [claim("deca.cycles_per_tile.dense")[bits]] * 3
    assert expected_cycles(DecaParams(), config, 1) == got.total[0]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("bits", "int8"), [(b, i) for b in CODE_BITS for i in (False, True) if not (i and b == 16)]
)
def test_tiles_one_chunk_at_a_time(machine, bits, int8):
    params = DecaParams.preset(MACHINES[machine])
    config = TileConfig(code_bits=bits, sparse=True, int8=int8)
    rng = np.random.default_rng(bits)
    mask = rng.random((20, config.elements)) < rng.random((20, 1))
    mask[0], mask[1] = True, False
    # 16-bit elements come as fast as one 64-byte line a cycle brings them.
    rate = {16: 32, 8: params.luts, 7: 2 * params.luts}.get(bits, 4 * params.luts)
    got = tile_cycles(params, config, mask)
    for k, tile in enumerate(mask):
        chunks = tile.reshape(-1, params.lanes)
        assert got.vector_operations[k] == len(chunks)
        assert got.total[k] == sum(max(1, ceil(int(c.sum()) / rate)) for c in chunks)
        assert got.bubbles[k] == got.total[k] - got.vector_operations[k]


def test_random_tiles_agree_with_the_closed_form():
    """Within five standard errors of the mean of 20,000 tiles."""
    config, params, density = TileConfig(sparse=True), DecaParams(), 0.3
    mask = np.random.default_rng(9).random((20_000, 512), np.float32) < density
    cycles = tile_cycles(params, config, mask).total
    error = cycles.std() / np.sqrt(len(cycles))
    assert abs(cycles.mean() - expected_cycles(params, config, density)) <= 5 * error


def test_refused_density():
    with pytest.raises(ValueError, match=r"^density must be 0..1, not 1.2$"):
        expected_cycles(DecaParams(), TileConfig(sparse=True), 1.2)
