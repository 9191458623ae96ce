"""Blocks of GGUF files: bytes to codes and steps, and back where one rule of encoding exists.

A value is ``numbers[code] * step - offset``. Blocks lie along the last axis of arrays of bytes.
The K-quants and IQ4_NL define how a block is decoded; llama.cpp searches for its codes.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.bits import decode
from tilewright.golden.lowbit import (
    Encoded,
    LowBit,
    book,
    mx_float,
)
from tilewright.golden.params.formats import E2M1, FP16

Blocks = tuple[NDArray, NDArray, NDArray]  # codes, steps, offsets
IQ4_NL_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_NO_OFFSET = np.zeros(1)
_LAYERS = ((32, 5), (16, 5), (4, 4))  # of TQ1_0: bytes, and the trits of each


def _fp16(pair: NDArray) -> NDArray:
    return decode(FP16, pair[..., 0] | pair[..., 1].astype(np.uint16) << 8)[..., np.newaxis]


def _parts(data: NDArray, shifts: range, run: int) -> NDArray:
    """Bit fields of bytes: in each ``run`` bytes all lowest fields, then all next ones."""
    runs = data.reshape(*data.shape[:-1], -1, 1, run)
    fields = runs >> np.array(shifts)[:, np.newaxis] & ((1 << shifts.step) - 1)
    return fields.reshape(*data.shape[:-1], -1)


def _join(codes: NDArray, shifts: range, run: int) -> NDArray:
    """The inverse of :func:`_parts`."""
    fields = codes.reshape(*codes.shape[:-1], -1, len(shifts), run)
    return (fields << np.array(shifts)[:, np.newaxis]).sum(-2).reshape(*codes.shape[:-1], -1)


def _simple(shifts: range, run: int, flip: int, last: bool, data: NDArray) -> Blocks:
    """An fp16 step before or after the codes, of which ``flip`` bits are stored inverted."""
    step, codes = (data[..., -2:], data[..., :-2]) if last else (data[..., :2], data[..., 2:])
    return _parts(codes, shifts, run) ^ flip, _fp16(step), _NO_OFFSET


def _pack(
    shifts: range, run: int, flip: int, last: bool, scale_bytes: int, e: Encoded
) -> NDArray[np.uint8]:
    shape = (*e.scales.shape, -1)
    parts = [
        e.scales[..., np.newaxis] >> 8 * np.arange(scale_bytes),
        _join(e.codes.reshape(shape) ^ flip, shifts, run),
    ]
    found = np.concatenate(parts[::-1] if last else parts, -1) & 0xFF
    return found.astype(np.uint8).reshape(*e.codes.shape[:-1], -1)


def _q4_k(data: NDArray) -> Blocks:
    low, middle, high = (data[..., k : k + 4] for k in (4, 8, 12))
    scales = np.concatenate([low & 63, high & 15 | low >> 6 << 4], -1)
    least = np.concatenate([middle & 63, high >> 4 | middle >> 6 << 4], -1)
    codes = _parts(data[..., 16:], range(0, 8, 4), 32)
    return codes, _fp16(data[..., :2]) * scales, _fp16(data[..., 2:4]) * least


def _q6_k(data: NDArray) -> Blocks:
    low = _parts(data[..., :128], range(0, 8, 4), 64)
    high = _parts(data[..., 128:192], range(0, 8, 2), 32)
    scales = data[..., 192:208].astype(np.int8)
    return low | high << 4, _fp16(data[..., 208:]) * scales, _NO_OFFSET


def _mxfp4(data: NDArray) -> Blocks:
    codes = _parts(data[..., 1:], range(0, 8, 4), 16)
    return codes, np.ldexp(1.0, data[..., :1].astype(np.int64) - 127), _NO_OFFSET


def _tq1_0(data: NDArray) -> Blocks:
    """Trits are the digits of a fraction of 256, the first one highest."""
    trits, start = [], 0
    for count, digits in _LAYERS:
        part = data[..., start : start + count].astype(np.int64)[..., np.newaxis, :]
        powers = 3 ** np.arange(digits)[:, np.newaxis]
        trits.append(((part * powers & 255) * 3 >> 8).reshape(*data.shape[:-1], -1))
        start += count
    return np.concatenate(trits, -1), _fp16(data[..., -2:]), _NO_OFFSET


def _pack_tq1_0(e: Encoded) -> NDArray[np.uint8]:
    codes = e.codes.reshape(*e.scales.shape, -1)
    parts, start = [], 0
    for count, digits in _LAYERS:
        part = codes[..., start : start + count * digits]
        powers = 3 ** np.arange(4, 4 - digits, -1)[:, np.newaxis]
        whole = (part.reshape(*codes.shape[:-1], digits, count) * powers).sum(-2)
        parts.append((whole * 256 + 242) // 243)
        start += count * digits
    parts.append(e.scales[..., np.newaxis] >> np.array([0, 8]) & 0xFF)
    return np.concatenate(parts, -1).astype(np.uint8).reshape(*e.codes.shape[:-1], -1)


def _block(
    name: str,
    numbers: NDArray,
    group: int,
    size: int,
    unpack: Callable[[NDArray], Blocks],
    pack: Callable[[Encoded], NDArray[np.uint8]] | None = None,
    rule: str = "amax/1",
    rounding: str = "nearest-away",
    quotient: str = "reciprocal",
) -> LowBit:
    chosen = {"rounding": rounding, "divisor": "unrounded", "quotient": quotient}
    fmt = book(name, numbers, FP16, group, "llama.cpp, ggml-quants.c", (rule,))
    rules = {**fmt.rules, **chosen}
    fmt = replace(fmt, rules=rules, block_bytes=size, unpack=unpack, pack=pack)
    return fmt if pack else replace(fmt, rules={}, axes={})


_NIBBLES = (range(0, 8, 4), 16, 0, False)
_BYTES = (range(0, 8, 8), 1, 128, False)  # two's complement: codes count from -128
_PAIRS = (range(0, 8, 2), 32, 0, True)
_mx = mx_float(E2M1, "gguf_mxfp4")
GGUF = (
    _block(
        *("q4_0", np.arange(16) - 8, 32, 18, partial(_simple, *_NIBBLES)),
        partial(_pack, *_NIBBLES, 2),
        *("max/-8", "nearest-up", "reciprocal-offset"),
    ),
    _block(
        *("q8_0", np.arange(256) - 128, 32, 34, partial(_simple, *_BYTES)),
        partial(_pack, *_BYTES, 2),
        "amax/127",
    ),
    _block("iq4_nl", np.array(IQ4_NL_VALUES), 32, 18, partial(_simple, *_NIBBLES)),
    _block("q4_k", np.arange(16), 256, 144, _q4_k),
    _block("q6_k", np.arange(64) - 32, 256, 210, _q6_k),
    _block("tq1_0", np.arange(3) - 1, 256, 54, _tq1_0, _pack_tq1_0),
    _block(
        *("tq2_0", np.arange(4) - 1, 256, 66, partial(_simple, *_PAIRS)),
        partial(_pack, *_PAIRS, 2),
    ),
    # Ties go to the number that stands first in ggml's table: toward zero.
    replace(
        _mx,
        source="llama.cpp, ggml-quants.c",
        block_bytes=17,
        unpack=_mxfp4,
        pack=partial(_pack, *_NIBBLES, 1),
        numbers=_mx.numbers + 0.0,  # its table has 0 in the place of -0
        rules={name: rule for name, rule in _mx.rules.items() if name != "zero"}
        | {"rounding": "nearest-zero"},
        axes={name: rules for name, rules in _mx.axes.items() if name != "zero"},
    ),
)
