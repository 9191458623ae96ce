"""Bits of every conversion of ``tilewright.torch`` on a device against the golden models.

``check`` compares all 16-bit patterns and any number of random groups of block floating point, and
patterns and random matrices of integer weights, of the OCP specification's
formats and of DECA's schemes, signs of zero included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.golden import bfp, weights
from tilewright.golden.deca import SCHEMES, compress, restore
from tilewright.golden.params.formats import BlockFormat

BLOCKS = ((64, 7), (64, 4), (32, 8), (32, 1), (16, 11), (8, 16))  # group, mantissa bits
INTEGERS = ((4, 128), (4, 32), (8, 64), (2, 16), (3, 128))  # bits, group
CHUNK = 50_000  # groups of a task
ALL = np.arange(1 << 16, dtype=np.uint16)
Patterns = NDArray[np.uint32]


def random_words(seed: int, count: int) -> tuple[NDArray[np.uint16], int, int]:
    """fp16 patterns: half of the groups any pattern, half of one magnitude as activations are."""
    rng = np.random.default_rng((7, seed))
    group, length = BLOCKS[rng.integers(len(BLOCKS))]
    words = rng.integers(0, 1 << 16, (count, group), dtype=np.uint16)
    scale = np.exp2(rng.integers(-20, 8, (count, 1))).astype(np.float32)
    normal = rng.standard_normal((count, group), dtype=np.float32) * scale
    chosen = rng.random((count, 1)) < 0.5
    with np.errstate(over="ignore"):
        return np.where(chosen, words, normal.astype(np.float16).view(np.uint16)), group, length


def golden_blocks(words: NDArray[np.uint16], group: int, length: int) -> Patterns:
    """float32 patterns of what block floating point makes of fp16 patterns."""
    fmt = BlockFormat(group=group, mantissa_bits=length)
    return _patterns(bfp.decode(fmt, bfp.encode(fmt, words, saturate=True)))


def _patterns(values: Any) -> Patterns:
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


def check(device: str, groups: int, tick: Callable[[str], None]) -> list[dict[str, Any]]:
    """Elements compared and how many differ, by conversion."""
    rows = [_every_pattern(device), *_weights(device)]
    if device == "cuda":
        rows.append(_compiled(device))
    for row in rows:
        tick(f"{row['conversion']}: {row.get('differ')} of {row.get('elements')} differ")
    rows.append(_random_groups(device, groups, tick))
    return rows


def _on(device: str, words: NDArray[np.uint16]) -> Any:
    import torch

    return torch.from_numpy(words.view(np.int16)).to(device)


def _differ(got: Any, wanted: Patterns) -> int:
    import torch

    bits = torch.from_numpy(wanted.view(np.int32)).to(got.device)
    return int((got.float().contiguous().view(torch.int32) != bits).sum())


def _block_cases() -> Iterator[tuple[NDArray[np.uint16], int, int]]:
    for group, length in BLOCKS:
        alone = np.zeros((1 << 16, group), np.uint16)
        alone[:, group // 2] = ALL
        yield alone, group, length
        yield ALL.reshape(-1, group), group, length


def _every_pattern(device: str) -> dict[str, Any]:
    """Every fp16 pattern alone in its group and among its neighbours, as values and as parts."""
    import torch

    from tilewright.torch.convert import block_parts, to_block_float

    differ = elements = 0
    for words, group, length in _block_cases():
        wanted = golden_blocks(words, group, length)
        halves = _on(device, words).view(torch.float16)
        parts = block_parts(halves, group, length).values(length).flatten(-2)
        differ += _differ(to_block_float(halves, group, length), wanted) + _differ(parts, wanted)
        elements += 2 * words.size
    return _row("block floating point, every fp16 pattern", elements, differ, groups=None)


def _compiled(device: str) -> dict[str, Any]:
    """Plain PyTorch as compiled, whose casts and divisions may be shortened."""
    import torch

    from tilewright.torch.convert import to_block_float

    rng = np.random.default_rng(9)
    values = rng.standard_normal((1 << 14, 256)) * np.exp2(rng.integers(-26, 18, (1 << 14, 1)))
    narrow = values.astype(np.float32)
    with np.errstate(over="ignore"):
        words = narrow.astype(np.float16).view(np.uint16)
    fused = torch.compile(lambda x: to_block_float(x, 64, 9), fullgraph=True)
    wanted = golden_blocks(words, 64, 9)
    name = "block floating point of float32, compiled"
    differ = _differ(fused(torch.from_numpy(narrow).to(device)), wanted)
    return _row(name, wanted.size, differ, wanted.size // 64)


def _weights(device: str) -> Iterator[dict[str, Any]]:
    import torch

    from tilewright.torch import convert

    rng = np.random.default_rng(8)
    finite = ALL[(ALL & 0x7F80) != 0x7F80]
    every = (finite.astype(np.uint32) << 16).view(np.float32)
    random = (rng.standard_normal((512, 2000)) * np.exp2(rng.integers(-9, 6, (512, 1)))).astype(
        "f4"
    )
    random[:2], random[2, ::3] = 0, -0.0
    kinds = (torch.float32, torch.bfloat16, torch.float16)
    for name, dtype in zip(("float32", "bf16", "fp16"), kinds, strict=True):
        matrix = torch.from_numpy(random).to(dtype)
        differ = elements = groups = 0
        for bits, group in INTEGERS:
            wanted = weights.dequantise(weights.quantise(matrix.float().numpy(), bits, group))
            got = convert.integer_values(matrix.to(device), bits, group)
            differ += _differ(got, _patterns(wanted))
            elements, groups = elements + wanted.size, groups + wanted.size // group
        yield _row(f"integer weights of {name}", elements, differ, groups)
    for name in sorted(name for name, scheme in SCHEMES.items() if not scheme.config.int8):
        scheme = SCHEMES[name]
        book = convert.book_of(scheme, device)
        differ = elements = 0
        for flat in (every, rng.permutation(every), random[:64].reshape(-1)):
            tiles = flat[: len(flat) // 512 * 512].reshape(-1, 32)
            golden = _patterns(restore(compress(tiles, scheme)))
            tensor = torch.from_numpy(tiles).to(device)
            differ += _differ(convert.compressed_weights(book, tensor), golden)
            elements += golden.size
            if book.mini is not None:  # groups along the rows, as those of activations
                differ += _differ(convert.along_inputs(book, tensor), golden)
                elements += golden.size
        yield _row(f"scheme {name}, every finite bf16 pattern", elements, differ, groups=None)


def _random_groups(device: str, groups: int, tick: Callable[[str], None]) -> dict[str, Any]:
    import torch

    from tilewright.torch.convert import to_block_float

    differ = elements = done = 0
    while done < groups:
        words, group, length = random_words(done, min(CHUNK, groups - done))
        halves = _on(device, words).view(torch.float16)
        got = to_block_float(halves, group, length)
        differ += _differ(got, golden_blocks(words, group, length))
        elements, done = elements + words.size, done + len(words)
        if done % 1_000_000 < CHUNK:
            tick(f"random groups: {done}, {differ} elements differ")
    return _row("block floating point, random groups", elements, differ, done)


def _row(name: str, elements: int, differ: int, groups: int | None) -> dict[str, Any]:
    return {"conversion": name, "elements": elements, "groups": groups, "differ": differ}
