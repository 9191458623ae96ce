"""Packing, multiplying and refusing: the Python side of the kernels."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path as FilePath

import numpy as np
import pytest

from tests.support.sparamx import FORMATS, SHAPES, activations, weights
from tilewright.golden.bits import decode, encode
from tilewright.golden.deca import compress, resolve_scheme
from tilewright.golden.params.formats import BF16, FP32
from tilewright.golden.params.sparamx import ElementType, Order, WeightFormat
from tilewright.golden.sparamx import attend, pack, prune_cache
from tilewright.golden.sparamx.attention import SparseCache
from tilewright.kernels import Cache, DecaMatrix, Matrix, Path, available_paths, multiply_all
from tilewright.kernels.build import BuildError, build, compiler
from tilewright.kernels.library import HUGE_PAGE, weight_bytes

BF16_SPARSE = WeightFormat()
ROOT = FilePath(__file__).parents[2]


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("threads", [1, 5])
def test_packing_gives_goldens_arrays(fmt, shape, threads):
    matrix = weights(fmt, shape, 0.5)
    golden, packed = pack(fmt, matrix), Matrix.pack(fmt, matrix, threads=threads).packed
    for name in ("metadata", "values", "strip_starts"):
        assert np.array_equal(getattr(packed, name), getattr(golden, name)), name
    assert packed.check() is packed


def test_float32_is_rounded_to_bf16():
    rng = np.random.default_rng(3)
    matrix = rng.standard_normal((33, 70)).astype(np.float32)
    matrix[0, :3] = [1e-40, 2.0**-133, -0.0]  # rounds to zero, to a subnormal, is zero
    packed = Matrix.pack(BF16_SPARSE, matrix)
    expected = encode(BF16, matrix).astype(np.uint16)
    expected[expected == 0x8000] = 0
    assert np.array_equal(packed.unpack(), expected)


def test_views_are_packed_as_what_they_show():
    matrix = weights(BF16_SPARSE, (40, 64), 0.5)
    for view in (matrix.T, matrix[::2, ::3], matrix[::-1], matrix[:, ::-1], matrix[3:, 5:]):
        assert np.array_equal(Matrix.pack(BF16_SPARSE, view).unpack(), view)
    frozen = matrix.copy()
    frozen.flags.writeable = False
    assert np.array_equal(Matrix.pack(BF16_SPARSE, frozen).unpack(), frozen)


def test_activations_may_be_views():
    matrix = Matrix.pack(BF16_SPARSE, weights(BF16_SPARSE, (40, 64), 0.5))
    x = activations(BF16_SPARSE, 6, 128)
    for view in (x[:, :64], x[::2, 32:96], x[::-1, :64], x[:, ::2]):
        expected = matrix.multiply(np.ascontiguousarray(view))
        assert np.array_equal(matrix.multiply(view), expected)


@pytest.mark.parametrize("path", list(Path))
@pytest.mark.parametrize("batch", [1, 7])
def test_the_number_of_threads_changes_no_bit(path, batch):
    if path not in available_paths():
        path = Path.PORTABLE
    matrix = Matrix.pack(BF16_SPARSE, weights(BF16_SPARSE, (200, 96), 0.7))
    x = activations(BF16_SPARSE, batch, 96)
    first = matrix.multiply(x, threads=1, path=path)
    for threads in (2, 3, 8, 40):
        assert np.array_equal(matrix.multiply(x, threads=threads, path=path), first)


def test_bf16_output():
    matrix = Matrix.pack(BF16_SPARSE, weights(BF16_SPARSE, (21, 64), 0.5))
    x = activations(BF16_SPARSE, 3, 64)
    sums = decode(FP32, matrix.multiply(x)).astype(np.float32)
    out = np.zeros((3, 21), np.uint16)
    assert matrix.multiply(x, out=out) is out
    assert np.array_equal(out, encode(BF16, sums))
    room = np.zeros((3, 40), np.float32)  # rows of a larger array
    matrix.multiply(x, out=room[:, 10:31])
    assert np.array_equal(room[:, 10:31], sums)
    assert not room[:, :10].any() and not room[:, 31:].any()


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_bound_calls_read_their_operands_anew(fmt):
    matrix = Matrix.pack(fmt, weights(fmt, (40, 96), 0.5))
    x = activations(fmt, 2, 96)
    out = np.zeros((2, 40), matrix.result_dtype)
    call = matrix.bind(x, out, threads=2)
    for seed in (5, 6):
        x[...] = activations(fmt, 2, 96, seed)
        call()
        assert np.array_equal(out, matrix.multiply(x))


def test_products_side_by_side():
    shapes = [(16, 64), (100, 33), (1, 1), (64, 300)]
    matrices = [Matrix.pack(BF16_SPARSE, weights(BF16_SPARSE, s, 0.5)) for s in shapes]
    inputs = [activations(BF16_SPARSE, 2, s[1]) for s in shapes]
    for threads in (1, 4):
        got = multiply_all(matrices, inputs, threads=threads)
        for matrix, x, y in zip(matrices, inputs, got, strict=True):
            assert np.array_equal(y, matrix.multiply(x))
    with pytest.raises(ValueError, match=r"^no matrices to multiply$"):
        multiply_all([], [])


def test_pickles_and_deep_copies():
    x = activations(BF16_SPARSE, 1, 64)
    dense = np.ones((16, 64), np.float32)
    for matrix in (
        *(Matrix.pack(fmt, weights(fmt, (20, 64), 0.5)) for fmt in FORMATS),
        DecaMatrix(compress(dense, resolve_scheme("bf8"))),
    ):
        values = x if matrix.result_dtype == np.uint32 else x.astype(np.int8)
        for twin in (deepcopy(matrix), pickle.loads(pickle.dumps(matrix))):
            assert np.array_equal(twin.multiply(values), matrix.multiply(values))
            if isinstance(matrix, Matrix):
                assert not np.shares_memory(twin.packed.values, matrix.packed.values)


def test_threads_of_python_may_share_a_matrix():
    matrix = Matrix.pack(BF16_SPARSE, weights(BF16_SPARSE, (64, 96), 0.5))
    inputs = [activations(BF16_SPARSE, 1 + k % 3, 96, seed=k) for k in range(8)]
    expected = [matrix.multiply(x) for x in inputs]

    def work(k):
        return all(np.array_equal(matrix.multiply(inputs[k]), expected[k]) for _ in range(100))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


FORK = """
import os, numpy as np
from tilewright.golden.params.sparamx import WeightFormat
from tilewright.kernels import Matrix
matrix = Matrix.pack(WeightFormat(), np.full((64, 32), 0x3F80, np.uint16), threads=3)
x = np.full((1, 32), 0x3F80, np.uint16)
first = matrix.multiply(x, threads=3).view(np.float32)
child = os.fork()
again = matrix.multiply(x, threads=3).view(np.float32)
good = (first == 32).all() and (again == 32).all()
if child == 0:
    os._exit(0 if good else 1)
