"""Golden instructions against vectors recorded on a processor with AMX.

``tests/support/record_amx.py`` made the file; its ``machine`` says where.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.record_amx import SCALARS, TILES, VECTORS, as_array
from tilewright.golden.amx import tdpbf16ps, tdpbssd, vdpbf16ps, vpdpbusd
from tilewright.golden.arith import fma
from tilewright.golden.params.arith import AMX_RULES
from tilewright.golden.params.formats import FP32
from tilewright.golden.sparamx import Core

RECORD = json.loads(Path(__file__).with_name("amx_vectors.json").read_text())


def canonical(bits):
    """Every NaN as the one NaN that golden gives."""
    return np.where((bits & 0x7FFFFFFF) > 0x7F800000, 0x7FC00000, bits)


def vectors(name):
    return [as_array(RECORD["vectors"][name][key]) for key in "cabr"]


def test_the_record_is_of_an_amx_processor():
    assert "amx" in RECORD["machine"]["paths"]
    assert list(RECORD["vectors"]) == [*TILES, *VECTORS, *SCALARS]


@pytest.mark.parametrize(("name", "golden"), [("tdpbf16ps", tdpbf16ps), ("tdpbssd", tdpbssd)])
def test_tiles(name, golden):
    c, a, b, r = (x.reshape(len(x), 16, -1) for x in vectors(name))
    got = golden(c, a, b)
    assert np.array_equal(canonical(got), canonical(r)) if "bf16" in name else (got == r).all()
    assert (r != c).any()


def test_vdpbf16ps():
    c, a, b, r = vectors("vdpbf16ps")
    assert np.array_equal(vdpbf16ps(c, a, b), canonical(r))


def test_fma_that_flushes():
    """The rule itself: c = 2^-126 less n eighths of its ulp is 2^-126 up to n = 2, then 0."""
    c, a, b, r = vectors("fma")
    assert np.array_equal(fma(FP32, FP32, FP32, FP32, a, b, c, AMX_RULES), r)
    eighths = -np.round(np.ldexp(a.view(np.float32).astype(float), 26))
    window = (c == 1 << 23) & (b == 1 << 23) & (eighths >= 1)
    found = {int(n): int(x) for n, x in zip(eighths[window], r[window], strict=True)}
    assert {n for n, x in found.items() if x} == {1, 2} and set(found.values()) == {0, 1 << 23}
    assert len(found) == 32


@pytest.mark.parametrize("name", ["tdpbf16ps", "vdpbf16ps"])
def test_the_record_reaches_the_window(name):
    """Running sums that end as the smallest normal, or as zero, with both signs."""
    *_, r = vectors(name)
    assert {0, 1 << 23, 1 << 31 | 1 << 23} <= set(r.ravel().tolist())


def test_vpdpbusd():
    c, a, b, r = vectors("vpdpbusd")
    assert np.array_equal(vpdpbusd(c, a, b), r)


@pytest.mark.parametrize("name", ["vpexpandw", "vpexpandb"])
def test_expansions(name):
    c, a, _, r = vectors(name)
    starts = np.arange(len(a)) * a.shape[1]
    assert np.array_equal(getattr(Core(), name)(c[:, 0], a.reshape(-1), starts), r)
