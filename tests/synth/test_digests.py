"""Committed digests of RTLIL: of the present sources, of all blocks with a record, and right."""

import json

import pytest

from tilewright.golden.params.resolve import resolve
from tilewright.synth import record
from tilewright.synth.digests import recorded
from tilewright.synth.emit import to_rtlil
from tilewright.synth.record import DIGESTS, rtl_sources, rtlil_sha256, sha256

RENEW = "python -m tilewright.synth.digests"


@pytest.fixture(scope="module")
def kept():
    return json.loads(DIGESTS.read_text())


def test_they_are_of_these_sources(kept):
    assert kept["sources"] == rtl_sources(), RENEW


def test_every_block_with_a_record_has_one(kept):
    assert list(kept["digests"]) == sorted(recorded()), RENEW


SMALL = ["popcount:odd", "popcount:odd with its memories", "float_mul:fp16", "queue:odd"]


@pytest.mark.parametrize("name", SMALL)
def test_small_ones_are_right(name, kept):
    spec, macros = recorded()[name]
    assert kept["digests"][name] == sha256(to_rtlil(resolve(spec), memory_macros=macros))


def test_those_of_other_sources_are_not_taken(monkeypatch, tmp_path):
    """Digests of other sources are wrong here, so the block is elaborated."""
    stale = tmp_path / "rtlil.json"
    stale.write_text(json.dumps({"sources": "others", "digests": {"popcount:odd": "wrong"}}))
    monkeypatch.setattr(record, "DIGESTS", stale)
    for cached in (record._committed_digests, rtlil_sha256):
        cached.cache_clear()
    try:
        assert rtlil_sha256("popcount:odd") == sha256(to_rtlil(resolve("popcount:odd")))
    finally:
        for cached in (record._committed_digests, rtlil_sha256):
            cached.cache_clear()


# Long.


@pytest.mark.full
def test_all_are_right(kept):
    wrong = [
        name
        for name, (spec, macros) in recorded().items()
        if kept["digests"][name] != sha256(to_rtlil(resolve(spec), memory_macros=macros))
    ]
    assert not wrong
