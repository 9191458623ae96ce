"""Schemes: values of the codes, table images, names and refusals."""

from statistics import NormalDist

import ml_dtypes
import numpy as np
import pytest

from tilewright.golden.deca import SCHEMES, Scheme, resolve_scheme
from tilewright.golden.deca.scheme import NF4_VALUES
from tilewright.golden.params.deca import ScaleKind, TileConfig

ML_DTYPES = {
    **dict.fromkeys(("bf8", "e5m2", "mxfp8_e5m2"), ml_dtypes.float8_e5m2),
    **dict.fromkeys(("e4m3", "mxfp8_e4m3"), ml_dtypes.float8_e4m3fn),
    "mxfp6_e3m2": ml_dtypes.float6_e3m2fn,
    "mxfp6_e2m3": ml_dtypes.float6_e2m3fn,
    "mxfp4": ml_dtypes.float4_e2m1fn,
}


@pytest.mark.parametrize("name", ML_DTYPES)
def test_float_books_equal_ml_dtypes(name):
    scheme = SCHEMES[name]
    codes = np.arange(1 << scheme.config.code_bits, dtype=np.uint8)
    expected = codes.view(ML_DTYPES[name]).astype(ml_dtypes.bfloat16)
    got = np.array(scheme.book, np.uint16).view(ml_dtypes.bfloat16)
    nan = np.isnan(expected.astype(np.float32))
    assert np.array_equal(got.view(np.uint16)[~nan], expected.view(np.uint16)[~nan])
    assert (got.view(np.uint16)[nan] == 0x7FC0).all()


@pytest.mark.parametrize("bits", range(1, 9))
def test_integer_books(bits):
    codes = np.arange(1 << bits)
    values = np.where(codes >> (bits - 1), codes - (1 << bits), codes)
    assert np.array_equal(SCHEMES[f"int{bits}"].values, values)
    tile = SCHEMES[f"int{bits}_tile"]
    assert np.array_equal(np.array(tile.book, np.uint8).view(np.int8), values)
    assert tile.config == TileConfig(code_bits=bits, int8=True)


def test_nf4_is_quantiles_of_a_normal_distribution():
    """By the definition of QLoRA (appendix E), with its reference's outermost probability.

    The positive half has eight values beside zero, the negative half seven: quantiles at evenly
    spaced probabilities between it and one half, divided by the largest.
    """
    outermost = (1 - 1 / (2 * 15) + 1 - 1 / (2 * 16)) / 2
    assert outermost == pytest.approx(0.9677083)
    quantile = NormalDist().inv_cdf
    positive = [quantile(p) for p in np.linspace(0.5, outermost, 9)[1:]]
    negative = [-quantile(p) for p in np.linspace(0.5, outermost, 8)[1:]]
    want = np.array(sorted([*negative, 0.0, *positive])) / positive[-1]
    np.testing.assert_allclose(NF4_VALUES, want, rtol=0, atol=1e-6)
    bf16 = np.array(NF4_VALUES).astype(ml_dtypes.bfloat16).view(np.uint16)
    assert list(SCHEMES["nf4"].book) == bf16.tolist()


@pytest.mark.parametrize("name", SCHEMES)
def test_table_image_repeats_the_book(name):
    scheme = SCHEMES[name]
    image = scheme.lut_image()
    assert image.shape == (256,) and image.dtype == np.uint16
    if scheme.config.code_bits == 16:
        assert not image.any()
    else:
        entries = 1 << scheme.config.code_bits
        assert image.tolist() == [scheme.book[k % entries] for k in range(256)]


@pytest.mark.parametrize(
    ("name", "reach"),
    [("bf8", 57344), ("e4m3", 448), ("mxfp6_e3m2", 28), ("mxfp6_e2m3", 7.5), ("mxfp4", 6),
     ("nf4", 1), ("int4", 7), ("int1", 1), ("bf16", 1), ("int8_tile", 127)],
)  # fmt: skip
def test_reach_is_the_largest_magnitude_of_both_signs(name, reach):
    assert SCHEMES[name].reach == reach


def test_options():
    scheme = resolve_scheme("nf4,group=64,scale=e8m0,sparse=true")
    assert scheme.config == TileConfig(code_bits=4, sparse=True, scale=ScaleKind.E8M0, group=64)
    assert scheme.name == "nf4,group=64,scale=e8m0,sparse=true"
    assert scheme.book == SCHEMES["nf4"].book
    assert resolve_scheme("bf8").book == resolve_scheme("e5m2").book


def test_book_of_any_values():
    scheme = resolve_scheme("book,values=-1/0/1,group=128")
    assert scheme.config == TileConfig(code_bits=2, scale=ScaleKind.BF16, group=128)
    assert scheme.values.tolist() == [-1, 0, 1, 1]


@pytest.mark.parametrize("name", [*SCHEMES, "book,values=-1/1", "bf8,sparse=true"])
def test_a_scheme_survives_json(name):
    scheme = resolve_scheme(name)
    assert Scheme.from_dict(scheme.as_dict()) == scheme


def test_subnormal_values_count_as_zero_where_a_scaler_follows():
    tiny = 2.0**-130
    assert resolve_scheme(f"book,values=0/{tiny}/1/2").values.tolist() == [0, 0, 1, 2]
    assert resolve_scheme(f"book,values=0/{tiny}/1/2,scale=none").values[1] == tiny


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mxpf4", "unknown scheme 'mxpf4'; did you mean mxfp4"),
        ("zzz", "unknown scheme 'zzz'; known: bf16, bf8"),
        ("bf8,group", "'bf8,group': expected OPTION=VALUE, not 'group'"),
        ("bf8,size=3", "'bf8,size=3': unknown option 'size'; options: group, scale, sparse, val"),
        ("bf8,group=48", "group must be a power of two of 1..512, not 48"),
        ("bf8,group=x", "group must be a whole number, not 'x'"),
        ("bf8,scale=fp8", "scale must be one of none, e8m0, bf16, not 'fp8'"),
        ("bf8,sparse=yes", "sparse must be true or false, not 'yes'"),
        ("bf8,values=1/2", "'bf8,values=1/2': only the scheme book takes values="),
        ("book", "'book': a book needs values=V/V/..."),
        ("book,values=1", "a book has 2..256 values, not 1"),
        ("book,values=1/two", "'book,values=1/two': 'two' is not a number"),
        ("book,values=0/0", "book: no code of the book is a nonzero number"),
        ("int8_tile,scale=bf16", "int8 tiles take no scales"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(ValueError) as refusal:
        resolve_scheme(text)
    assert str(refusal.value).startswith(message)


def test_a_book_must_fit_its_codes():
    with pytest.raises(ValueError, match=r"^x: a book of 2-bit codes has 4 entries, not 3$"):
        Scheme(name="x", config=TileConfig(code_bits=2), book=(0, 1, 2))
    with pytest.raises(ValueError, match=r"^x: book entry 0x100 leaves \[0, 0xff\]$"):
        Scheme(name="x", config=TileConfig(code_bits=1, int8=True), book=(0, 256))
