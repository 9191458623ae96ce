"""Weights in the schemes of DECA, quantised and packed by compiled code.

The arrays are those of ``golden.deca.compress`` and ``golden.sparamx.coded.pack``, byte for byte.
"""

from ctypes import byref
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.deca import CompressedMatrix, Scheme, compress
from tilewright.golden.deca.coding import CompressedTiles, data_lengths
from tilewright.golden.deca.own import OwnScheme
from tilewright.golden.deca.quantise import rounder
from tilewright.golden.deca.tiles import grid
from tilewright.golden.params.deca import ScaleKind
from tilewright.golden.sparamx import coded as golden
from tilewright.golden.sparamx.coded import NIBBLE, SLACK, CodedWeights
from tilewright.kernels.library import CCoder, address, checked_threads, library


class _Codes(NamedTuple):
    """Codes of all tiles before they are packed."""

    codes: NDArray[np.uint8]  # (tiles, 512)
    masks: NDArray[np.uint8]  # (tiles, mask bytes)
    scales: NDArray[np.uint8]  # (tiles, scale bytes)
    nonzeros: NDArray[np.int64]  # stored codes of each tile
    used: NDArray[np.int64]  # codes that occur


def compressed_matrix(scheme: Scheme, bits: NDArray[np.uint16]) -> CompressedMatrix:
    """A matrix of bf16 patterns, compressed; NaN and infinity are refused with their position."""
    config = scheme.config
    found = _codes(scheme, bits)
    if found is None:
        return compress((bits.astype(np.uint32) << 16).view(np.float32), scheme)
    lengths = data_lengths(config, found.nonzeros)
    starts, data = np.cumsum(lengths) - lengths, np.empty(int(lengths.sum()), np.uint8)
    library().tw_pack_codes(
        *(address(found.codes), _place(found.masks), len(lengths), config.code_bits),
        *(address(starts), address(data), checked_threads(None)),
    )
    tiles = CompressedTiles(config, found.masks, found.scales, data, lengths)
    return CompressedMatrix(scheme, (bits.shape[0], bits.shape[1]), tiles)


def coded_weights(scheme: Scheme, bits: NDArray[np.uint16]) -> CodedWeights:
    """The same in the layout of the look-up kernels; a scheme without one is refused."""
    golden.check_layout(scheme)
    found = _codes(scheme, bits)
    if found is None:
        return golden.pack(compressed_matrix(scheme, bits))
    if scheme.config.code_bits <= NIBBLE:
        width, low_mask, names = NIBBLE, 0, None
        table = np.zeros(256, np.uint16)
        table[: len(scheme.book)] = scheme.book
    else:
        width = 8
        names, table, low_mask = golden.renamed(scheme, found.used)
    head = found.masks.shape[1] + found.scales.shape[1]
    starts = np.zeros(len(found.codes) + 1, np.int64)
    np.cumsum(-(-found.nonzeros * width // 8) + head, out=starts[1:])
    stream = np.zeros(int(starts[-1]) + SLACK, np.uint8)
    library().tw_pack_records(
        *(address(found.codes), _place(found.masks), _place(found.scales)),
        *(None if names is None else address(names), len(found.codes), found.scales.shape[1]),
        *(address(starts), address(stream), checked_threads(None)),
    )
    scale = "none" if scheme.config.scale is ScaleKind.NONE else "e8m0"
    shape, sparse = (bits.shape[0], bits.shape[1]), scheme.config.sparse
    return CodedWeights(shape, width, sparse, scale, low_mask, table, stream, starts)


def _codes(scheme: Scheme, bits: NDArray[np.uint16]) -> _Codes | None:
    """The codes of a matrix; None where golden must find them, or say what is wrong."""
    config = scheme.config
    if isinstance(scheme, OwnScheme) or config.code_bits == 16 or not bits.size:
        return None
    bits = np.ascontiguousarray(bits)
    count = int(np.prod(grid(config, (bits.shape[0], bits.shape[1]))))
    rounding = rounder(scheme)
    tables = [np.ascontiguousarray(table) for table in rounding]
    coder = CCoder(
        *(config.scale.code, config.group, config.sparse, int(np.frexp(scheme.reach)[1]) - 1),
        *(scheme.reach, *map(address, tables)),
    )
    codes = np.empty((count, config.elements), np.uint8)
    masks = np.empty((count, config.mask_bytes), np.uint8)
    scales = np.empty((count, config.scale_bytes), np.uint8)
    nonzeros, used = np.empty(count, np.int64), np.zeros(256, np.uint8)
    finite = library().tw_code(
        *(byref(coder), address(bits), *bits.shape, address(codes), address(masks)),
        *(address(scales), address(nonzeros), address(used), checked_threads(None)),
    )
    return _Codes(codes, masks, scales, nonzeros, np.flatnonzero(used)) if finite else None


def _place(array: NDArray) -> int | None:
    return address(array) if array.size else None
