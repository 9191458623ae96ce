"""DECA's tiles decompressed by vector instructions: the software that paper's hardware replaces.

The same steps as ``tilewright/kernels/src/amx.cpp``, so that their number per tile, which the
Roof-Surface model needs, is counted and not assumed. Bits are those of
``tilewright.golden.deca.decompress``.
"""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.deca.coding import CompressedTiles, data_lengths, mask_nonzeros
from tilewright.golden.deca.scheme import Scheme
from tilewright.golden.params.block import require
from tilewright.golden.params.deca import TILE_ROWS, ScaleKind
from tilewright.golden.sparamx.core import Core

ROW = 32  # bf16 elements of a tile's row
_SLACK = 64  # bytes that a whole register may read after the last code


def decompress_rows(core: Core, scheme: Scheme, tiles: CompressedTiles) -> NDArray[np.uint16]:
    """(tiles, 512) bf16 patterns; ``core`` collects the instructions of one tile.

    Takes what the AMX kernel takes: no scales, or e8m0 scales of groups of 32 under which every
    nonzero entry of the table stays a normal number.
    """
    config = scheme.config
    require(not config.int8, "int8 tiles have no software kernel")
    require(
        config.scale is ScaleKind.NONE or (config.scale is ScaleKind.E8M0 and config.group == ROW),
        f"{config.scale.value} scales of groups of {config.group} have no vector kernel",
    )
    q, count = config.code_bits, len(tiles)
    data = np.concatenate([tiles.data, np.zeros(_SLACK, np.uint8)])
    lengths = data_lengths(config, mask_nonzeros(config, tiles.masks))
    first = 8 * (np.cumsum(lengths) - lengths)  # bit where each tile's codes begin
    masks = np.full((count, TILE_ROWS), (1 << ROW) - 1, np.uint32)
    if config.sparse:
        masks = np.ascontiguousarray(tiles.masks).view("<u4").reshape(count, TILE_ROWS)
    taken = np.bitwise_count(masks).astype(np.int64)
    bits = first[:, np.newaxis] + q * (np.cumsum(taken, axis=1) - taken)
    lut = scheme.lut_image()
    rows = []
    for r in range(TILE_ROWS):
        bit, mask = bits[:, r], masks[:, r]
        if q == 16:
            words = data[: len(data) // 2 * 2].view("<u2")
            if config.sparse:
                row = core.vpexpandw(mask, words, bit // 16)
            else:
                row = core.load(words[bit[:, np.newaxis] // 16 + np.arange(ROW)])
        else:
            row = _looked_up(core, q, config.sparse, lut, mask, _codes(core, q, data, bit))
        if config.scale is ScaleKind.E8M0:
            row = _scaled(core, row, tiles.scales[:, r])
        rows.append(core.store(row.astype(np.uint16)))
    return np.stack(rows, axis=1).reshape(count, -1)


def tile_instructions(scheme: Scheme) -> Counter[str]:
    """Instructions that decompress and multiply one tile with up to 16 activations."""
    config, core = scheme.config, Core()
    nonzeros = config.elements if config.sparse else 0
    tiles = CompressedTiles(
        config,
        np.full((1, config.mask_bytes), 0xFF, np.uint8),
        np.full((1, config.scale_bytes), 127, np.uint8),
        np.zeros(config.data_bytes(config.elements), np.uint8),
        data_lengths(config, np.array([max(nonzeros, config.elements)])),
    )
    decompress_rows(core, scheme, tiles)
    core.counts.update({"tileloadd": 2, "tdpbf16ps": 1})
    return core.counts


def _codes(core: Core, q: int, data: NDArray, bit: NDArray) -> NDArray:
    """32 codes from each ``bit`` on, as bytes: eight of them are q bytes, shifted apart."""
    window = bit[:, np.newaxis] // 8 + np.arange(ROW)
    source = core.load(data[window])
    if q == 8:
        return source
    lane = np.arange(ROW)
    eights = core.vpermb((lane // 8 * q + lane % 8)[np.newaxis], source)
    offset = core.vpbroadcast((bit % 8).astype(np.uint8)[:, np.newaxis])
    shifts = core.vpadd((lane % 8 * q).astype(np.uint8)[np.newaxis], offset)
    return core.vpand(core.vpmultishiftqb(shifts, eights), np.uint8((1 << q) - 1))


def _looked_up(
    core: Core, q: int, sparse: bool, lut: NDArray, mask: NDArray, codes: NDArray
) -> NDArray:
    if sparse:
        lanes = np.arange(len(codes)) * ROW
        expanded = core.vpexpandb(mask.astype(np.uint64), codes.reshape(-1), lanes)[:, :ROW]
        codes = expanded
    words = core.vpmovzxbw(codes)
    if q <= 5:
        row = core.vpermw(words, lut[:32])
    else:
        parts = [core.vpermi2w(words, lut[k : k + 64]) for k in range(0, 1 << q, 64)]
        for bit in range(6, q):
            chosen = core.vptestmw(words, np.uint16(1 << bit))
            parts = [
                core.vmovdqu16(chosen, low, high)
                for low, high in zip(parts[::2], parts[1::2], strict=True)
            ]
        (row,) = parts
    if not sparse:
        return row
    kept = (mask[:, np.newaxis] >> np.arange(ROW, dtype=np.uint32) & 1).astype(np.bool_)
    return core.vmovdqu16(kept, np.zeros_like(row), row)


def _scaled(core: Core, row: NDArray, scale: NDArray) -> NDArray:
    """Times a power of two: an addition to the exponents of what is not zero."""
    normal = core.vptestmw(row, np.uint16(0x7F80))
    exponent = core.vpbroadcast(((scale.astype(np.int32) - 127) << 7).astype(np.uint16))
    exponent = exponent[:, np.newaxis]
    zero = core.vpand(row, np.uint16(0x8000))
    return np.where(normal, core.vpadd(row.astype(np.uint16), exponent), zero)
