"""Vector arithmetic of the Anda accelerator against numpy."""

import numpy as np
import pytest

from tilewright.golden.bits import decode
from tilewright.golden.machine.vector import beats, elementwise, reduce_rows
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.vector import Operation, VectorParams
from tilewright.golden.vectors import operands

ALL = np.arange(1 << 16, dtype=np.uint16)


def canonical(values):
    """fp16 patterns with one NaN."""
    bits = values.astype(np.float16).view(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7E00), bits)


# Stated in docs/anda-system.md, in units in the last place of the true result.
BOUNDS = {
    Operation.EXPONENTIAL: 0.545,
    Operation.RECIPROCAL: 0.556,
    Operation.RECIPROCAL_ROOT: 0.577,
}


@pytest.mark.parametrize("operation", BOUNDS)
def test_error_over_every_pattern(operation):
    """In units in the last place, over all finite inputs with finite true results."""
    x = decode(FP16, ALL)
    with np.errstate(all="ignore"):
        true = {
            Operation.EXPONENTIAL: lambda: np.exp(x),
            Operation.RECIPROCAL: lambda: 1 / x,
            Operation.RECIPROCAL_ROOT: lambda: 1 / np.sqrt(x),
        }[operation]()
    usable = np.isfinite(x) & np.isfinite(true) & (np.abs(true) <= 65504)
    true, got = true[usable], decode(FP16, elementwise(operation, ALL[usable]))
    exponent = np.maximum(np.frexp(true)[1] - 1, FP16.min_exponent)
    error = np.abs(got - true) / np.ldexp(1.0, exponent - FP16.mantissa_bits)
    assert 0.5 <= error.max() < BOUNDS[operation], ALL[usable][error.argmax()]


@pytest.mark.parametrize("operation", BOUNDS)
def test_approximations_are_monotonic(operation):
    """Neighbours never change places."""
    x = np.arange(1, 0x7C01, dtype=np.uint16)  # the positive ones, in order
    y = decode(FP16, elementwise(operation, x))
    steps = np.diff(y[np.isfinite(y)])
    assert (steps >= 0).all() if operation is Operation.EXPONENTIAL else (steps <= 0).all()


INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(
    ("operation", "inputs", "results"),
    [
        (Operation.EXPONENTIAL, [0.0, -0.0, INF, -INF, 12, -20], [1, 1, INF, 0.0, INF, 0.0]),
        (Operation.RECIPROCAL, [0.0, -0.0, INF, -INF, 4, -0.5], [INF, -INF, 0.0, -0.0, 0.25, -2]),
        (
            Operation.RECIPROCAL_ROOT,
            [0.0, -0.0, INF, -INF, 4, 2.0**-24, -1],
            [INF, -INF, 0.0, NAN, 0.5, 4096, NAN],
        ),
    ],
)
def test_special_values(operation, inputs, results):
    x = np.array(inputs, np.float16).view(np.uint16)
    assert elementwise(operation, x).tolist() == canonical(np.array(results)).tolist()
    assert int(elementwise(operation, np.uint16(0x7D01))) == 0x7E00


@pytest.mark.parametrize(
    ("operation", "function"),
    [(Operation.ADD, np.add), (Operation.SUBTRACT, np.subtract), (Operation.MULTIPLY, np.multiply)],
)
def test_arithmetic_is_ieee(operation, function):
    a, b = operands((FP16, FP16), np.random.default_rng(1), 20000)
    with np.errstate(all="ignore"):
        want = function(a.view(np.float16), b.view(np.float16))
    assert np.array_equal(elementwise(operation, a, b), canonical(want))


def test_maximum():
    a, b = operands((FP16, FP16), np.random.default_rng(2), 20000)
    with np.errstate(invalid="ignore"):
        want = canonical(np.maximum(a.view(np.float16), b.view(np.float16)))
    got = elementwise(Operation.MAXIMUM, a, b)
    zeros = (want & 0x7FFF) == 0  # numpy may give either zero
    assert np.array_equal(got[~zeros], want[~zeros])
    assert int(elementwise(Operation.MAXIMUM, 0x8000, 0)) == 0
    assert int(elementwise(Operation.MAXIMUM, 0, 0x8000)) == 0
    assert int(elementwise(Operation.MAXIMUM, 0x8000, 0x8000)) == 0x8000


def test_copy_keeps_every_bit():
    assert np.array_equal(elementwise(Operation.COPY, ALL), ALL)


