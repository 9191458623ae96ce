"""The sparse format, the instructions and the kernels: against plain loops and each other."""

import numpy as np
import pytest

from tests.support.claims import claim
from tests.support.sparamx import FORMATS, SHAPES, activations, weights
from tilewright.golden.amx import vdpbf16ps, vpdpbusd
from tilewright.golden.arith import add, fma
from tilewright.golden.bits import decode, encode
from tilewright.golden.params.arith import AMX_RULES
from tilewright.golden.params.formats import BF16, FP32
from tilewright.golden.params.sparamx import ElementType, Order, WeightFormat
from tilewright.golden.sparamx import (
    Core,
    SparseCache,
    attend,
    multiply,
    pack,
    prune_cache,
    tile_instructions,
    unpack,
)
from tilewright.golden.sparamx.attention import KEY_SPARSITY, VALUE_SPARSITY, attention_weights
from tilewright.golden.sparamx.linear import row_masks, tile_rows, vector_row_starts
from tilewright.golden.sparamx.packed import balance


def plain_tiles(fmt, matrix):
    """Element by element: what stands in which row of which tile."""
    strips, tiles = fmt.grid(matrix.shape)
    g = fmt.depths_per_row
    out = np.zeros((strips, tiles, 16, fmt.row_elements), matrix.dtype)
    for n in range(matrix.shape[0]):
        for k in range(matrix.shape[1]):
            tile, rest = divmod(k, fmt.tile_depth)
            out[n // 16, tile, rest // g, n % 16 * g + rest % g] = matrix[n, k]
    return out


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_bitmap_and_values_are_the_tiles_in_order(fmt, shape):
    matrix = weights(fmt, shape, 0.5)
    packed = pack(fmt, matrix).check()
    tiles = plain_tiles(fmt, matrix)
    if fmt.sparse:
        assert packed.values.tolist() == tiles[tiles != 0].tolist()
        bits = np.unpackbits(packed.metadata.reshape(-1), bitorder="little")
        assert bits.tolist() == (tiles != 0).reshape(-1).tolist()
    else:
        assert packed.values.tolist() == tiles.reshape(-1).tolist()
        assert packed.metadata.size == 0
    assert np.array_equal(unpack(packed), matrix)


def test_tile_orders_are_the_papers():
    """Pairs of bf16 and quads of int8 side by side; 16 rows of 512 bits; one bit per weight."""
    bf16, int8 = WeightFormat(), WeightFormat(element=ElementType.INT8)
    assert bf16.row_elements == claim("sparamx.amx.bf16_per_row")
    assert int8.row_elements == claim("sparamx.amx.int8_per_row")
    assert bf16.tile_elements == 16 * bf16.row_elements == 512
    assert int8.tile_elements == claim("sparamx.int8.weights_per_tile")
    assert bf16.metadata_bytes * 8 == claim("sparamx.format.metadata_bits_per_tile")
    assert (bf16.depths_per_row, int8.depths_per_row) == (2, 4)


@pytest.mark.parametrize("sparsity", [0.0, 0.5, 1.0])
def test_size_is_a_bit_per_weight_and_the_nonzeros(sparsity):
    fmt = WeightFormat()
    packed = pack(fmt, weights(fmt, (64, 128), sparsity))
    nonzeros = round((1 - sparsity) * 64 * 128)
    assert packed.size == 64 * 128 // 8 + 2 * nonzeros


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_bytes_of_a_tile(fmt):
    packed = pack(fmt, weights(fmt, (16, fmt.tile_depth), 0.5))
    kind = "50" if fmt.sparse else "dense"
    assert packed.size == claim("sparamx.tile_bytes")[f"{fmt.element.value}_{kind}"]


def test_negative_zero_is_a_zero():
    packed = pack(WeightFormat(), np.full((16, 32), 0x8000, np.uint16))
    assert packed.values.size == 0 and not unpack(packed).any()


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 16, 100])
def test_partition_is_balanced_by_bytes(threads):
    fmt = WeightFormat()
    matrix = weights(fmt, (320, 64), 0.5)
    matrix[:160] = 0  # the upper half has no values, only bitmap
    packed = pack(fmt, matrix)
    bounds = packed.partition(threads)
    assert bounds[0] == 0 and bounds[-1] == 20 and (np.diff(bounds) >= 0).all()
    costs = np.diff(packed.costs)
    shares = np.add.reduceat(np.append(costs, 0), np.minimum(bounds[:-1], 19))
    shares[np.diff(bounds) == 0] = 0
    assert shares.sum() == costs.sum() == packed.size
    assert shares.max() <= packed.size / threads + costs.max()


