"""Every compiled path against the portable one, and that against golden.

    python -m tests.support.kernel_paths

prints the paths it has compared. It has a process of its own because tile registers enlarge what a
signal saves, beyond the signal stack that pytest's fault handler has set up: Linux then refuses
them, and the AMX path is not available.
"""

from dataclasses import replace

import numpy as np

from tests.support.record_amx import tiles_in_window
from tests.support.sparamx import FORMATS, SHAPES, activations, weights
from tilewright.golden.bits import encode
from tilewright.golden.deca import compress, gemm, resolve_scheme
from tilewright.golden.params.formats import BF16, E8M0, FP32
from tilewright.golden.params.sparamx import Order
from tilewright.golden.sparamx import SparseCache, attend, coded, multiply, pack, prune_cache
from tilewright.kernels import Cache, CodedMatrix, DecaMatrix, Matrix, Path, available_paths

SCHEMES = (
    *("bf8", "mxfp4", "bf16", "e4m3", "mxfp8_e4m3", "mxfp6_e3m2", "nf4", "mxfp4,group=16"),
    *("int7,scale=none", "int5,scale=none", "int1,scale=none"),
)
LONG = [(1, 1060), (2, 2100)]  # more inputs than a segment of bf16, of int8
ROW = 32
SPECIAL = np.array([0x7F80, 0xFF80, 0x7FC0, 0x0001, 0x807F, 0x0080, 0x7F7F, 0x8000], np.uint16)

SMALLEST_FP32 = 1 << 23


def canonical(bits):
    """Every fp32 NaN as the one that golden gives."""
    return np.where((bits & 0x7FFFFFFF) > 0x7F800000, 0x7FC00000, bits)


def same(a, b):
    if a.dtype == np.uint32:
        a, b = canonical(a), canonical(b)
    return np.array_equal(a, b)


def compare_formats(paths, shapes=(*SHAPES, *LONG), batches=(1, 3, 5, 17, 70)):
    """All formats and orders; golden on the smaller half."""
    for fmt in FORMATS:
        for shape in shapes:
            for sparsity in (0.0, 0.5, 1.0):
                matrix = weights(fmt, shape, sparsity)
                golden, packed = pack(fmt, matrix), Matrix.pack(fmt, matrix)
                for batch in batches:
                    x = activations(fmt, batch, shape[1])
                    if fmt.element.value == "bf16":
                        x.reshape(-1)[: len(SPECIAL)] = SPECIAL[: x.size]
                    for order in Order:
                        first = packed.multiply(x, path=Path.PORTABLE, order=order, threads=1)
                        if batch <= 3 and sparsity == 0.5 and np.prod(shape) < 4300:
                            assert same(first, multiply(golden, x, order)), (fmt, shape, batch)
                        for path in paths:
                            got = packed.multiply(x, path=path, order=order, threads=3)
                            assert same(got, first), (fmt, shape, sparsity, batch, order, path)


def compare_wide_range(paths):
    """Products that overflow, underflow and cancel."""
    rng = np.random.default_rng(5)
    fmt = FORMATS[0]
    for low, high in ((-66, -58), (-126, 127), (-8, 8)):
        matrix = encode(BF16, rng.normal(0, 1, (40, 96)) * 2.0 ** rng.integers(low, high, (40, 96)))
        matrix = np.where((matrix & 0x7F80) == 0x7F80, 0, matrix).astype(np.uint16)
        x = encode(BF16, rng.normal(0, 1, (6, 96)) * 2.0 ** rng.integers(low, high, (6, 96)))
        x = x.astype(np.uint16)
        golden, packed = pack(fmt, matrix), Matrix.pack(fmt, matrix)
        for order in Order:
            expected = multiply(golden, x, order)
            for path in paths:
                assert same(packed.multiply(x, path=path, order=order), expected), (
                    low,
                    order,
                    path,
                )