@pytest.mark.parametrize("operation", [Operation.SUM, Operation.DOT])
def test_sums_in_their_order(operation):
    """Every lane on its own, then the lanes of a row as a tree."""
    rng = np.random.default_rng(3)
    words, rows, lanes = 9, 2, 4
    a, b = (rng.standard_t(3, (words, rows, lanes)).astype(np.float16) for _ in "ab")
    active = rng.random((words, lanes)) < 0.8
    scale = np.float16(0.3)
    got = reduce_rows(
        operation, a.view(np.uint16), b.view(np.uint16), active, int(scale.view(np.uint16))
    )
    for row in range(rows):
        sums = np.zeros(lanes, np.float32)
        for w in range(words):
            for lane in range(lanes):
                term = np.float32(a[w, row, lane])
                if operation is Operation.DOT:
                    term *= np.float32(b[w, row, lane])
                if active[w, lane]:
                    sums[lane] += term
            total = (sums[0] + sums[1]) + (sums[2] + sums[3])
            # Exact in float64: 24 + 11 bits.
            want = np.float16(np.float64(total) * np.float64(scale))
            assert got[w, row] == want.view(np.uint16)


def test_largest_skips_what_is_not_active():
    a = np.array([[[1.0, 5.0]], [[-3.0, 2.0]]], np.float16).view(np.uint16)
    active = np.array([[1, 0], [1, 1]])
    got = reduce_rows(Operation.LARGEST, a, a, active, 0).view(np.float16)
    assert got.tolist() == [[1.0], [2.0]]
    none = reduce_rows(Operation.LARGEST, a, a, 0 * active, 0).view(np.float16)
    assert none.tolist() == [[-np.inf], [-np.inf]]


def test_largest_of_a_nan_is_the_canonical_one():
    nan = np.full((1, 1, 1), 0x7DB1, np.uint16)
    assert reduce_rows(Operation.LARGEST, nan, nan, np.ones((1, 1)), 0).tolist() == [[0x7E00]]


def test_inactive_elements_are_zero():
    params = VectorParams(rows=1, group=32)
    one = np.full((1, 2), 0x3C00, np.uint16)
    got = beats(
        params,
        np.array([Operation.COPY]),
        np.array([1]),
        np.array([[0, 1]]),
        np.array([0x3C00]),
        one,
        one,
    )
    assert got["values"].tolist() == [[0, 0x3C00]]


def test_powers_and_their_sum():
    """e^(a - b) of every difference, and the sum that SUM gives of the results."""
    params = VectorParams(rows=2, group=64, fused=True)
    rng = np.random.default_rng(4)
    shape = (50, params.lanes)
    a, b = (rng.standard_t(3, shape).astype(np.float16).view(np.uint16) for _ in "ab")
    first = np.arange(50) % 7 == 0
    active = rng.random((50, params.row_lanes)) < 0.8
    scale = np.full(50, 0x3555, np.uint16)
    got = beats(params, np.full(50, Operation.POWERS), first, active, scale, a, b)
    difference = elementwise(Operation.SUBTRACT, a, b)
    powers = np.where(np.tile(active, 2), elementwise(Operation.EXPONENTIAL, difference), 0)
    assert np.array_equal(got["values"], powers)
    sums = beats(params, np.full(50, Operation.SUM), first, active, scale, powers, b)
    assert np.array_equal(got["sums"], sums["values"][:, :: params.row_lanes])
    # numpy's exponential of the rounded difference, 0.545 units in the last place off at most.
    with np.errstate(over="ignore"):
        true = np.exp(decode(FP16, difference))
    near = np.tile(active, 2) & (true > 2.0**-14) & (true < 60000)
    assert np.abs(decode(FP16, powers)[near] / true[near] - 1).max() < 0.545 * 2**-10


def test_units_have_operations_of_their_own():
    """Only a fused one gives powers, only one that attends several sums."""
    plain, attention = set(VectorParams().operations), {Operation.DOTS, Operation.WEIGH}
    assert set(VectorParams(fused=True).operations) == plain | {Operation.POWERS}
    assert set(VectorParams(attends=True).operations) == plain | attention
    assert plain == set(Operation) - attention - {Operation.POWERS}
    with pytest.raises(ValueError, match=r"^a vector unit is fused or attends, not both$"):
        VectorParams(fused=True, attends=True)


def test_refusals():
    with pytest.raises(ValueError, match=r"^SUM is no operation of single elements$"):
        elementwise(Operation.SUM, 0)
    with pytest.raises(ValueError, match=r"^ADD reduces nothing$"):
        reduce_rows(Operation.ADD, np.zeros((1, 1, 1), int), 0, np.ones((1, 1)), 0)
