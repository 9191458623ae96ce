"""Cached by content: made once, whole or not at all, whoever asks at the same time."""

import multiprocessing
import os
import time

import pytest

from tilewright.base import cache
from tilewright.base.cache import (
    get_or_make,
    get_or_make_folder,
    load,
    result_path,
    store,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of the test's own: in the user's, other processes write at the same time."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tilewright" / "built"


def test_results_are_cached_whole_or_not_at_all(folder):
    made = []

    def make():
        made.append(1)
        return {"value": len(made)}

    assert get_or_make(("a", "bc"), make) == get_or_make(("a", "bc"), make) == {"value": 1}
    assert get_or_make(("ab", "c"), make) == {"value": 2}  # not the same content
    store("key", [1])
    assert load("key") == [1] and load("other") is None
    path = result_path("key")
    whole = path.read_bytes()
    for damaged in (b"[1", whole[:-9], whole[:-1] + b"!"):
        path.write_bytes(damaged)
        assert load("key") is None
    assert {p.suffix for p in path.parent.iterdir()} == {".gz", ".lock"}


def make_result_slowly():
    with (cache.cache_folder("results").parent / "starts").open("a") as starts:
        starts.write("start\n")
    time.sleep(0.3)
    return ["made"]


def ask_for_result(_):
    return get_or_make(["shared"], make_result_slowly)


def test_processes_wait_for_the_first_result(folder):
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.map(ask_for_result, range(3), chunksize=1) == [["made"]] * 3
    assert (folder.parent / "starts").read_text() == "start\n"


def test_a_result_that_fails_leaves_nothing(folder):
    def fail():
        raise RuntimeError("half way")

    for _ in range(2):  # nor does the second wait for the first
        with pytest.raises(RuntimeError, match=r"^half way$"):
            get_or_make(["x"], fail)
    assert not list((folder.parent / "results").glob("*.gz"))


def test_unused_results_go(folder):
    for key in ("old", "used"):
        store(key, [key])
        long_ago = time.time() - cache.UNUSED_SECONDS - 1
        os.utime(result_path(key), (long_ago, long_ago))
    assert load("used") == ["used"]  # which is a use
    cache._remove_unused.cache_clear()  # as in the next process
    store("another", [])
    assert load("used") == ["used"]
    assert load("old") is None


def write_marker(folder):
    (folder / "marker").write_text("made")


def test_made_once_per_content(folder):
    made = []
    for parts in (["a", "b"], ["a", "b"], ["ab"], ["a", "b", ""]):
        get_or_make_folder("built", parts, made.append)
    assert len(made) == 3


def test_failure_leaves_nothing(folder):
    def fail(place):
        write_marker(place)
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match=r"^half way$"):
        get_or_make_folder("built", ["x"], fail)
    assert [path for path in folder.iterdir() if path.is_dir()] == []
    assert (get_or_make_folder("built", ["x"], write_marker) / "marker").read_text() == "made"


def make_slowly(place):
    with (place.parent / "starts").open("a") as starts:
        starts.write("start\n")
    time.sleep(0.3)
    write_marker(place)


def ask(_):
    return (get_or_make_folder("built", ["shared"], make_slowly) / "marker").read_text()


def test_processes_wait_for_the_first(folder):
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.map(ask, range(3), chunksize=1) == ["made"] * 3
    assert (folder / "starts").read_text() == "start\n"


def test_unused_entries_go(folder):
    old = get_or_make_folder("built", ["old"], write_marker)
    fresh = get_or_make_folder("built", ["fresh"], write_marker)
    long_ago = time.time() - cache.UNUSED_SECONDS - 1
    os.utime(old, (long_ago, long_ago))
    cache._remove_unused.cache_clear()  # as in the next process
    get_or_make_folder("built", ["another"], write_marker)
    assert fresh.is_dir()
    assert not old.exists()
