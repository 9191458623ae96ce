"""Compressor: tiling, pruning, quantisation, packing and the memory image."""

from math import floor, log2

import ml_dtypes
import numpy as np
import pytest

from tests.golden.test_deca_scheme import ML_DTYPES
from tests.support.claims import claim
from tilewright.golden.deca import (
    SCHEMES,
    NonFiniteWeightError,
    Tiles,
    compress,
    decode_tiles,
    encode_tiles,
    lay_out,
    resolve_scheme,
    restore,
    tiles,
)
from tilewright.golden.deca.coding import mask_nonzeros
from tilewright.golden.deca.quantise import Pruner, quantise
from tilewright.golden.deca.tiles import from_tiles, to_tiles
from tilewright.golden.params.deca import CODE_BITS, DecaParams, ScaleKind, TileConfig


def weights(shape, seed=0, spread=0.05):
    return np.random.default_rng(seed).normal(0, spread, shape).astype(np.float32)


def everything(values):
    return np.ones(values.shape, bool)


# --- tiles of a matrix


def test_a_tile_is_sixteen_rows_of_64_bytes_in_row_order():
    matrix = np.arange(48 * 64).reshape(48, 64)
    cut = to_tiles(TileConfig(), matrix)
    assert cut.shape == (6, 512)
    assert np.array_equal(cut[3].reshape(16, 32), matrix[16:32, 32:64])  # along, then down
    assert np.array_equal(to_tiles(TileConfig(int8=True), matrix)[1].reshape(16, 64), matrix[16:32])


@pytest.mark.parametrize("shape", [(1, 1), (16, 32), (17, 31), (40, 100)])
def test_ragged_matrices_are_padded_with_zeros(shape):
    matrix = 1 + np.arange(shape[0] * shape[1]).reshape(shape)
    cut = to_tiles(TileConfig(), matrix)
    assert np.array_equal(from_tiles(TileConfig(), shape, cut), matrix)
    assert np.count_nonzero(cut) == matrix.size


# --- pruning


@pytest.mark.parametrize("density", [0, 0.001, 0.05, 0.3, 0.5, 1])
def test_pruning_keeps_an_exact_count_of_the_largest(density):
    matrix = weights((100, 130))
    kept = restore(compress(matrix, SCHEMES["bf16"], density)) != 0
    assert np.count_nonzero(kept) == round(density * matrix.size)
    if 0 < density < 1:
        assert np.abs(matrix[kept]).min() >= np.abs(matrix[~kept]).max()


def test_ties_stay_in_tile_order():
    matrix = np.full((16, 64), 0.5, np.float32)
    matrix[3, 40] = -1
    kept = restore(compress(matrix, SCHEMES["bf16"], 100 / matrix.size)) != 0
    assert kept[3, 40] and np.count_nonzero(kept) == 100
    first_tile = kept[:, :32].reshape(-1)
    assert first_tile[:99].all() and not first_tile[99:].any()


def test_zeros_are_never_kept():
    matrix = weights((32, 64))
    matrix[::2] = 0
    assert np.array_equal(restore(compress(matrix, SCHEMES["bf16"], 0.9)) != 0, matrix != 0)
    assert np.array_equal(restore(compress(matrix, SCHEMES["bf16"].sparsified)) != 0, matrix != 0)


@pytest.mark.parametrize("keep", [0, 1, 7, 500, 999, 1000])
def test_the_two_histograms_equal_a_sort(keep):
    rng = np.random.default_rng(keep)
    values = (rng.integers(1, 40, 1000) / 16).astype(np.float32) * rng.choice([-1, 1], 1000)
    values = values.astype(np.float32)
    pruner = Pruner.exact(lambda: iter(values.reshape(10, 100)), keep)
    stay = np.concatenate([pruner.mask(piece) for piece in values.reshape(10, 100)])
    order = np.argsort(-np.abs(values), kind="stable")
    assert np.array_equal(np.flatnonzero(stay), np.sort(order[:keep]))


@pytest.mark.parametrize("density", [-0.1, 1.5, float("nan")])
def test_refused_density(density):
    with pytest.raises(ValueError, match=rf"^density must be 0..1, not {density!r}$"):
        compress(np.ones((16, 32)), SCHEMES["bf8"], density)