def compare_window(paths):
    """Running sums near the smallest normal, products of a fraction of its ulp, in many orders."""
    fmt, found = FORMATS[0], set()
    for _, a, b in zip(*(x.reshape(len(x), 16, -1) for x in tiles_in_window()), strict=True):
        matrix = b.reshape(16, 16, 2).transpose(1, 0, 2).reshape(16, 32)  # of pairs of inputs
        golden, packed = pack(fmt, matrix), Matrix.pack(fmt, matrix)
        for order in Order:
            expected = multiply(golden, a, order)
            found |= set(expected.ravel().tolist())
            for path in paths:
                assert same(packed.multiply(a, path=path, order=order), expected), (order, path)
    assert {0, SMALLEST_FP32} <= found


def compare_scales(paths):
    """Elements times scales about the smallest normal; activations that lift them into sight."""
    rng = np.random.default_rng(6)
    x = np.zeros((64, 64), np.uint16)
    np.fill_diagonal(x, encode(BF16, [2.0**100])[0])
    sign = rng.integers(0, 2, (32, 32)) << 15  # 32 groups of 32 elements, 16 rows of 64
    for kind in ("e8m0", "bf16"):
        compressed = compress(np.ones((16, 64)), resolve_scheme(f"bf16,scale={kind},group=32"))
        if kind == "e8m0":
            scales = rng.integers(0, 3, (32, 1), np.uint8)
            elements = sign | 0x3FFC + rng.integers(0, 8, (32, 32))
        else:  # fractions whose product is about 2, exponents whose sum is -127
            fraction = rng.integers(0, 128, (32, 1))
            partner = (1 << 15) // (128 + fraction) - 128 + rng.integers(-1, 3, (32, 32))
            scales = (0x2000 + fraction).astype(np.uint16)
            elements = sign | 0x1F80 + np.clip(partner, 0, 127)
        tiles = replace(
            compressed.tiles,
            scales=scales.view(np.uint8).reshape(compressed.tiles.scales.shape),
            data=elements.astype(np.uint16).view(np.uint8).reshape(compressed.tiles.data.shape),
        )
        compressed = replace(compressed, tiles=tiles)
        expected = gemm(compressed, x.T).T
        assert {0, 101 << 23} <= set(expected.ravel().tolist())  # flushed, and 2^-126 * 2^100
        for path in paths:
            assert same(DecaMatrix(compressed).multiply(x, path=path), expected), (kind, path)


def compare_nan_scale(paths):
    """The scale of one output of 16 is NaN, among elements so small that none overflows by it."""
    compressed = compress(np.ones((16, 32)), resolve_scheme("bf16,scale=e8m0,group=32"))
    scales, data = compressed.tiles.scales.copy(), compressed.tiles.data.copy()
    scales.reshape(-1)[5] = E8M0.nan_bits
    data.view(np.uint16)[...] = 0x3E00  # 1/8
    compressed = replace(compressed, tiles=replace(compressed.tiles, scales=scales, data=data))
    x = np.full((1, 32), 0x3F80, np.uint16)
    expected = gemm(compressed, x.T).T
    assert np.flatnonzero(expected == FP32.nan_bits).tolist() == [5]
    for path in paths:
        assert same(DecaMatrix(compressed).multiply(x, path=path), expected), path


def compare_schemes(paths):
    rng = np.random.default_rng(0)
    for name in SCHEMES:
        for density in (None, 0.5, 0.05):
            for shape in ((40, 100), (17, 64)):
                matrix = rng.normal(0, 0.05, shape).astype(np.float32)
                compressed = compress(matrix, resolve_scheme(name), density)
                deca = DecaMatrix(compressed)
                for batch in (1, 20):
                    x = encode(BF16, rng.normal(0, 1, (batch, shape[1]))).astype(np.uint16)
                    first = deca.multiply(x, path=Path.PORTABLE)
                    if batch == 1:
                        assert same(first, gemm(compressed, x.T).T), (name, density, shape)
                    for path in paths:
                        assert same(deca.multiply(x, path=path), first), (name, density, path)


CODED = ("bf8", "mxfp4", "e4m3", "mxfp8_e4m3", "int8,scale=none", "int3,scale=none")


