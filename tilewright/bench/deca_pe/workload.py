"""Tiles to decompress: every configuration, any bits."""

from itertools import product

import numpy as np

from golden.deca import CompressedTiles, Tiles, encode_tiles
from golden.params.deca import CODE_BITS, LUT_ENTRIES, DecaParams, ScaleKind, TileConfig

__all__ = ["all_configs", "random_table", "random_tiles"]

# bf16 patterns where arithmetic is most likely to go wrong: zeros, subnormals, the ends of the
# normal range, infinities, NaNs, ones.
CORNER_PATTERNS = (
    *(0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x80FF, 0x7F7F, 0xFF7F),
    *(0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0xFFFF, 0x3F80, 0xBF80, 0x3FFF),
)
CORNER_EXPONENTS = (0, 1, 126, 127, 128, 253, 254, 255)


def all_configs(params: DecaParams) -> list[TileConfig]:
    """Every combination of code width, sparsity and scaling that the element supports."""
    configs = []
    for bits, sparse in product(CODE_BITS, (False, True)):
        configs.append(TileConfig(code_bits=bits, sparse=sparse))
        if bits != 16:
            configs.append(TileConfig(code_bits=bits, sparse=sparse, int8=True))
        for kind, group_log2 in product((ScaleKind.E8M0, ScaleKind.BF16), range(10)):
            config = TileConfig(code_bits=bits, sparse=sparse, scale=kind, group=1 << group_log2)
            if params.supports(config):
                configs.append(config)
    return configs


def random_table(rng: np.random.Generator, code_bits: int) -> np.ndarray:
    """A table of any 16-bit patterns with the corners among them, repeated as narrow codes need."""
    entries = 1 << min(code_bits, 8)
    book = rng.integers(0, 1 << 16, entries, dtype=np.uint16)
    ordinary = rng.random(entries) < 0.6  # the rest may be NaN or far out of range
    book[ordinary] = (book[ordinary] & 0x87FF) | 0x3800
    corners = rng.random(entries) < 0.25
    book[corners] = rng.choice(np.array(CORNER_PATTERNS, np.uint16), int(corners.sum()))
    return np.tile(book, LUT_ENTRIES // entries)


def random_tiles(
    rng: np.random.Generator,
    config: TileConfig,
    count: int,
    density: float,
    *,
    whole_rows: bool = True,
) -> CompressedTiles:
    """Tiles of any codes and scales; with ``whole_rows`` some mask rows are empty or full."""
    shape = (count, config.elements)
    mask = rng.random(shape) < density if config.sparse else np.ones(shape, bool)
    if config.sparse and whole_rows:
        rows = mask.reshape(count, 16, -1)
        rows[rng.random(rows.shape[:2]) < 0.1] = False
        rows[rng.random(rows.shape[:2]) < 0.05] = True
    codes = rng.integers(0, 1 << config.code_bits, shape)
    groups = (count, config.elements // config.group if config.scale.bytes else 0)
    if config.scale is ScaleKind.BF16:
        scales = rng.integers(0, 1 << 16, groups)
        ordinary = rng.random(groups) < 0.7
        scales = np.where(ordinary, (scales & 0x87FF) | 0x3800, scales)
        corner = rng.choice(CORNER_PATTERNS, groups)
    else:
        scales = rng.integers(100, 156, groups)
        corner = rng.choice(CORNER_EXPONENTS, groups)
    scales = np.where(rng.random(groups) < 0.15, corner, scales)
    return encode_tiles(config, Tiles(mask, np.where(mask, codes, 0), scales))
