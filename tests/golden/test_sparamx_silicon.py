"""Golden instructions against vectors recorded on a processor with AMX.

``tests/support/record_amx.py`` made the file; its ``machine`` says where.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.record_amx import TILES, VECTORS, as_array
from tilewright.golden.amx import tdpbf16ps, tdpbssd, vdpbf16ps, vpdpbusd
from tilewright.golden.sparamx import Core

RECORD = json.loads(Path(__file__).with_name("amx_vectors.json").read_text())


def canonical(bits):
    """Every NaN as the one NaN that golden gives."""
    return np.where((bits & 0x7FFFFFFF) > 0x7F800000, 0x7FC00000, bits)


def vectors(name):
    return [as_array(RECORD["vectors"][name][key]) for key in "cabr"]


def test_the_record_is_of_an_amx_processor():
    assert "amx" in RECORD["machine"]["paths"]
    assert list(RECORD["vectors"]) == [*TILES, *VECTORS]


@pytest.mark.parametrize(("name", "golden"), [("tdpbf16ps", tdpbf16ps), ("tdpbssd", tdpbssd)])
def test_tiles(name, golden):
    c, a, b, r = (x.reshape(len(x), 16, -1) for x in vectors(name))
    got = golden(c, a, b)
    assert np.array_equal(canonical(got), canonical(r)) if "bf16" in name else (got == r).all()
    assert (r != c).any()


def test_vdpbf16ps():
    c, a, b, r = vectors("vdpbf16ps")
    assert np.array_equal(vdpbf16ps(c, a, b), canonical(r))


def test_vpdpbusd():
    c, a, b, r = vectors("vpdpbusd")
    assert np.array_equal(vpdpbusd(c, a, b), r)


@pytest.mark.parametrize("name", ["vpexpandw", "vpexpandb"])
def test_expansions(name):
    c, a, _, r = vectors(name)
    starts = np.arange(len(a)) * a.shape[1]
    assert np.array_equal(getattr(Core(), name)(c[:, 0], a.reshape(-1), starts), r)


def test_vpmultishiftqb():
    _, a, b, r = vectors("vpmultishiftqb")
    source = np.ascontiguousarray(b).view(np.uint8)
    assert np.array_equal(Core().vpmultishiftqb(a, source), r)