def compare_coded(paths, schemes=CODED, shapes=((40, 100), (17, 64), (3, 2100)), golden=4300):
    """Coded weights in both orders, against golden on the smaller ones."""
    rng = np.random.default_rng(6)
    for name in schemes:
        for density in (None, 0.5, 0.05):
            for shape in shapes:
                matrix = rng.normal(0, 0.05, shape).astype(np.float32)
                weights = coded.pack(compress(matrix, resolve_scheme(name), density))
                packed = CodedMatrix(weights)
                for batch in (1, 3, 6, 37):
                    x = encode(BF16, rng.normal(0, 1, (batch, shape[1]))).astype(np.uint16)
                    for order in Order:
                        first = packed.multiply(x, path=Path.PORTABLE, order=order, threads=1)
                        if batch <= 3 and np.prod(shape) < golden:
                            assert same(first, coded.multiply(weights, x, order)), (name, shape)
                        for path in paths:
                            got = packed.multiply(x, path=path, order=order, threads=3)
                            assert same(got, first), (name, density, shape, batch, order, path)


def compare_quantised(paths, shapes=((40, 100), (17, 64), (3, 2100))):
    """Weights quantised elsewhere, with all scales of their formats, against golden."""
    rng = np.random.default_rng(8)
    values = encode(BF16, rng.normal(0, 1, 16)).astype(np.uint16)
    for scale, kind in coded.SCALES.items():
        patterns = np.arange(1 << 8 * kind.dtype.itemsize)
        patterns = patterns[np.isfinite(kind.numbers(patterns))] if kind.groups else patterns
        for outputs, inputs in shapes if kind.groups else ():
            scales = rng.choice(patterns, (outputs, -(-inputs * kind.groups // ROW)))
            codes = rng.integers(0, 16, (outputs, inputs)).astype(np.uint8)
            tensor_scale = 0.0137 if scale == "e4m3" else 1.0
            weights = coded.lay_out(codes, scales, values, scale, tensor_scale)
            packed = CodedMatrix(weights)
            for batch in (1, 3, 6):
                x = encode(BF16, rng.normal(0, 1, (batch, inputs))).astype(np.uint16)
                assert packed.default_order(6, Path.AMX) is Order.VECTOR or scale == "e8m0"
                expected = coded.multiply(weights, x, Order.VECTOR)
                for path in paths:
                    got = packed.multiply(x, path=path, order=Order.VECTOR, threads=3)
                    assert same(got, expected), (scale, outputs, inputs, batch, path)


def compare_attention(paths, sizes=((2, 4, 50, 32, 3), (2, 3, 600, 40, 70), (1, 16, 33, 64, 40))):
    """Heads, queries of each, tokens, dim and later tokens; both orders against golden."""
    rng = np.random.default_rng(4)
    for heads, group, tokens, dim, late in sizes:
        keys, values = rng.standard_normal((2, heads, tokens, dim)).astype(np.float32)
        queries = encode(BF16, rng.standard_normal((heads * group, dim))).astype(np.uint16)
        tail = encode(BF16, rng.standard_normal((2, heads, late, dim))).astype(np.uint16)
        golden = SparseCache.of(prune_cache(keys, 0.3), prune_cache(values, 0.5))
        cache = Cache(keys, values)
        for k in range(late):
            cache.append(tail[0][:, k : k + 1], tail[1][:, k : k + 1])
        assert all(map(np.array_equal, cache.tail.keys_and_values(), tail))
        for order in Order:
            expected = attend(golden, queries, SparseCache.of(*tail, sparse=False), order=order)
            for path in paths:
                got = cache.attend(queries, order=order, threads=2, path=path)
                assert same(got, expected), (heads, tokens, order, path)
            narrow = np.zeros(queries.shape, np.uint16)
            cache.attend(queries, order=order, threads=2, out=narrow)
            assert np.array_equal(narrow, encode(BF16, expected.view(np.float32)))


def main() -> None:
    paths = available_paths()
    compare_formats(paths)
    compare_wide_range(paths)
    compare_window(paths)
    compare_scales(paths)
    compare_nan_scale(paths)
    compare_schemes(paths)
    compare_coded(paths)
    compare_quantised(paths)
    compare_attention(paths)
    print(" ".join(path.name for path in paths))


if __name__ == "__main__":
    main()
