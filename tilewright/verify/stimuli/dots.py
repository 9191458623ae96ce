"""Dot products for the benches of PEs: corners, close sums, extremes, ordinary ones."""

from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.bits import encode
from tilewright.golden.params.formats import FP16, FloatFormat
from tilewright.golden.params.pe import DecaLaneParams, GroupScaledParams, PEParams
from tilewright.golden.payload import Columns
from tilewright.golden.vectors import corners

BENCH_BEATS = 4  # beats of every dot product that the benches send
FP16_ONE = FP16.bias << FP16.mantissa_bits
# Powers of integer significands: from the smallest subnormal to the largest number.
FP16_POWERS = (FP16.min_exponent - FP16.mantissa_bits, FP16.max_exponent - FP16.mantissa_bits)


def beats_of(columns: Columns) -> Columns:
    """Return the columns of whole dot products, with an axis of beats.

    Beats of a dot product that is not complete have no result yet and are left out.
    """
    whole = len(columns["last"]) // BENCH_BEATS * BENCH_BEATS
    return {
        name: values[:whole].reshape(-1, BENCH_BEATS, *values.shape[1:])
        for name, values in columns.items()
    }


def flags(params: PEParams, rng: Generator, cases: int, every: int = 1) -> Columns:
    """Draw ``last``, every BENCH_BEATS beats, and the ends of groups of any length that fits.

    A group has a multiple of ``every`` beats.
    """
    position = np.arange(cases) % BENCH_BEATS
    last = position == BENCH_BEATS - 1
    limit = params.group // params.lanes
    chance = rng.choice([0.0, 0.4, 1.0], -(-cases // BENCH_BEATS))
    end = last | (rng.random(cases) < np.repeat(chance, BENCH_BEATS)[:cases])
    end &= position % every == every - 1
    end |= position % limit == limit - 1
    return {"group_end": end.astype(np.int64), "last": last.astype(np.int64)}


def scales(rng: Generator, cases: int | tuple[int, ...], *, edges: float = 0.05) -> NDArray:
    """Draw mostly ordinary scales, and some at fp16's edges."""
    ordinary = encode(FP16, np.exp2(rng.uniform(-12, 4, cases)) * rng.choice([-1, 1], cases))
    return np.where(rng.random(cases) < edges, rng.choice(corners(FP16), cases), ordinary)


def floats(rng: Generator, cases: int, lanes: int) -> NDArray:
    """Draw fp16 patterns; a dot product is ordinary, close in size, of any size, tiny or edgy."""
    results = -(-cases // BENCH_BEATS)
    shape = (results, BENCH_BEATS, lanes)
    kind = rng.choice(6, (results, 1, 1), p=[0.15, 0.15, 0.3, 0.1, 0.15, 0.15])
    heavy = encode(FP16, rng.standard_t(2, shape) * 2)
    close = encode(FP16, rng.choice([-1, 1], shape) * (1 + rng.random(shape) / 64))
    any_size = encode(FP16, rng.choice([-1, 1], shape) * np.exp2(rng.uniform(-24, 15, shape)))
    tiny = rng.integers(0, 1 << 11, shape) | (rng.integers(0, 2, shape) << 15)
    sparse = np.where(rng.random(shape) < 0.7, 0, any_size)
    edge = np.where(rng.random(shape) < 0.1, rng.choice(corners(FP16), shape), any_size)
    values = np.choose(kind, [heavy, close, any_size, tiny, sparse, edge])
    return values.reshape(-1, lanes)[:cases]


def hide_large(rng: Generator, patterns: NDArray, partners: NDArray) -> NDArray:
    """Return ``partners`` with 0 for every large pattern, in a third of the dot products.

    Zero products must not raise the exponent to which small ones are aligned.
    """
    results = -(-len(patterns) // BENCH_BEATS)
    chosen = np.repeat(rng.random(results) < 1 / 3, BENCH_BEATS)[: len(patterns), np.newaxis]
    large = (patterns >> FP16.mantissa_bits) & 0x1F >= FP16.bias - 5
    return np.where(chosen & large, 0, partners)


def weights(params: GroupScaledParams | DecaLaneParams, rng: Generator, cases: int) -> NDArray:
    """Draw integers, the extremes often enough to fill whole groups."""
    fmt = params.weight_format
    shape = (cases, params.lanes)
    values = rng.integers(fmt.minimum, fmt.maximum, shape, endpoint=True)
    extreme = rng.random((cases, 1)) < 0.3
    return np.where(extreme, rng.choice([fmt.minimum, fmt.maximum, 0]), values)


def take_back(rng: Generator, columns: Columns, sign: int, scale_fraction: int) -> Columns:
    """Return ``columns`` where every fourth dot product takes back what its first beat added.

    All but the last bit of one activation, times a weight of any size: a sum of few bits is left
    far below those that cancelled. ``sign`` is a bit of an activation, ``scale_fraction`` the bits
    of a scale below its exponent: half of the scales are powers of two.
    """
    changed = {name: values.copy() for name, values in columns.items()}
    first = np.arange(0, len(columns["last"]) - BENCH_BEATS + 1, 4 * BENCH_BEATS)
    short = first[rng.random(len(first)) < 0.5]
    changed["scale"][short] -= changed["scale"][short] & scale_fraction
    # Where no group ended the exponent was arbitrary; now it counts.
    exponent = changed["exponent"][first]
    field = exponent % 32
    changed["exponent"][first] = exponent - field + np.clip(field, 1, 30)
    for name in changed.keys() - {"last"}:
        changed[name][first + 1] = changed[name][first]
    changed["group_end"][first] = changed["group_end"][first + 1] = 1
    changed["activation"][first + 1] ^= sign
    changed["activation"][first + 1, 0] ^= 1
    for later in range(2, BENCH_BEATS):
        changed["activation"][first + later] = 0
    return changed


def unused(rng: Generator, cases: int) -> Columns:
    """Draw exponents and scales for PEs that ignore them."""
    return {"exponent": rng.integers(0, 32, cases), "scale": rng.integers(0, 1 << FP16.bits, cases)}


class Lone(NamedTuple):
    """Products left * right * 2^power that are the only ones of their groups, one array each.

    ``place`` counts the groups of dot product ``result``, which has no other products.
    """

    result: NDArray[np.int64]
    place: NDArray[np.int64]
    left: NDArray[np.int64]  # may be negative
    right: NDArray[np.int64]
    power: NDArray[np.int64]


def lone_products(
    rng: Generator,
    results: int,
    places: int,
    bits: tuple[int, int],
    powers: tuple[int, int],
    *,
    small_first: bool = False,
) -> Lone:
    """Draw every fourth of some dot products: few products whose sum asks for exact rounding.

    In turn: halfway between two subnormals of fp16; the least difference that two products can
    have, so that all other bits cancel; halfway again; a small product and a large one that is
    taken back, the large one first or, always with ``small_first``, second; a power of two, to
    which a carry runs through all bits. ``bits`` and ``powers`` are what an element takes of the
    two factors, and of their powers of two together.
    """
    rows = []
    for result in range(1, results, 4):
        kind = result // 4 % 5
        if kind == 1 and places > 1:
            terms = _least_difference(rng, bits, powers)[: places // 2 * 2]
        elif kind == 3 and places > 2:
            terms = _taken_back(rng, bits, powers, small_first)
        elif kind == 4 and places > 1:
            terms = _full(rng, bits, powers)
        else:
            terms = _halfway(rng, bits, powers)[:places]
        sign = rng.choice([-1, 1])
        rows += [(result, k, sign * left, *others) for k, (left, *others) in enumerate(terms)]
    return Lone(*np.array(rows, np.int64).reshape(-1, len(Lone._fields)).T)


Product = tuple[int, int, int]  # left, right, power


def _halfway(rng: Generator, bits: tuple[int, int], powers: tuple[int, int]) -> list[Product]:
    """An odd multiple of half of the smallest subnormal; in a third of cases a little off it."""
    length = int(rng.integers(3, FP16.significand_bits, endpoint=True))
    left_bits = min(bits[0], length)
    left = int(rng.integers(1 << left_bits)) | 1
    right = int(rng.integers(1 << min(bits[1], length - left_bits))) | 1
    if left * right % 4 == 3 and left_bits > 1 and rng.random() < 0.7:
        left ^= 2  # above an even one, to which it is rounded down: every other bit must be seen
    half = FP16.min_exponent - FP16.mantissa_bits - 1
    beside = (int(rng.choice([-1, 1])), 1, max(half - 11, powers[0]))
    return [(left, right, half), beside] if rng.random() < 1 / 3 else [(left, right, half)]


def _least_difference(
    rng: Generator, bits: tuple[int, int], powers: tuple[int, int]
) -> list[Product]:
    """Products, one or two pairs of any length, that differ by the least that they can."""
    power = int(rng.integers(max(-24, powers[0]), min(0, powers[1]), endpoint=True))
    terms = []
    for _ in range(2):
        length = int(rng.integers(1, min(bits), endpoint=True))
        x, y = (int(n) for n in rng.integers(1 << (length - 1), 1 << length, 2))
        a, b = close_factors(rng, x, y, bits[1])
        terms += [(x, a, power), (-y, b, power)]
    return terms


def close_factors(rng: Generator, x: int, y: int, bits: int) -> tuple[int, int]:
    """Numbers a and b of up to ``bits`` bits with a * x - b * y equal to what divides x and y.

    The largest there are, or of any length. x and y have at most ``bits`` bits.
    """
    common = gcd(x, y)
    x, y = x // common, y // common
    a = pow(x, -1, y) if y > 1 else 1
    b = (a * x - 1) // y
    limit = (1 << bits) - 1
    most = min((limit - a) // y, (limit - b) // x)
    more = most if rng.random() < 0.5 else most >> int(rng.integers(most.bit_length() + 1))
    return a + more * y, b + more * x


def _taken_back(
    rng: Generator, bits: tuple[int, int], powers: tuple[int, int], small_first: bool
) -> list[Product]:
    """A small product under a large one: near, so that bits of it are left, or anywhere."""
    left, right = (int(rng.integers(1, 1 << n)) for n in bits)
    if rng.random() < 0.5:
        under, other = (int(rng.integers(1, 1 << n)) for n in bits)
        power = int(rng.integers(max(-24 - sum(bits), powers[0]), -sum(bits)))
        high = int(rng.integers(power, min(power + 26, powers[1]), endpoint=True))
    else:
        under, other, power = 1, 1, powers[0]
        high = powers[1] - int((powers[1] - power) * rng.random() * rng.random())
    small, large, back = (under, other, power), (left, right, high), (-left, right, high)
    return [small, large, back] if small_first or rng.random() < 0.5 else [large, small, back]


def _full(rng: Generator, bits: tuple[int, int], powers: tuple[int, int]) -> list[Product]:
    """A product below a power of two, and what it lacks."""
    left = int(rng.integers(1 << (bits[0] - 1), 1 << bits[0]))
    length = int(rng.integers(bits[0], bits[0] + bits[1]))
    right, rest = divmod(1 << length, left)
    right = min(right, (1 << bits[1]) - 1)  # where the left one is a power of two itself
    power = int(rng.integers(max(-24, powers[0]), min(15 - length, powers[1])))
    return [(left, right, power), (rest, 1, power)]


def shared_powers(
    power: NDArray, own: tuple[int, int], other: tuple[int, int]
) -> tuple[NDArray, NDArray]:
    """Two exponents within their bounds whose sum is ``power``, of about the same size."""
    low, high = np.maximum(own[0], power - other[1]), np.minimum(own[1], power - other[0])
    first = np.clip(power // 2, low, high)
    return first, power - first


def put_alone(
    rng: Generator,
    columns: Columns,
    lone: Lone,
    words: Columns,
    empty: dict[str, int],
    weight_beats: int = 1,
) -> Columns:
    """Return ``columns`` where lone products are the only ones of their dot products.

    ``words`` are columns of the beats that end their groups; a word of an operand that every lane
    has goes to one of them. ``empty`` is the content of all other beats.
    """
    changed = {name: values.copy() for name, values in columns.items()}
    beats = (np.unique(lone.result) * BENCH_BEATS)[:, np.newaxis] + np.arange(BENCH_BEATS)
    for name, value in empty.items():
        changed[name][beats] = value
    changed["group_end"][beats] = np.arange(BENCH_BEATS) % weight_beats == weight_beats - 1
    lane = rng.integers(columns["activation"].shape[1], size=len(lone.result))
    end = lone.result * BENCH_BEATS + (lone.place + 1) * weight_beats - 1
    for name, values in words.items():
        changed[name][(end, lane) if changed[name].ndim > 1 else end] = values
    for earlier in range(1, weight_beats):  # activations stay for all bits of their weights
        changed["activation"][end - earlier, lane] = words["activation"]
    return _first_is_zero(changed, empty)


def infinities(
    rng: Generator, columns: Columns, fmt: FloatFormat, weights: tuple[int, int], empty: dict
) -> Columns:
    """Return ``columns`` with dot products of an infinity and the largest of the other sign.

    These are in the same beat and in the next one. ``weights`` are of the infinity and of the
    others: however large what is subtracted, infinity stays.
    """
    changed = {name: values.copy() for name, values in columns.items()}
    first = np.arange(3, len(columns["last"]) // BENCH_BEATS, 16) * BENCH_BEATS
    for name, value in empty.items():
        changed[name][first[:, np.newaxis] + np.arange(BENCH_BEATS)] = value
    lane = rng.integers(columns["activation"].shape[1], size=len(first))
    sign = rng.integers(0, 2, len(first)) << (fmt.bits - 1)
    other = fmt.max_finite_bits | sign ^ (1 << (fmt.bits - 1))
    changed["activation"][first] = other[:, np.newaxis]
    changed["activation"][first, lane] = (fmt.infinity_bits or 0) | sign
    changed["activation"][first + 1, lane] = other
    changed["weight"][first] = changed["weight"][first + 1] = weights[1]
    changed["weight"][first, lane] = weights[0]
    return _first_is_zero(changed, empty)


def _first_is_zero(columns: Columns, empty: dict[str, int]) -> Columns:
    """Make the first dot product zero: after a reset it shows a sum that did not start again."""
    for name, value in empty.items():
        columns[name][:BENCH_BEATS] = value
    return columns