def test_partition_refuses_no_threads():
    with pytest.raises(ValueError, match=r"^threads must be at least 1, not 0$"):
        balance(np.array([0, 1]), 0)


@pytest.mark.parametrize(
    ("matrix", "text"),
    [
        (np.zeros(3, np.uint16), r"^a weight matrix has 2 dimensions, not shape \(3,\)$"),
        (np.zeros((0, 4), np.uint16), r"^a weight matrix of shape \(0, 4\) has no weights$"),
        (np.zeros((2, 2), np.float32), r"^bf16 weights are uint16 here, not float32$"),
        (np.array([[0, 0], [0, 0x7FC0]], np.uint16), r"^weight 0x7fc0 at row 1, column 1 is NaN"),
        (np.array([[0xFF80]], np.uint16), r"^weight 0xff80 at row 0, column 0 is NaN or infinite$"),
    ],
)
def test_bad_weights_are_refused(matrix, text):
    with pytest.raises(ValueError, match=text):
        pack(WeightFormat(), matrix)


def test_bad_activations_are_refused():
    packed = pack(WeightFormat(), weights(WeightFormat(), (4, 8), 0.5))
    with pytest.raises(ValueError, match=r"^activations \(1, 7\) do not fit a matrix of 4 outputs"):
        multiply(packed, np.zeros((1, 7), np.uint16), Order.TILE)
    with pytest.raises(ValueError, match=r"^activations \(0, 8\) do not fit"):
        multiply(packed, np.zeros((0, 8), np.uint16), Order.TILE)
    with pytest.raises(ValueError, match=r"^bf16 activations are uint16 here, not int8$"):
        multiply(packed, np.zeros((1, 8), np.int8), Order.TILE)
    with pytest.raises(ValueError, match=r"^element must be an ElementType, not 'bf16'$"):
        WeightFormat(element="bf16")


# --- instructions


def test_vdpbf16ps_adds_the_odd_product_first():
    """Measured on an Intel processor (see docs/sparamx.md); the recorded vectors hold it too."""
    one, big, minus = 0x3F80, 0x4B80, 0xCB80  # 1, 2^24, -2^24
    c = encode(FP32, np.array([1.0])).astype(np.uint32)
    pair = np.array([one, one], np.uint16)
    assert decode(FP32, vdpbf16ps(c, pair, np.array([minus, big], np.uint16)))[0] == 0.0
    assert decode(FP32, vdpbf16ps(c, pair, np.array([one, minus], np.uint16)))[0] == 2 - 2**24


def test_vpdpbusd_is_exact_and_wraps():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (5, 12)), rng.integers(-128, 128, (5, 12))
    c = rng.integers(-(1 << 31), 1 << 31, (5, 3))
    exact = c + (a * b).reshape(5, 3, 4).sum(axis=-1)
    got = vpdpbusd(c, a.astype(np.uint8), b.astype(np.int8))
    assert np.array_equal(got, (exact + (1 << 31)) % (1 << 32) - (1 << 31))


def test_registers_of_other_sizes_are_refused():
    c, a = np.zeros(2, np.uint32), np.zeros(4, np.uint16)
    with pytest.raises(ValueError, match=r"^registers \(2,\), \(4,\) and \(3,\) do not multiply$"):
        vdpbf16ps(c, a, a[:3])
    with pytest.raises(ValueError, match=r"^registers \(2,\), \(4,\) and \(4,\) do not multiply$"):
        vpdpbusd(c, a, a)


