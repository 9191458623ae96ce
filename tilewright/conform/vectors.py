"""Inputs that tell implementations of a format apart, with the format's codes, scales and values.

``fp16`` and ``bf16`` hold every finite number of theirs once, in blocks of similar magnitudes;
``borders`` every number of the format, every tie and both float32 neighbours of each; ``scales``
largest magnitudes at which rules for scales differ, in every binade; ``fp32`` all exponents, random
significands; ``outliers`` one large value at each place of a block, zeros and both signs of zero.
``codes`` has all codes with all scales of 8 bits, and with thousands of larger ones.

A file of vectors is little-endian: the bytes ``TWCONF``, u16 version, u32 number of cases; then for
each case char[16] name, u32 rows, u32 inputs, u32 codes, u32 scales and u32 values (each the count
in a row), f32 scale of the tensor; then row by row f32 inputs, u16 codes, u32 scales, f32 values.
"""

from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from struct import pack
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.bits import decode
from tilewright.golden.lowbit import Encoded, LowBit
from tilewright.golden.lowbit_table import lowbit
from tilewright.golden.params.formats import BF16, FP16, FP32, FloatFormat, ScaleFormat

VERSION = 1
LARGEST = {FP16.name: 6e4}  # inputs whose quotient by a small number is still an fp16 scale
PIECE = 8192  # values of a tensor, where the tensor has a scale


class Case(NamedTuple):
    """``inputs``: float32, (rows, values), none where a case is only decoded."""

    name: str
    inputs: NDArray[np.float32]
    encoded: Encoded
    values: NDArray[np.float64]  # exact


@lru_cache(maxsize=4)
def vectors(name: str) -> list[Case]:
    """All cases of a format, by the rules of its specification."""
    fmt = lowbit(name)
    cases = [_codes(fmt)]
    if fmt.rules:
        for title, inputs in cases_to_encode(fmt):
            e = fmt.encode(inputs)
            cases.append(Case(title, inputs, e, fmt.decode(*e)))
    return cases