@pytest.mark.parametrize("name", ["mxfp4", "bf16", "int8_tile", "nf4,group=64"])
@pytest.mark.parametrize("density", [None, 0.4])
def test_pieces_do_not_change_the_bytes(name, density, monkeypatch):
    matrix = np.round(weights((70, 300)), 2)  # rounded: many ties
    whole = compress(matrix, resolve_scheme(name), density)
    monkeypatch.setattr(tiles, "PIECE_ELEMENTS", 2048)
    pieces = compress(matrix, resolve_scheme(name), density)
    for field in ("masks", "scales", "data", "data_lengths"):
        assert np.array_equal(getattr(whole.tiles, field), getattr(pieces.tiles, field)), field
    assert np.array_equal(restore(whole), restore(pieces))


# --- quantisation


@pytest.mark.parametrize("name", ML_DTYPES)
def test_codes_of_float_formats_are_nearest_even(name):
    scheme = resolve_scheme(f"{name},scale=none")
    rng = np.random.default_rng(1)
    finite = scheme.values[np.isfinite(scheme.values)]
    middles = (np.sort(finite)[:-1] + np.sort(finite)[1:]) / 2
    values = np.concatenate([
        finite, middles, np.nextafter(middles, 9e9), np.nextafter(middles, -9e9),
        finite * rng.uniform(0.5, 1, finite.shape), rng.normal(0, 1, 2000),
    ])  # fmt: skip
    values = np.resize(values[np.abs(values) <= scheme.reach], (10, 512)).astype(np.float32)
    values += np.float32(0)  # a weight of -0 is a zero like any other
    got = quantise(scheme, values, everything(values)).codes
    expected = values.astype(ML_DTYPES[name]).view(np.uint8)
    assert np.array_equal(got, expected)


def test_weights_beyond_the_largest_value_saturate():
    for name, code in (("bf8", 0x7B), ("e4m3", 0x7E), ("mxfp4,scale=none", 7)):
        scheme = resolve_scheme(name)
        values = np.full((1, 512), 1e9, np.float32)
        assert (quantise(scheme, values, everything(values)).codes == code).all()
        sign = 1 << (scheme.config.code_bits - 1)
        assert (quantise(scheme, -values, everything(values)).codes == code | sign).all()


@pytest.mark.parametrize("bits", range(1, 9))
def test_codes_of_integers_are_nearest_even(bits):
    values = np.linspace(-300, 300, 2401, dtype=np.float32)[:2048].reshape(4, 512)
    scheme = resolve_scheme(f"int{bits},scale=none")
    got = scheme.values[quantise(scheme, values, everything(values)).codes]
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    assert np.array_equal(got, np.clip(np.rint(values), low, high))


@pytest.mark.parametrize("entries", [2, 3, 5, 16, 100, 256])
def test_codes_of_any_book_are_nearest(entries):
    rng = np.random.default_rng(entries)
    book = rng.normal(0, 1, entries) * 2.0 ** rng.integers(-20, 20, entries)
    scheme = resolve_scheme("book,scale=none,values=" + "/".join(map(str, book)))
    values = (rng.normal(0, 1, (20, 512)) * 2.0 ** rng.integers(-20, 20, (20, 512))).astype("f4")
    codes = quantise(scheme, values, everything(values)).codes
    distance = np.abs(values.astype(np.float64)[..., None] - scheme.values)
    chosen = np.take_along_axis(distance, codes[..., None].astype(int), -1)[..., 0]
    assert np.array_equal(chosen, distance.min(axis=-1))


def mx_byte(largest, reach):
    """The OCP rule on one group, in plain Python."""
    if largest == 0:
        return 0
    return min(max(floor(log2(largest)) - floor(log2(reach)), -127), 127) + 127


