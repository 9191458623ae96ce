"""Formats of the user's own through DECA's table and scaler."""

import re

import numpy as np
import pytest

from tilewright.golden.deca import Scheme, compress, resolve_scheme, restore
from tilewright.golden.formats import resolve_format
from tilewright.golden.params.deca import ScaleKind

FORMATS = """
import numpy as np
from tilewright.golden.lowbit import mx_float
from tilewright.golden.params.formats import E2M1, E4M3

class Clipped:  # as docs/how-to/your-format.md has it
    bits, scale_bits, group = 4, 16, 64

    def encode(self, values):
        groups = values.reshape(*values.shape[:-1], -1, self.group)
        scales = (0.8 * np.abs(groups).max(-1) / 7).astype(np.float16)
        steps = np.maximum(scales, np.float16(6e-8)).astype(float)[..., None]
        codes = np.clip(np.rint(groups / steps), -8, 7).astype(int) + 8
        return codes.reshape(values.shape), scales.view(np.uint16)

    def decode(self, codes, scales):
        steps = np.repeat(scales.view(np.float16).astype(float), self.group, axis=-1)
        return (codes - 8) * steps

class Odd(Clipped):
    group = 48

class Wide(Clipped):
    bits = 9

class Shifted(Clipped):  # its zero is in the middle of a group's values, not of the codes
    scale_bits, group = 8, 32

    def encode(self, values):
        groups = values.reshape(*values.shape[:-1], -1, self.group)
        offsets = np.clip(np.rint(-20 * groups.min(-1)), 0, 255).astype(int)
        codes = np.clip(np.rint(2 * (groups + offsets[..., None] / 20)), 0, 15).astype(int)
        return codes.reshape(values.shape), offsets

    def decode(self, codes, scales):
        return codes / 2 - np.repeat(scales, self.group, axis=-1) / 20

class Broken(Clipped):
    encode = None

class Ternary:
    bits = 2

    def encode(self, values):
        return (np.sign(values) + 1).astype(int)

    def decode(self, codes):
        return codes - 1.0

def Mx4():
    return mx_float(E2M1, "mx4")

def Mx8():
    return mx_float(E4M3, "mx8")
"""


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    path = tmp_path_factory.mktemp("formats") / "mine.py"
    path.write_text(FORMATS)
    return lambda kind: f"{path}:{kind}"


def weights(shape, seed=0):
    return np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)


@pytest.mark.parametrize(("own", "known"), [("Mx4", "mxfp4"), ("Mx8", "mxfp8_e4m3")])
@pytest.mark.parametrize("density", [None, 0.4])
def test_a_known_format_in_the_users_words_is_the_same(named, own, known, density):
    scheme, matrix = resolve_scheme(named(own)), weights((40, 200))
    assert scheme.config.scale is ScaleKind.E8M0
    theirs, ours = (compress(matrix, s, density) for s in (scheme, resolve_scheme(known)))
    assert np.array_equal(restore(theirs), restore(ours))
    assert theirs.size == ours.size


@pytest.mark.parametrize("shape", [(16, 64), (40, 200), (5, 32 * 40)])
def test_groups_longer_than_a_tiles_row_share_their_scale(named, shape):
    """Numbers are exact; scales are fp16 ones rounded to bf16, and products are bf16."""
    matrix, own = weights(shape), resolve_format(named("Clipped"))
    scheme = resolve_scheme(named("Clipped"))
    assert scheme.values.tolist() == list(range(-8, 8)) and scheme.config.group == 32
    found, want = restore(compress(matrix, scheme)), own.through(matrix)
    assert np.allclose(found, want, rtol=2.0**-7, atol=0)
    assert not np.array_equal(found, want)


def test_a_format_without_scales(named):
    assert set(restore(compress(weights((20, 40)), resolve_scheme(named("Ternary")))).flat) == {
        *(-1.0, 1.0)
    }


def test_pruned_weights_are_zero_before_they_are_encoded(named):
    matrix = weights((32, 128))
    found = restore(compress(matrix, resolve_scheme(named("Clipped")), 0.25))
    assert np.count_nonzero(found) == matrix.size / 4
    kept = np.where(found != 0, matrix, 0)
    want = resolve_format(named("Clipped")).through(kept)
    assert np.allclose(found, want, rtol=2.0**-7, atol=0)


def test_a_packed_scheme_needs_no_class(named):
    scheme = resolve_scheme(named("Clipped"))
    again = Scheme.from_dict(scheme.as_dict())
    assert (again.book, again.config) == (scheme.book, scheme.config)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("Wide", "DECA looks up codes of 1..8 bits, not 9"),
        ("Odd", "a scale of DECA is that of 1, 2, 4, 8, 16 or a multiple of 32 weights of a row"),
        ("Shifted", "decodes a code to other values than its number times the scale of its group"),
        ("Broken", "cannot be used: TypeError: 'NoneType' object is not callable"),
    ],
)
def test_what_no_deca_can_read(named, kind, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        compress(weights((16, 64)), resolve_scheme(named(kind)))