def cases_to_encode(fmt: LowBit) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for name, values in _inputs(fmt):
        if fmt.group == 1:
            yield name, values[np.newaxis]
            continue
        values = values[np.isfinite(values)]
        values = values[np.abs(values) <= LARGEST.get(getattr(fmt.scale, "name", ""), np.inf)]
        if fmt.inputs is FP16:
            with np.errstate(over="ignore"):
                values = values[values.astype(np.float16) == values]
        width = 4 * fmt.group
        rows = np.pad(values, (0, -len(values) % width)).reshape(-1, width)
        count = max(1, PIECE // width) if fmt.tensor_reach else len(rows)
        for k in range(0, len(rows), count):
            yield f"{name}.{k // count}" if count < len(rows) else name, rows[k : k + count]


def odd_rows(fmt: LowBit) -> NDArray[np.float32]:
    """Rows whose last block is short; each row has magnitudes of its own."""
    rows = _noise(6 * (fmt.group + fmt.group // 4)).reshape(6, -1)
    return np.ldexp(rows % 1000 + 1, np.arange(6)[:, np.newaxis] * 3).astype(np.float32)


def file_of(name: str) -> bytes:
    cases = vectors(name)
    parts = [b"TWCONF", pack("<HI", VERSION, len(cases))]
    with np.errstate(over="ignore", invalid="ignore"):
        for case in cases:
            codes, scales, tensor = case.encoded
            arrays: list[NDArray] = [
                case.inputs,
                codes,
                scales.reshape(len(codes), -1),
                case.values,
            ]
            widths = [a.shape[1] for a in arrays]
            parts.append(pack("<16s5If", case.name.encode(), len(codes), *widths, tensor))
            kinds = ("<f4", "<u2", "<u4", "<f4")
            parts += [a.astype(k).tobytes() for a, k in zip(arrays, kinds, strict=True)]
    return b"".join(parts)


def digest(name: str) -> str:
    return sha256(file_of(name)).hexdigest()


def _codes(fmt: LowBit) -> Case:
    nothing = np.zeros((1, 0), np.float32)
    if fmt.unpack:
        data = _noise(512 * fmt.block_bytes).reshape(512, -1) >> 24
        e = Encoded(data.astype(np.int64), np.zeros((512, 0), np.int64))
        return Case("codes", nothing.repeat(512, 0), e, values_of(fmt, e))
    count = len(fmt.numbers)
    if fmt.scale is None:
        e = Encoded(np.arange(count)[np.newaxis], np.zeros((1, 0), np.int64))
        return Case("codes", nothing, e, fmt.decode(e.codes))
    scales = _scales_of(fmt.scale)
    blocks = -(-count // fmt.group) if len(scales) <= 256 else 1
    each = np.repeat(scales, blocks)
    codes = (np.arange(len(each) * fmt.group) + np.arange(len(each)).repeat(fmt.group)) % count
    if blocks > 1:
        codes = np.arange(len(each) * fmt.group) % count
    zeros = np.arange(len(each)) * 7 % (1 << fmt.zero_bits)
    tensor = 0.10000000149011612 if fmt.tensor_reach else 1.0
    e = Encoded(
        codes.reshape(len(each), -1), (each << fmt.zero_bits | zeros)[:, np.newaxis], tensor
    )
    return Case("codes", nothing.repeat(len(each), 0), e, fmt.decode(*e))


def values_of(fmt: LowBit, e: Encoded) -> NDArray[np.float64]:
    """Exact values; of blocks of a file, ``codes`` are bytes."""
    if fmt.unpack is None:
        return fmt.decode(*e)
    data = e.codes.astype(np.uint8)
    codes, steps, offsets = fmt.unpack(data.reshape(len(data), -1, fmt.block_bytes))
    each = (np.repeat(a, fmt.group // a.shape[-1], axis=-1) for a in (steps, offsets))
    with np.errstate(invalid="ignore"):
        found = fmt.numbers[codes] * next(each) - next(each)
    return found.reshape(len(data), -1)


def _scales_of(scale: FloatFormat | ScaleFormat) -> NDArray[np.int64]:
    """Every pattern of up to 8 bits; of more, patterns of every exponent; positive and finite."""
    if isinstance(scale, ScaleFormat):
        first = 0 if scale.bits == 8 else 1  # fp16's exponent field 0 counts as 1
        return np.arange(first, (1 << scale.bits) - first)
    step = {8: 1, 16: 31}.get(scale.bits, 1048573)
    return np.arange(1, scale.max_finite_bits + 1, step)


def _inputs(fmt: LowBit) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for source, window in ((FP16, 8192), (BF16, 2048)):
        patterns = np.arange(1 << 16)
        patterns = patterns >> 1 | (patterns & 1) << 15  # by magnitude, both signs of each
        if fmt.group > 1:
            place = np.arange(1 << 16)
            patterns = patterns[place // window * window + place * (window * 5 // 8 + 1) % window]
        numbers = decode(source, patterns).astype(np.float32)
        keep = ~np.isnan(numbers) | np.isnan(fmt.numbers).any()
        yield source.name, numbers[keep]
    yield "borders", _borders(fmt)
    if fmt.group > 1:
        yield "scales", _largest(fmt)
        yield "outliers", _outliers(fmt)
    words = _noise(256 * 64).reshape(256, 64)
    words[:, :4] = 0x7FFFFF, 0, 0x800000, 0xFFFFFFFF
    patterns = (words & 0x807FFFFF) | np.minimum(np.arange(256), 254)[:, np.newaxis] << 23
    yield "fp32", decode(FP32, patterns.ravel()).astype(np.float32)


def _borders(fmt: LowBit) -> NDArray[np.float32]:
    numbers = np.unique(fmt.numbers[np.isfinite(fmt.numbers)])
    step = numbers[-1] - numbers[-2]
    middles = (numbers[:-1] + numbers[1:]) / 2
    beyond = numbers[-1] + step * np.array([0.5, 0.75, 1, 2])
    if fmt.group > 1:  # within what the scale allows
        beyond = beyond[:0]
    points = np.concatenate([numbers, middles, beyond, -beyond])
    if fmt.group == 1:
        return _neighbours(points)
    rule = fmt.rules["scale"]
    anchor = numbers[np.abs(numbers).argmax()] if rule.startswith("max") else fmt.reach
    found = []
    others = () if isinstance(fmt.scale, ScaleFormat) else (1.25, 0.8125, 1.0009765625)
    for scale in (1, 2.0**-9, 2.0**7, *others):
        inside = _neighbours(points * scale)
        inside = inside[np.abs(inside) <= abs(np.float32(anchor * scale))]
        inside = np.pad(inside, (0, -len(inside) % (fmt.group - 1))).reshape(-1, fmt.group - 1)
        first = np.full((len(inside), 1), anchor * scale, np.float32)
        found.append(np.concatenate([first, inside], 1).ravel())
        if fmt.tensor_reach:  # so that the tensor's scale is this power of two
            found[-1][0] = fmt.tensor_reach * 2.0 ** np.floor(np.log2(scale))
            found[-1] = np.pad(found[-1], (0, -len(found[-1]) % PIECE))
    return np.concatenate(found)


def _neighbours(points: NDArray[np.float64]) -> NDArray[np.float32]:
    near = points.astype(np.float32)
    up, down = (np.nextafter(near, np.float32(way)) for way in (np.inf, -np.inf))
    return np.stack([near, up, down], -1).ravel()


def _largest(fmt: LowBit) -> NDArray[np.float32]:
    """A block for each magnitude at which rules part, times every power of two."""
    fractions = [2 - 2.0**-k for k in range(9)]
    marks = _neighbours(np.array([*fractions, 2**0.5, 1.25, np.frexp(fmt.reach)[0] * 2]))
    with np.errstate(over="ignore", under="ignore"):
        exponents = np.arange(-127, 128, max(1, fmt.group // 32))
        largest = np.ldexp(marks.astype(np.float64), exponents[:, np.newaxis])
        largest = largest.astype(np.float32).ravel()
    largest = largest[np.isfinite(largest)]
    ratios = np.ones(fmt.group, np.float32)
    ratios[1:] = (
        (_noise(fmt.group - 1) >> 8) / 2.0**24 * np.where(np.arange(fmt.group - 1) % 2, 1, -1)
    )
    return (largest[:, np.newaxis] * ratios).astype(np.float32).ravel()


def _outliers(fmt: LowBit) -> NDArray[np.float32]:
    base = (_noise(fmt.group) % 64 - 31.5).astype(np.float32) / 64
    found = np.tile(base, (fmt.group, 1))
    found[np.arange(fmt.group), np.arange(fmt.group)] = 1000 * (-1.0) ** np.arange(fmt.group)
    zeros = np.zeros((4, fmt.group), np.float32)
    zeros[1], zeros[2, ::2], zeros[3, 0] = -0.0, -0.0, 1
    return np.concatenate([found, zeros]).ravel()


def _noise(count: int) -> NDArray[np.int64]:
    """Unsigned 32-bit words that are the same everywhere: splitmix64 of their places."""
    with np.errstate(over="ignore"):
        x = (np.arange(1, count + 1, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ x >> np.uint64(shift)) * np.uint64(factor)
    return (x >> np.uint64(32)).astype(np.int64)
