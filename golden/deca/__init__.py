"""DECA: compressor, packed tiles, decompressor to the exact bits, cycle model.

``scheme`` says what codes mean, ``quantise`` and ``prune`` choose them, ``coding`` makes bytes of
them, ``image`` places the bytes in memory, ``decompression`` is what the hardware must give,
``cycles`` how long it takes, ``tile_gemm`` what the tiles are for.
"""

from tilewright.golden.deca.coding import CompressedTiles, decode_tiles, encode_tiles
from tilewright.golden.deca.cycles import TileCycles, expected_bubbles, expected_cycles, tile_cycles
from tilewright.golden.deca.decompression import (
    check_lengths,
    decode_config,
    decompress,
    decompress_tiles,
)
from tilewright.golden.deca.image import MemoryImage, lay_out
from tilewright.golden.deca.matrix import (
    CompressedMatrix,
    NonFiniteWeightError,
    compress,
    compress_bands,
    effective_scheme,
    restore,
)
from tilewright.golden.deca.scheme import SCHEMES, Scheme, resolve_scheme
from tilewright.golden.deca.tile_gemm import gemm, gemm_of_tiles
from tilewright.golden.deca.tiles import Tiles

__all__ = [
    "SCHEMES",
    "CompressedMatrix",
    "CompressedTiles",
    "MemoryImage",
    "NonFiniteWeightError",
    "Scheme",
    "TileCycles",
    "Tiles",
    "check_lengths",
    "compress",
    "compress_bands",
    "decode_config",
    "decode_tiles",
    "decompress",
    "decompress_tiles",
    "effective_scheme",
    "encode_tiles",
    "expected_bubbles",
    "expected_cycles",
    "gemm",
    "gemm_of_tiles",
    "lay_out",
    "resolve_scheme",
    "restore",
    "tile_cycles",
]
