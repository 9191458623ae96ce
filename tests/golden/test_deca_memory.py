"""The memory below a DECA: what the L2 has, what is on its way, bandwidth, prefetchers."""

from fractions import Fraction

import pytest

from tilewright.golden.deca.memory import L2Memory, MemoryParams


def test_a_line_that_misses_comes_after_both_latencies_and_then_hits():
    memory = L2Memory(MemoryParams(l2_latency=14, latency=100))
    assert memory.request(5, 7) == 5 + 100 + 14
    assert memory.request(200, 7) == 214
    assert (memory.read, memory.missed) == (2, 1)


def test_a_request_for_a_line_on_its_way_merges_with_it():
    memory = L2Memory(MemoryParams(l2_latency=14, latency=100))
    memory.prefetch(0, 7)
    assert memory.request(60, 7) == 114
    assert (memory.missed, memory.prefetched) == (0, 1)
    memory.prefetch(61, 7)
    assert memory.prefetched == 1


@pytest.mark.parametrize("share", [Fraction(260, 140), Fraction(850, 140), Fraction(64)])
def test_lines_follow_each_other_at_the_share_of_the_bandwidth(share):
    memory = L2Memory(MemoryParams(l2_latency=1, latency=10, bytes_per_cycle=share))
    answers = [memory.request(0, line) for line in range(1000)]
    expected = [-(-line * 64 * share.denominator // share.numerator) + 11 for line in range(1000)]
    assert answers == expected


def test_one_answer_a_cycle_the_first_request_first():
    memory = L2Memory(MemoryParams(l2_latency=3, latency=10))
    first, second = memory.request(0, 1), memory.request(0, 2)
    assert (first, second) == (13, 14)
    assert memory.request(10, 1) == 15  # 13 and 14 are taken


def test_prefetches_beyond_the_lines_on_their_way_are_dropped():
    memory = L2Memory(MemoryParams(latency=50, prefetch_lines=4))
    for line in range(6):
        memory.prefetch(0, line)
    assert (memory.prefetched, memory.dropped) == (4, 2)
    memory.prefetch(50, 9)
    assert memory.prefetched == 5


def test_the_prefetcher_of_the_l2_trains_in_every_page_and_stays_in_it():
    params = MemoryParams(latency=1, l2_prefetch=True, training_lines=8, ahead_lines=4)
    memory = L2Memory(params)
    for line in range(128):
        memory.request(1000 * line, line)
    assert memory.missed == 2 * 9  # eight lines of a page, and the one that ends the training
    memory.request(10**6, 64 * 5 + 63)
    assert 64 * 6 not in memory._here


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"l2_latency": 0}, "l2_latency must be 1..65536, not 0"),
        ({"latency": -1}, "latency must be 0..65536, not -1"),
        ({"bytes_per_cycle": Fraction(0)}, "bytes_per_cycle must be above 0, not 0"),
    ],
)
def test_refusals(change, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        MemoryParams(**change)
