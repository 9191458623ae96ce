"""DECA: compressor, packed tiles, decompressor to the exact bits, cycle model.

``scheme`` says what codes mean, ``quantise`` chooses them, ``coding`` makes bytes of them and
places them in memory, ``decompression`` is what the hardware must give, ``cycles`` how long it
takes, ``tile_gemm`` what the tiles are for.
"""

from tilewright.golden.deca.coding import CompressedTiles as CompressedTiles
from tilewright.golden.deca.coding import MemoryImage as MemoryImage
from tilewright.golden.deca.coding import decode_tiles as decode_tiles
from tilewright.golden.deca.coding import encode_tiles as encode_tiles
from tilewright.golden.deca.coding import lay_out as lay_out
from tilewright.golden.deca.cycles import TileCycles as TileCycles
from tilewright.golden.deca.cycles import expected_cycles as expected_cycles
from tilewright.golden.deca.cycles import tile_cycles as tile_cycles
from tilewright.golden.deca.decompression import check_lengths as check_lengths
from tilewright.golden.deca.decompression import decode_config as decode_config
from tilewright.golden.deca.decompression import decompress as decompress
from tilewright.golden.deca.decompression import decompress_tiles as decompress_tiles
from tilewright.golden.deca.matrix import CompressedMatrix as CompressedMatrix
from tilewright.golden.deca.matrix import NonFiniteWeightError as NonFiniteWeightError
from tilewright.golden.deca.matrix import compress as compress
from tilewright.golden.deca.matrix import compress_bands as compress_bands
from tilewright.golden.deca.matrix import effective_scheme as effective_scheme
from tilewright.golden.deca.matrix import restore as restore
from tilewright.golden.deca.scheme import SCHEMES as SCHEMES
from tilewright.golden.deca.scheme import Scheme as Scheme
from tilewright.golden.deca.scheme import resolve_scheme as resolve_scheme
from tilewright.golden.deca.tile_gemm import gemm as gemm
from tilewright.golden.deca.tile_gemm import gemm_of_tiles as gemm_of_tiles
from tilewright.golden.deca.tiles import Tiles as Tiles
