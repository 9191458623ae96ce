"""tilewright.golden.parallel: pieces cover everything once, in any number of threads."""

import threading

import numpy as np
import pytest

from tilewright.golden import parallel


@pytest.mark.parametrize("cores", [1, 2, 5, None])
@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 95])
def test_pieces_cover_the_range_once(monkeypatch, cores, length):
    monkeypatch.setattr(parallel.os, "cpu_count", lambda: cores)
    hits, lock = np.zeros(length, int), threading.Lock()

    def work(piece):
        with lock:
            hits[piece] += 1
        assert piece.stop - piece.start <= 10

    parallel.for_each_piece(work, length, 10)
    assert (hits == 1).all()


@pytest.mark.parametrize("cores", [1, 4])
def test_the_earliest_failure_is_raised(monkeypatch, cores):
    monkeypatch.setattr(parallel.os, "cpu_count", lambda: cores)

    def work(piece):
        if piece.start >= 20:
            raise ValueError(f"piece at {piece.start}")

    with pytest.raises(ValueError, match=r"^piece at 20$"):
        parallel.for_each_piece(work, 100, 10)


def test_elementwise_broadcasts_and_keeps_order(monkeypatch):
    monkeypatch.setattr(parallel, "CHUNK", 7)
    a, b = np.arange(30).reshape(5, 1, 6), np.arange(4).reshape(4, 1)
    assert np.array_equal(parallel.elementwise(np.subtract, np.int64, a, b), a - b)