assert good and os.waitpid(child, 0)[1] == 0
"""


def test_a_fork_has_threads_of_its_own():
    """In a process of its own: this one has threads that a fork would not copy."""
    subprocess.run([sys.executable, "-c", FORK], cwd=ROOT, check=True, timeout=60)


def test_large_arrays_begin_on_a_large_page():
    area = weight_bytes(HUGE_PAGE + 5)
    assert area.ctypes.data % HUGE_PAGE == 0 and area.size == HUGE_PAGE + 5 and not area.any()
    assert weight_bytes(100).ctypes.data % 64 == 0


# --- refusals

NAN = np.zeros((40, 9), np.float32)
NAN[33, 4] = np.nan
HUGE = np.zeros((2, 2), np.float32)
HUGE[1, 0] = 3.4e38  # finite, but no bf16 is that large
INF_BITS = np.zeros((20, 3), np.uint16)
INF_BITS[17, 2] = 0x7F80


@pytest.mark.parametrize(
    ("matrix", "text"),
    [
        (np.zeros(3, np.uint16), r"^a weight matrix has 2 dimensions, not shape \(3,\)$"),
        (np.zeros((0, 4), np.uint16), r"^a weight matrix of shape \(0, 4\) has no weights$"),
        (np.zeros((2, 2)), r"^bf16 weights are uint16 or float32 here, not float64$"),
        (NAN, r"^int8 weights are int8 here, not float32$"),
        (NAN, r"^weight nan at row 33, column 4 is no finite bf16$"),
        (HUGE, r"^weight 3\.39\d*e\+38 at row 1, column 0 is no finite bf16$"),
        (INF_BITS, r"^weight 0x7f80 at row 17, column 2 is NaN or infinite$"),
    ],
)
def test_bad_weights_are_refused(matrix, text):
    fmt = WeightFormat(element=ElementType.INT8) if text.startswith("^int8") else BF16_SPARSE
    with pytest.raises(ValueError, match=text):
        Matrix.pack(fmt, matrix)


@pytest.fixture(scope="module")
def matrix():
    return Matrix.pack(BF16_SPARSE, weights(BF16_SPARSE, (8, 32), 0.5))


X = np.zeros((2, 32), np.uint16)
FROZEN = np.zeros((2, 8), np.uint32)
FROZEN.flags.writeable = False


@pytest.mark.parametrize(
    ("x", "options", "text"),
    [
        (X[:, :31], {}, r"^activations \(2, 31\) do not fit a matrix of 8 outputs and 32 inputs$"),
        (X[0], {}, r"^activations \(32,\) do not fit"),
        (X[:0], {}, r"^activations \(0, 32\) do not fit"),
        (X.astype(np.float32), {}, r"^bf16 activations are uint16 here, not float32$"),
        (X, {"threads": 0}, r"^threads must be 1..1000, not 0$"),
        (X, {"threads": 1.5}, r"^threads must be 1..1000, not 1.5$"),
        (X, {"out": np.zeros((2, 7), np.uint32)}, r"^out is uint32 of \(2, 7\), not uint32 of \(2"),
        (X, {"out": np.zeros((2, 8), np.int8)}, r"^out is int8 of \(2, 8\), not uint32 of"),
        (X, {"out": np.zeros((2, 16), np.uint32)[:, ::2]}, r"^out must be writable, its rows"),
        (X, {"out": FROZEN}, r"^out must be writable, its rows contiguous$"),
    ],
)
def test_bad_operands_are_refused(matrix, x, options, text):
    with pytest.raises(ValueError, match=text):
        matrix.multiply(x, **options)


def test_inconsistent_packed_weights_are_refused():
    packed = pack(BF16_SPARSE, weights(BF16_SPARSE, (20, 70), 0.5))
    for changes, text in [
        ({"values": packed.values[:-1]}, r"^\d+ values for a bitmap of \d+$"),
        ({"shape": (40, 70)}, r"^bitmap of shape \(2, 3, 64\) for a matrix whose bitmap has"),
        ({"strip_starts": packed.strip_starts + 1}, r"^strip starts disagree with the bitmap$"),
        ({"values": packed.values.astype(np.int8)}, r"^values are int8, not uint16$"),
    ]:
        broken = type(packed)(**{**vars(packed), **changes})
        with pytest.raises(ValueError, match=text):
            Matrix(broken)


def test_a_path_that_cannot_run_is_refused(monkeypatch):
    monkeypatch.setattr("tilewright.kernels.library.available_paths", lambda: (Path.PORTABLE,))
    matrix = Matrix.pack(BF16_SPARSE, weights(BF16_SPARSE, (8, 32), 0.5))
    with pytest.raises(ValueError, match=r"^path AMX cannot run here: no such instructions$"):
        matrix.multiply(X, path=Path.AMX)


def test_deca_refusals():
    with pytest.raises(ValueError, match=r"^int8_tile: int8 tiles have no software kernel$"):
        DecaMatrix(compress(np.ones((16, 64), np.float32), resolve_scheme("int8_tile")))
    deca = DecaMatrix(compress(np.ones((16, 64), np.float32), resolve_scheme("bf8")))
    with pytest.raises(ValueError, match=r"^activations \(1, 63\) do not fit a matrix of 16"):
        deca.multiply(np.zeros((1, 63), np.uint16))
    with pytest.raises(ValueError, match=r"^bf16 activations are uint16 here, not int16$"):
        deca.multiply(np.zeros((1, 64), np.int16))


# --- attention


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize("tail", [False, True])
def test_attention_has_goldens_bits(tail, order):
    rng = np.random.default_rng(4)
    heads, group, tokens, dim = 2, 4, 50, 32
    keys, values = rng.standard_normal((2, heads, tokens, dim)).astype(np.float32)
    queries = encode(BF16, rng.standard_normal((heads * group, dim))).astype(np.uint16)
    late = encode(BF16, rng.standard_normal((2, heads, 3, dim))).astype(np.uint16)
    golden = SparseCache.of(prune_cache(keys, 0.3), prune_cache(values, 0.5))
    golden_tail = SparseCache.of(*late, sparse=False) if tail else None
    cache = Cache(keys, values)
    if tail:
        cache.append(*late)
    got = cache.attend(queries, threads=2, order=order)
    assert np.array_equal(got, attend(golden, queries, golden_tail, order=order))
    assert cache.size < keys.nbytes  # both, in bf16 with 60% of the values: less than fp32 keys


def test_attention_refusals():
    cache = Cache(*np.ones((2, 2, 20, 16), np.float32))
    for queries, text in [
        (np.zeros((3, 16), np.uint16), r"^queries \(3, 16\) do not fall into 2 groups of heads of"),
        (np.zeros((4, 15), np.uint16), r"^queries \(4, 15\) do not fall into 2 groups of heads of"),
        (np.zeros((4, 16), np.int16), r"^bf16 queries are uint16 here, not int16$"),
    ]:
        with pytest.raises(ValueError, match=text):
            cache.attend(queries)
    with pytest.raises(ValueError, match=r"^out must be a contiguous array of fp32 or bf16 of"):
        cache.attend(np.zeros((4, 16), np.uint16), out=np.zeros((4, 15), np.uint16))
    with pytest.raises(ValueError, match=r"^keys \(1, 1, 16\) do not fit a tail of 2 heads of 16$"):
        cache.append(*np.zeros((2, 1, 1, 16), np.uint16))


# --- building


def test_no_compiler_says_what_to_do(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(
        BuildError, match=r"^no C\+\+ compiler found .*: install g\+\+ or clang\+\+"
    ):
        compiler()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(BuildError, match=r"looked for no-such-compiler\): install"):
        compiler()


def test_a_compiler_that_knows_no_amx_builds_the_rest(monkeypatch, tmp_path):
    monkeypatch.setattr("tilewright.kernels.build.TILE_FLAGS", ("-mno-such-flag",))
    monkeypatch.setattr("tilewright.kernels.build.X86", {"amx.cpp": ("-mno-such-flag",)})
    # Nothing of this library is run; tests/kernels/test_sanitizers.py builds the whole rest.
    monkeypatch.setattr("tilewright.kernels.build.PORTABLE", {"pool.cpp": ()})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    library = build()
    entry = library.parent
    assert library.is_file() and entry.parent == tmp_path / "tilewright" / "kernels"
    left = {p for p in entry.parent.iterdir() if p.suffix != ".lock"}
    assert left == {entry}  # no scratch files
    monkeypatch.setattr("tilewright.kernels.build.PORTABLE", {"amx.cpp": ("-mno-such-flag",)})
    with pytest.raises(BuildError, match=r"failed with 1: .*no-such-flag"):
        build()


def test_order_follows_batch_and_depth():
    deep = Matrix.pack(BF16_SPARSE, weights(BF16_SPARSE, (8, 512), 0.5))
    assert deep.default_order(2, Path.AMX) is Order.VECTOR
    assert deep.default_order(3, Path.AMX) is Order.TILE
    assert deep.default_order(64, Path.AVX512) is Order.VECTOR
    shallow = Matrix.pack(BF16_SPARSE, weights(BF16_SPARSE, (8, 511), 0.5))
    assert shallow.default_order(64, Path.AMX) is Order.VECTOR