@pytest.mark.parametrize("element", list(ElementType))
def test_the_papers_prefix_sum_finds_the_same_rows(element):
    fmt = WeightFormat(element=element)
    packed = pack(fmt, weights(fmt, (40, 200), 0.6))
    masks = row_masks(packed)
    for k, rows in enumerate(tile_rows(packed)):
        core = Core()
        got = vector_row_starts(core, masks[:, k], rows.starts[:, 0])
        assert np.array_equal(got, rows.starts)
        # bf16: one register of 16 masks, four steps. int8: two of eight, three steps each.
        registers, steps = 1, claim("sparamx.sparse.prefix_steps")
        if element is ElementType.INT8:
            registers, steps = claim("sparamx.int8.metadata_registers"), 3
        assert core.counts == {
            "load": registers,
            "store": 2 * registers,
            "vpopcnt": registers,
            "valign": steps * registers,
            "vpadd": steps * registers,
        }


# --- kernels


def chained(a, w):
    """Fused sums (rows, outputs, parts, chains) of operands (..., parts, steps, chains)."""
    total = np.zeros((len(a), len(w), a.shape[1], a.shape[3]), np.uint32)
    for k in range(a.shape[2]):
        one, other = a[:, np.newaxis, :, k], w[np.newaxis, :, :, k]
        total = fma(BF16, BF16, FP32, FP32, one, other, total, AMX_RULES)
    return total


