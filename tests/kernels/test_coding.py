"""Codes and scales: compiled quantisation against golden, and blocks of files against gguf."""

import gguf
import numpy as np
import pytest

from tilewright.golden.bits import decode
from tilewright.golden.deca import compress, resolve_scheme
from tilewright.golden.deca.matrix import NonFiniteWeightError
from tilewright.golden.deca.scheme import SCHEMES
from tilewright.golden.params.formats import BF16
from tilewright.golden.sparamx import coded
from tilewright.kernels.coding import coded_weights, compressed_matrix
from tilewright.kernels.forms import family
from tilewright.kernels.quantised import FORMS, from_blocks

SHAPES = ((1, 1), (16, 32), (17, 33), (40, 130))
OTHERS = ("mxfp4,group=16", "int4,group=8", "int6,scale=e8m0", "book,values=0.3/-0.7/1/-0")


def every_pattern():
    """All finite bf16 patterns, in a matrix whose groups are neighbours in magnitude."""
    patterns = np.arange(1 << 16, dtype=np.uint16)
    return patterns[(patterns & 0x7F80) != 0x7F80].reshape(-1, 255)


def mixed(shape, seed):
    """Magnitudes from the least subnormal to the largest number, and zeros of both signs."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 16, shape).astype(np.uint16)
    rows = rng.integers(0, 255, (shape[0], 1)).astype(np.uint16)  # of like exponents, and wild ones
    alike = (bits & 0x807F) | np.clip(rows + rng.integers(-3, 4, shape), 0, 254) << 7
    bits = np.where(rng.random((shape[0], 1)) < 0.7, alike, bits & ~np.uint16(1 << 7))
    bits[rng.random(shape) < 0.3] &= 0x8000
    return bits.astype(np.uint16)


def assert_equal(scheme, bits):
    wanted = compress((bits.astype(np.uint32) << 16).view(np.float32), scheme)
    found = compressed_matrix(scheme, bits)
    assert (found.scheme, found.shape) == (scheme, bits.shape)
    for name in ("masks", "scales", "data", "data_lengths"):
        assert np.array_equal(getattr(found.tiles, name), getattr(wanted.tiles, name)), name
    if family(scheme.name) != "coded":
        return
    try:
        records = coded.pack(wanted)
    except ValueError as error:
        with pytest.raises(ValueError) as refused:
            coded_weights(scheme, bits)
        assert str(refused.value) == str(error)
        return
    fast = coded_weights(scheme, bits)
    assert fast.size == records.size and fast.low_mask == records.low_mask
    for name in ("shape", "code_bits", "sparse", "scale"):
        assert getattr(fast, name) == getattr(records, name)
    for name in ("table", "stream", "tile_starts"):
        assert np.array_equal(getattr(fast, name), getattr(records, name)), name


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", [*(n for n in SCHEMES if not n.endswith("tile")), *OTHERS])
def test_arrays_are_goldens(name, sparse):
    scheme = resolve_scheme(name)
    scheme = scheme.sparsified if sparse else scheme
    assert_equal(scheme, every_pattern())
    for seed, shape in enumerate(SHAPES):
        assert_equal(scheme, mixed(shape, seed))
    assert_equal(scheme, np.zeros((20, 40), np.uint16))


def test_weights_without_value_are_refused_with_their_place():
    bits = np.zeros((20, 40), np.uint16)
    bits[17, 3] = 0x7F80
    for make in (compressed_matrix, coded_weights):
        with pytest.raises(NonFiniteWeightError, match="row 17, column 3"):
            make(resolve_scheme("mxfp4"), bits)


@pytest.mark.parametrize("form", ["q4_0", "iq4_nl", "mxfp4"])
def test_blocks_have_the_values_of_llama_cpp(form):
    size = 17 if form == "mxfp4" else 18
    data = np.random.default_rng(4).integers(0, 256, (3, 5 * size)).astype(np.uint8)
    rows = from_blocks(form, data)
    kind = gguf.GGMLQuantizationType[form.upper()]
    values = decode(BF16, np.array(FORMS[form], np.uint16))[rows.codes]
    with np.errstate(all="ignore"):
        steps = coded.SCALES[rows.scale].numbers(rows.scales).repeat(32, axis=1)
        wanted = gguf.quants.dequantize(data, kind)
        finite = np.isfinite(wanted)
        assert np.array_equal((values * steps)[finite].astype(np.float32), wanted[finite])
