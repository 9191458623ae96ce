"""Forms in which a layer keeps its weights: names, packing, and the arrays that a kernel reads.

A form is "bf16" or "int8", packed with a bitmap of the nonzero weights (SparAMX), or the name of a
scheme of DECA such as "bf8" or "mxfp4". The arrays of a packed layer are plain bytes with some
readable ones behind them, so that they can be stored, loaded and mapped as they are.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.deca import CompressedMatrix, Scheme, compress, resolve_scheme
from tilewright.golden.deca.coding import CompressedTiles, data_lengths, mask_nonzeros
from tilewright.golden.deca.tiles import grid
from tilewright.golden.params.sparamx import ElementType, WeightFormat
from tilewright.golden.sparamx import PackedWeights
from tilewright.golden.sparamx.packed import DTYPES, strip_starts
from tilewright.kernels.deca import DecaMatrix
from tilewright.kernels.library import checked_threads, library
from tilewright.kernels.matrix import Matrix, Multiplier
from tilewright.kernels.memory import SLACK, address, as_weight_bytes, with_slack

__all__ = ["PARTS", "Packed", "check_form", "matrix_of", "pack", "prune_bits"]

Parts = dict[str, NDArray[np.uint8]]

ELEMENTS = {kind.value: kind for kind in ElementType}
PARTS = {
    "sparamx": ("metadata", "values"),
    "deca": ("masks", "group_scales", "data"),
}


class Packed(NamedTuple):
    """A packed layer: its arrays by name, and, of int8, the scale of each output."""

    parts: Parts
    scales: NDArray[np.float32] | None


def check_form(form: str) -> str:
    """``form`` where it is known; else a ValueError that says which are."""
    if form not in ELEMENTS:
        scheme = _scheme(form)  # refuses an unknown name
        if scheme.config.int8:
            raise ValueError(f"{form}: int8 tiles have no software kernel, but the form int8 has")
    return form


def family(form: str) -> str:
    """Whose arrays a form has."""
    return "sparamx" if form in ELEMENTS else "deca"


def prune_bits(bits: NDArray[np.uint16], sparsity: float) -> None:
    """Set that share of bf16 patterns to zero in place, those of least magnitude.

    Weights that are zero already count; of equal magnitudes the first go.
    """
    drop = round(sparsity * bits.size)
    if drop:
        library().tw_prune(address(bits), bits.size, drop, checked_threads(None))


def pack(form: str, bits: NDArray[np.uint16]) -> Packed:
    """Pack a matrix of bf16 patterns; its zeros are those of the packed one."""
    if form == "bf16":
        return Packed(_sparse_parts(Matrix.pack(WeightFormat(), bits)), None)
    if form == "int8":
        quantised, scales = _int8(bits)
        matrix = Matrix.pack(WeightFormat(element=ElementType.INT8), quantised)
        return Packed(_sparse_parts(matrix), scales)
    weights = (bits.astype(np.uint32) << 16).view(np.float32)
    compressed = compress(weights, _scheme(form, bits))
    tiles = compressed.tiles
    arrays = (with_slack(as_weight_bytes(a)) for a in (tiles.masks, tiles.scales, tiles.data))
    return Packed(dict(zip(PARTS["deca"], arrays, strict=True)), None)


def matrix_of(form: str, shape: tuple[int, int], parts: Parts) -> Multiplier:
    """A matrix in the memory of packed arrays; arrays that contradict each other are refused."""
    arrays = [parts[name][: len(parts[name]) - SLACK] for name in PARTS[family(form)]]
    if form in ELEMENTS:
        fmt = WeightFormat(element=ELEMENTS[form])
        strips, tiles = fmt.grid(shape)
        metadata, values = arrays
        if metadata.size != strips * tiles * fmt.metadata_bytes:
            raise ValueError(f"a bitmap of {metadata.size} bytes for a {form} layer of {shape}")
        metadata = metadata.reshape(strips, tiles, fmt.metadata_bytes)
        starts = strip_starts(fmt, metadata)
        if starts[-1] * fmt.element.bytes != len(values):
            have = len(values) // fmt.element.bytes
            raise ValueError(f"{have} values for a bitmap of {starts[-1]}")
        typed = values.view(DTYPES[fmt.element])
        return Matrix.around(PackedWeights(fmt, shape, metadata, typed, starts))
    masks, scales, data = arrays
    scheme = _scheme(form)
    if masks.size:
        scheme = scheme.sparsified
    config = scheme.config
    strips, along = grid(config, shape)
    count = strips * along
    if masks.size != count * config.mask_bytes or scales.size != count * config.scale_bytes:
        raise ValueError(f"{masks.size} bytes of masks and {scales.size} of scales for {shape}")
    masks = masks.reshape(count, config.mask_bytes)
    lengths = data_lengths(config, mask_nonzeros(config, masks))
    tiles_ = CompressedTiles(config, masks, scales.reshape(count, -1), data, lengths)
    return DecaMatrix(CompressedMatrix(scheme, shape, tiles_), copy=False)


def _scheme(form: str, bits: NDArray[np.uint16] | None = None) -> Scheme:
    """A scheme of DECA; with bitmasks where a matrix has zeros enough to pay for them."""
    scheme = resolve_scheme(form)
    if bits is None:
        return scheme
    zeros = 1 - np.count_nonzero(bits & 0x7FFF) / bits.size
    return scheme.sparsified if zeros * scheme.config.code_bits > 1 else scheme


def _sparse_parts(matrix: Matrix) -> Parts:
    packed = matrix.packed
    return {"metadata": with_slack(packed.metadata), "values": with_slack(packed.values)}


def _int8(bits: NDArray[np.uint16]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    quantised, scales = np.empty(bits.shape, np.int8), np.empty(len(bits), np.float32)
    library().tw_quantise(
        *(address(bits), *bits.shape, address(quantised), address(scales), checked_threads(None))
    )
    if np.isnan(scales).any():
        raise ValueError("a weight is NaN or infinite")
    return quantised, scales