def plus(p, q):
    return add(FP32, FP32, FP32, p, q, AMX_RULES)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize(
    ("shape", "batch"), [((1, 1), 1), ((17, 70), 3), ((32, 64), 17), ((2, 2090), 1)]
)
def test_kernels_on_the_plain_matrix(fmt, order, shape, batch):
    """One product at a time in the documented order, from the matrix before packing."""
    matrix, x = weights(fmt, shape, 0.5), activations(fmt, batch, shape[1])
    got = multiply(pack(fmt, matrix), x, order)
    if fmt.element is ElementType.INT8:
        assert np.array_equal(got, x.astype(np.int64) @ matrix.T.astype(np.int64))
        return
    depth = -(-shape[1] // 32) * 32
    w = np.pad(matrix, [(0, 0), (0, depth - shape[1])])
    a = np.pad(x, [(0, 0), (0, depth - shape[1])])
    if order is Order.TILE:
        sums = chained(a.reshape(batch, -1, 16, 2), w.reshape(shape[0], -1, 16, 2))
        parts = plus(sums[..., 0], sums[..., 1])
    else:  # segments of 1024, the last one shorter
        whole = depth // 1024 * 1024
        pieces = [(slice(0, whole), 1024), (slice(whole, depth), depth - whole)]
        found = []
        for piece, length in pieces:
            if piece.start == piece.stop:
                continue
            columns = [m[:, piece].reshape(len(m), -1, length // 8, 4, 2) for m in (a, w)]
            # The odd element of each pair first.
            sums = chained(
                *(m[..., ::-1].swapaxes(3, 4).reshape(*m.shape[:2], -1, 4) for m in columns)
            )
            found.append(plus(plus(sums[..., 0], sums[..., 1]), plus(sums[..., 2], sums[..., 3])))
        parts = np.concatenate(found, axis=-1)
    expected = np.zeros(parts.shape[:2], np.uint32) if order is Order.TILE else parts[..., 0]
    for k in range(order is not Order.TILE, parts.shape[-1]):
        expected = plus(expected, parts[..., k])
    assert np.array_equal(got, expected)


def test_instructions_of_a_tile():
    """16 rows, each expanded and stored, or expanded and multiplied."""
    bf16, dense = WeightFormat(), WeightFormat(sparse=False)
    rows = claim("sparamx.sparse.expands_per_tile")
    assert tile_instructions(bf16, Order.TILE) == {
        "vpexpandw": rows,
        "store": 16,
        "tileloadd": 2,
        "tdpbf16ps": 1,
    }
    assert tile_instructions(bf16, Order.TILE, batch=32) == {
        "vpexpandw": 16,
        "store": 16,
        "tileloadd": 3,
        "tdpbf16ps": 2,
    }
    assert tile_instructions(dense, Order.TILE) == {"tileloadd": 2, "tdpbf16ps": 1}
    assert tile_instructions(bf16, Order.VECTOR, batch=3) == {"vpexpandw": 16, "vdpbf16ps": 48}
    assert tile_instructions(dense, Order.VECTOR) == {"load": 16, "vdpbf16ps": 16}
    int8 = WeightFormat(element=ElementType.INT8)
    assert tile_instructions(int8, Order.VECTOR) == {"vpexpandb": 16, "vpdpbusd": 16}
    core = Core()
    core.counts.update(tile_instructions(bf16, Order.TILE))
    assert core.vector_operations == 32


# --- attention


def test_default_sparsity_is_the_papers():
    wanted = claim("sparamx.kv.sparsity")
    assert (wanted["keys"], wanted["values"]) == (KEY_SPARSITY, VALUE_SPARSITY)


def cache_of(heads, tokens, dim, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(0, 1, (heads, tokens, dim)).astype(np.float32) for _ in "kv")


def test_pruning_drops_the_smallest_of_the_whole_layer():
    keys, _ = cache_of(2, 10, 8)
    keys[0] /= 100  # nearly all of this head goes
    pruned = prune_cache(keys, 0.3)
    kept = pruned != 0
    assert np.count_nonzero(~kept) == round(0.3 * keys.size)
    assert np.abs(keys[kept]).min() > np.abs(keys[~kept]).max()
    assert not kept[0].all() and kept[1].all()
    assert np.array_equal(pruned[kept], encode(BF16, keys[kept]))
    with pytest.raises(ValueError, match=r"^sparsity must be 0..1, not 1.5$"):
        prune_cache(keys, 1.5)


@pytest.mark.parametrize("tail", [0, 5])
def test_attention_is_softmax_of_the_kernels_scores(tail):
    heads, group, tokens, dim = 2, 3, 21, 16
    keys, values = cache_of(heads, tokens + tail, dim)
    k, v = prune_cache(keys, 0.3), prune_cache(values, 0.5)
    rng = np.random.default_rng(9)
    q = encode(BF16, rng.normal(0, 1, (heads * group, dim))).astype(np.uint16)
    split = SparseCache.of(k[:, :tokens], v[:, :tokens])
    late = SparseCache.of(k[:, tokens:], v[:, tokens:], sparse=False) if tail else None
    got = decode(FP32, attend(split, q, late))
    for h in range(heads * group):
        kh, vh = decode(BF16, k[h // group]), decode(BF16, v[h // group])
        scores = kh @ decode(BF16, q[h]) / np.sqrt(dim)
        r = np.exp(scores - scores.max())
        exact = (r / r.sum()) @ vh
        # bf16 weights of the softmax: 8 bits of precision each.
        assert np.abs(got[h] - exact).max() <= 2.0**-8 * np.abs(vh).max()
    whole = attend(SparseCache.of(k, v), q)
    if not tail:
        assert np.array_equal(decode(FP32, whole), got)


def test_attention_refusals():
    keys = np.zeros((2, 3, 4), np.uint16)
    with pytest.raises(ValueError, match=r"^keys \(2, 3, 4\) and values \(2, 3\) must both be"):
        SparseCache.of(keys, keys[..., 0])
    with pytest.raises(ValueError, match=r"^queries \(3, 4\) do not fall into 2 groups of heads$"):
        attend(SparseCache.of(keys, keys), np.zeros((3, 4), np.uint16))


def test_attention_weights_round_once():
    scores = encode(FP32, np.array([[0.0, 0.0, 0.0, 0.0]])).astype(np.uint32)
    assert decode(BF16, attention_weights(scores, 64)).tolist() == [[0.25] * 4]
