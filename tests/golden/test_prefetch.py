"""The golden prefetcher against its definition, worked out by hand."""

from typing import ClassVar

import numpy as np

from tilewright.golden.deca.prefetch import predict_prefetches
from tilewright.golden.params.deca import STRUCTURES, DecaParams


class OneLoader(DecaParams):
    """So that the degree counts every tile."""

    loaders: ClassVar[int] = 1


PARAMS = OneLoader()


def prefetches(degree, params=PARAMS, loader=(), **tiles):
    """``tiles``: base and length of each structure's tiles, one pair per command."""
    count = len(next(iter(tiles.values())))
    commands = {"loader": np.array(loader)}
    for name in STRUCTURES:
        pairs = np.array(tiles.get(name, [(0, 0)] * count), dtype=np.uint64)
        commands[f"{name}_base"], commands[f"{name}_length"] = pairs.T
    return [p.tolist() for p in predict_prefetches(params, commands, degree)]


def test_two_tiles_make_a_run():
    # Tiles of 272 bytes: lines 0-4, 4-8, 8-12, 12-16, 17-21.
    tiles = [(272 * k, 272) for k in range(3)]
    assert prefetches(1, data=tiles) == [[], [9, 10, 11, 12], [13, 14, 15, 16]]
    assert prefetches(2, data=tiles) == [[], [*range(9, 17)], [*range(17, 22)]]
    assert prefetches(0, data=tiles) == [[], [], []]


def test_the_degree_counts_the_tiles_of_each_loader():
    tiles = [(272 * k, 272) for k in range(3)]
    for degree in range(4):
        assert prefetches(degree, DecaParams(), data=tiles) == prefetches(2 * degree, data=tiles)


def test_prefetchers_of_two_loaders_count_their_own_tiles():
    """Tiles of two lines each: neither asks for what the other has asked for."""
    each = DecaParams(prefetchers=2)
    tiles = [(128 * k, 128) for k in range(5)]
    # The first one expects tile 4 in lines 8 and 9; tile 3 between them is for both.
    taking_turns = prefetches(1, each, data=tiles, loader=[0, 1, 0, 1, 0])
    assert taking_turns == [[], [], [6, 7, 8, 9], [10, 11], [12, 13]]
    in_pairs = prefetches(1, each, data=tiles, loader=[0, 0, 1, 1, 0])
    assert in_pairs == [[], [4, 5], [], [8, 9], [*range(10, 16)]]
    assert prefetches(2, each, data=tiles, loader=[1] * 5) == prefetches(2, data=tiles)


def test_a_line_that_was_prefetched_or_read_is_not_prefetched():
    # The distance shrinks: the second prediction ends before the first one.
    assert prefetches(3, data=[(0, 64), (640, 64), (704, 64)]) == [[], [*range(11, 41)], []]
    # A tile beyond what was expected: its own lines are read by the loader.
    assert prefetches(1, data=[(0, 64), (64, 64), (640, 128)]) == [[], [2], [*range(12, 21)]]


def test_jumps_and_absent_tiles_start_anew():
    assert prefetches(1, data=[(0, 64), (2048, 64), (4097, 64)]) == [[], [*range(33, 65)], []]
    assert prefetches(1, data=[(64, 64), (0, 64), (64, 64)]) == [[], [], [2]]
    assert prefetches(1, data=[(0, 64), (64, 0), (128, 64), (192, 64)]) == [[], [], [], [4]]


def test_a_line_shared_by_two_structures_is_prefetched_once():
    # Records of 32 bytes of mask and 96 of data: every tile has two lines.
    mask = [(128 * k, 32) for k in range(3)]
    data = [(128 * k + 32, 96) for k in range(3)]
    assert prefetches(1, mask=mask, data=data) == [[], [4, 5], [6, 7]]
    # The masks run into the scales, which were read or prefetched already.
    mask, scale = [(0, 64), (64, 64)], [(128, 64), (192, 64)]
    assert prefetches(2, mask=mask, scale=scale) == [[], [4, 5]]


def test_memory_ends():
    top = 1 << PARAMS.address_bits
    last = top // 64 - 1
    assert prefetches(3, data=[(top - 192, 64), (top - 128, 64)]) == [[], [last]]
    assert prefetches(3, data=[(top - 128, 64), (top - 64, 64)]) == [[], []]