@pytest.mark.parametrize("name", ["mxfp4", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp8_e4m3", "int4"])
@pytest.mark.parametrize("group", [4, 32, 512])
def test_e8m0_scales_follow_the_mx_rule(name, group):
    scheme = resolve_scheme(f"{name},scale=e8m0,group={group}")
    rng = np.random.default_rng(3)
    spread = 2.0 ** rng.integers(-149, 127, (4, 512 // group, 1))
    values = (rng.normal(0, 1, (4, 512 // group, group)) * spread).astype(np.float32)
    values[0, 0] = 0
    values[1, 0, 0] = 2.0**127
    values[2, 0, 0] = 2.0**-149
    got = quantise(scheme, values.reshape(4, 512), np.ones((4, 512), bool))
    largest = np.abs(values).max(axis=-1)
    expected = [[mx_byte(float(m), scheme.reach) for m in row] for row in largest]
    assert got.scales.tolist() == expected
    divisor = 2.0 ** (got.scales.astype(float) - 127)[..., None]
    quotient = np.clip(values / divisor, -scheme.reach - 1, scheme.reach + 1)
    error = np.abs(scheme.values[got.codes].reshape(values.shape) - quotient)
    nearest = np.abs(scheme.values[:, None] - quotient.reshape(-1)).min(axis=0)
    if name != "mxfp8_e4m3":  # whose book has a NaN
        assert np.array_equal(error.reshape(-1), nearest)


def test_the_largest_e8m0_scale_is_254():
    scheme = resolve_scheme("book,values=-0.25/0.25,scale=e8m0")
    values = np.full((1, 512), 2.0**127, np.float32)
    assert (quantise(scheme, values, everything(values)).scales == 254).all()


@pytest.mark.parametrize("name", ["nf4", "int4", "int8", "int1", "mxfp4,scale=bf16"])
def test_bf16_scales_map_the_largest_weight_to_the_reach(name):
    scheme = resolve_scheme(name)
    values = weights((6, 512), seed=2)
    values[0, :32] = 0
    values[1, :32] = 1e-44
    values[2, :32] = np.finfo(np.float32).max
    got = quantise(scheme, values, everything(values)).scales
    largest = np.abs(values).reshape(6, 16, 32).max(axis=-1).astype(np.float64)
    wanted = np.clip(largest / scheme.reach, 2.0**-126, float(ml_dtypes.finfo("bfloat16").max))
    neighbours = np.clip(got[..., None] + np.array([0, -1, 1]), 0x0080, 0x7F7F).astype(np.uint16)
    distance = np.abs(neighbours.view(ml_dtypes.bfloat16).astype(float) - wanted[..., None])
    assert np.array_equal(distance[..., 0], distance.min(axis=-1))
    assert got[0, 0] == got[1, 0] == 0x0080  # zeros and subnormals: the smallest normal scale


def test_row_scales_of_int8_tiles():
    matrix = weights((20, 70))
    matrix[4] = 0
    compressed = compress(matrix, SCHEMES["int8_tile"])
    largest = np.abs(matrix).max(axis=1)
    scales = np.maximum(largest / np.float32(127), np.finfo(np.float32).tiny)
    assert np.array_equal(compressed.row_scales, scales)
    levels = np.rint(matrix / scales[:, None]).astype(np.float32)
    assert np.array_equal(restore(compressed), levels * scales[:, None])
    assert np.abs(levels).max() == 127


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_weights_that_are_no_numbers_are_refused(bad):
    matrix = weights((40, 50)).astype(np.float64)
    matrix[33, 44] = bad
    for density in (None, 0.5):
        with pytest.raises(
            NonFiniteWeightError,
            match=rf"^weight {bad} at row 33, column 44 is no finite float32$".replace("+", r"\+"),
        ):
            compress(matrix, SCHEMES["mxfp4"], density)


@pytest.mark.parametrize(
    ("shape", "message"),
    [((4,), r"^a weight matrix has 2 dimensions, not shape \(4,\)$"),
     ((0, 4), r"^a weight matrix of shape \(0, 4\) has no weights$")],
)  # fmt: skip
def test_refused_shapes(shape, message):
    with pytest.raises(ValueError, match=message):
        compress(np.zeros(shape), SCHEMES["bf8"])


# --- bytes


def random_tiles(config, count, rng, density=0.5):
    elements = config.elements
    mask = rng.random((count, elements)) < density if config.sparse else np.ones((count, elements))
    mask = mask.astype(bool)
    dtype = np.uint16 if config.code_bits == 16 else np.uint8
    codes = rng.integers(0, 1 << config.code_bits, mask.shape).astype(dtype)
    groups = elements // config.group if config.scale is not ScaleKind.NONE else 0
    scale_dtype = np.uint16 if config.scale is ScaleKind.BF16 else np.uint8
    scales = rng.integers(0, np.iinfo(scale_dtype).max, (count, groups), scale_dtype)
    return Tiles(mask, np.where(mask, codes, 0).astype(dtype), scales)


def bytes_of(config, mask, codes, scales):
    """One tile's three structures, with Python's integers."""
    mask_word = sum(1 << k for k in range(len(mask)) if mask[k])
    stored = [int(c) for c, m in zip(codes, mask, strict=True) if m]
    data = sum(code << (config.code_bits * k) for k, code in enumerate(stored))
    return (
        mask_word.to_bytes(config.elements // 8, "little") if config.sparse else b"",
        b"".join(int(s).to_bytes(config.scale.bytes, "little") for s in scales),
        data.to_bytes(-(-len(stored) * config.code_bits // 8), "little"),
    )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("bits", CODE_BITS)
def test_bytes_equal_long_integers(bits, sparse):
    rng = np.random.default_rng(bits)
    kind = list(ScaleKind)[bits % 3]
    config = TileConfig(code_bits=bits, sparse=sparse, scale=kind, group=1 << bits % 10)
    content = random_tiles(config, 6, rng, density=rng.random((6, 1)))
    if sparse:  # a full and an empty tile among them
        content.mask[0], content.mask[1], content.codes[1] = True, False, 0
    packed = encode_tiles(config, content)
    ends = np.cumsum(packed.data_lengths)
    for k in range(6):
        mask, scales, data = bytes_of(config, *(part[k] for part in content))
        assert packed.masks[k].tobytes() == mask
        assert packed.scales[k].tobytes() == scales
        assert packed.data[ends[k] - packed.data_lengths[k] : ends[k]].tobytes() == data
    back = decode_tiles(packed)
    for got, expected in zip(back, content, strict=True):
        assert np.array_equal(got, expected)
    assert np.array_equal(mask_nonzeros(config, packed.masks), content.mask.sum(axis=1))


@pytest.mark.parametrize("alignment", [1, 4, 64])
@pytest.mark.parametrize("base", [0, 0x7FFF_FFFF_0040])
def test_commands_find_their_bytes_in_memory(base, alignment):
    config = TileConfig(code_bits=3, sparse=True, scale=ScaleKind.BF16, group=64)
    rng = np.random.default_rng(5)
    packed = encode_tiles(config, random_tiles(config, 20, rng))
    image = lay_out(packed, base, alignment)
    assert list(image.commands) == [f.name for f in DecaParams().command_fields]
    ends = np.cumsum(packed.data_lengths)
    expected = {
        "mask": list(packed.masks),
        "scale": list(packed.scales),
        "data": [packed.data[e - n : e] for e, n in zip(ends, packed.data_lengths, strict=True)],
    }
    used = 0
    for name, parts in expected.items():
        for k, part in enumerate(parts):
            start = int(image.commands[f"{name}_base"][k]) - base
            length = int(image.commands[f"{name}_length"][k])
            assert start >= used and start % alignment == 0
            assert k == 0 or alignment > 1 or start == used
            assert np.array_equal(image.content[start : start + length], part)
            used = start + length
    assert used <= len(image.content)
    starts = image.commands["data_base"] % 64
    assert (len(set(starts.tolist())) > 5) == (alignment < 64)  # starts off a line do happen


def test_refused_images():
    packed = encode_tiles(TileConfig(), random_tiles(TileConfig(), 1, np.random.default_rng(2)))
    with pytest.raises(ValueError, match=r"^alignment must be a power of two of 1..4096, not 3$"):
        lay_out(packed, alignment=3)
    with pytest.raises(ValueError, match=r"^base must be on a line, not 0x21$"):
        lay_out(packed, base=33)


# --- sizes


@pytest.mark.parametrize("case", claim("deca.bytes_per_tile"))
def test_bytes_per_tile_equal_the_papers_formula(case):
    name, _, percent = case.partition("_")
    density = float(percent) / 100 if percent else None
    matrix = weights((512, 2560))  # so many tiles that rounding the count is far below 0.1 B
    compressed = compress(matrix, SCHEMES[name], density)
    count = len(compressed.tiles)
    expected = claim("deca.bytes_per_tile")[case]
    assert compressed.size == round(count * expected)
