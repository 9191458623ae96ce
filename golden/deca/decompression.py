"""The specification of the DECA pipeline's result: codes, bitmask and scales to tile bits."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.arith import multiply
from tilewright.golden.deca.coding import CompressedTiles, decode_tiles
from tilewright.golden.params.arith import AMX_RULES
from tilewright.golden.params.block import unpack_fields
from tilewright.golden.params.deca import (
    CONFIG_FIELDS,
    LUT_ENTRIES,
    DecaParams,
    ScaleKind,
    TileConfig,
    TileError,
)
from tilewright.golden.params.formats import BF16, E8M0


def decompress(
    config: TileConfig, lut: NDArray, mask: NDArray[np.bool_], codes: NDArray, scales: NDArray
) -> NDArray:
    """Bits of dense tiles, (tiles, elements): uint16 of bf16 values, or uint8 of int8 ones.

    ``mask`` and ``codes`` are (tiles, elements), ``scales`` (tiles, groups). An element is
    ``lut[code]`` (the code itself where codes have 16 bits); with scales it is bf16(element *
    scale), rounded once to nearest even, where subnormal bf16 factors count as zero, results that
    are subnormal when rounded to 8 bits flush to zero, signs stay, and e8m0 scales are exact powers
    of two (byte 255: NaN). Without scales the table's bits pass unchanged. Where the mask is False
    the bits are 0.
    """
    lut = np.asarray(lut)
    if lut.shape != (LUT_ENTRIES,):
        raise ValueError(f"a table has {LUT_ENTRIES} entries, not shape {lut.shape}")
    wanted = (len(mask), config.elements)
    if mask.shape != wanted or codes.shape != wanted:
        raise ValueError(f"mask {mask.shape} and codes {codes.shape} must be {wanted}")
    if config.int8:
        return np.where(mask, lut[codes] & 0xFF, 0).astype(np.uint8)
    if config.scale is ScaleKind.NONE:
        elements = codes if config.code_bits == 16 else lut[codes]
    else:
        groups = (len(mask), config.elements // config.group)
        if scales.shape != groups:
            raise ValueError(f"scales {scales.shape} must be {groups}")
        elements = _scaled(config, lut, codes.reshape(*groups, -1), scales[..., np.newaxis])
    return np.where(mask, elements.reshape(wanted), 0).astype(np.uint16)


def _scaled(config: TileConfig, lut: NDArray, codes: NDArray, scales: NDArray) -> NDArray:
    if config.scale is ScaleKind.BF16:
        elements = codes if config.code_bits == 16 else lut[codes]
        return multiply(BF16, BF16, BF16, elements, scales, AMX_RULES)
    if config.code_bits == 16:
        return multiply(BF16, E8M0, BF16, codes, scales, AMX_RULES)
    return _e8m0_products(lut.astype(np.uint16).tobytes())[codes, scales]


@lru_cache(maxsize=16)
def _e8m0_products(lut: bytes) -> NDArray:
    """Every entry of a table times every scale: fewer products than a matrix has elements."""
    entries = np.frombuffer(lut, np.uint16)[:, np.newaxis]
    return multiply(BF16, E8M0, BF16, entries, np.arange(1 << E8M0.bits), AMX_RULES)


def decompress_tiles(lut: NDArray, compressed: CompressedTiles) -> NDArray:
    """:func:`decompress` of tiles in bytes."""
    return decompress(compressed.config, lut, *decode_tiles(compressed))


def decode_config(word: int) -> TileConfig | None:
    """The configuration a register holds, or None where it means nothing."""
    values = unpack_fields(CONFIG_FIELDS, word)
    kinds = {kind.code: kind for kind in ScaleKind}
    if values["scale"] not in kinds:
        return None
    try:
        return TileConfig(
            code_bits=values["code_bits"],
            sparse=bool(values["sparse"]),
            scale=kinds[values["scale"]],
            group=1 << values["group_log2"],
            int8=bool(values["int8"]),
        )
    except ValueError:
        return None


def check_lengths(
    params: DecaParams, config_word: int, lengths: dict[str, int], nonzeros: int
) -> TileError:
    """How a tile ends whose memory answers well, in the order in which hardware finds out.

    ``lengths`` are a command's ``mask_length``, ``scale_length`` and ``data_length``. The first
    three errors, and the data length of a dense tile, follow from the command alone; that of a
    sparse tile from ``nonzeros``, the ones in its mask.
    """
    config = decode_config(config_word)
    if config is None or not params.supports(config):
        return TileError.FORMAT
    if lengths["mask_length"] != config.mask_bytes:
        return TileError.MASK_LENGTH
    if lengths["scale_length"] != config.scale_bytes:
        return TileError.SCALE_LENGTH
    codes = nonzeros if config.sparse else config.elements
    if lengths["data_length"] != config.data_bytes(codes):
        return TileError.DATA_LENGTH
    return TileError.OK
