"""Storage forms of a layer's weights: names, packing, and the arrays that a kernel reads.

A form is "bf16" or "int8", packed with a bitmap of the nonzero weights (SparAMX), or the name of a
scheme of DECA such as "bf8" or "mxfp4", laid out for vector registers where that is possible;
weights that were quantised elsewhere have those of ``tilewright.kernels.quantised``. The arrays of
a packed layer are plain bytes followed by some readable ones, so that they can be stored, loaded
and mapped as they are.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.deca import CompressedMatrix, Scheme, resolve_scheme
from tilewright.golden.deca.coding import CompressedTiles, data_lengths, mask_nonzeros
from tilewright.golden.deca.scheme import SCHEMES
from tilewright.golden.deca.tiles import grid
from tilewright.golden.params.deca import ScaleKind
from tilewright.golden.params.sparamx import ElementType, WeightFormat
from tilewright.golden.sparamx.coded import ROW, SCALES, CodedWeights
from tilewright.golden.sparamx.coded import SLACK as CODED_SLACK
from tilewright.golden.sparamx.packed import DTYPES
from tilewright.kernels.coding import coded_weights, compressed_matrix
from tilewright.kernels.compressed import CodedMatrix, DecaMatrix
from tilewright.kernels.library import (
    SLACK,
    address,
    as_weight_bytes,
    checked_threads,
    library,
    with_slack,
)
from tilewright.kernels.matrix import Matrix, Multiplier
from tilewright.kernels.quantised import FORMS

Parts = dict[str, NDArray[np.uint8]]

METHOD = "sparamx"  # of config.json's quantization_config; tilewright.torch has its own
ELEMENTS = {kind.value: kind for kind in ElementType}
PARTS = {
    "sparamx": ("metadata", "values"),
    "coded": ("header", "table", "starts", "stream"),
    "deca": ("masks", "group_scales", "data"),
}


class Packed(NamedTuple):
    """A packed layer: its arrays by name, and, of int8, the scale of each output."""

    parts: Parts
    scales: NDArray[np.float32] | None


def check_form(form: str) -> str:
    """``form`` where it is known; else a ValueError that says which are."""
    if form in FORMS and form not in SCHEMES:
        raise ValueError(f"{form} is a form of weights that are quantised already")
    if form not in ELEMENTS:
        scheme = _scheme(form)  # refuses an unknown name
        if scheme.config.int8:
            raise ValueError(f"{form}: int8 tiles have no software kernel, but the form int8 has")
    return form


def family(form: str) -> str:
    """Which arrays a form has: DECA's own tiles only where no faster layout of them is known."""
    if form in ELEMENTS:
        return "sparamx"
    if form in FORMS:
        return "coded"
    config = _scheme(form).config
    plain = config.scale is ScaleKind.NONE
    grouped = config.scale is ScaleKind.E8M0 and config.group == ROW
    return "coded" if config.code_bits <= 8 and (plain or grouped) else "deca"


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
        return Packed(_bitmap_parts(Matrix.pack(_format(form, bits), bits)), None)
    if form == "int8":
        quantised, scales = _int8(bits)
        return Packed(_bitmap_parts(Matrix.pack(_format(form, quantised), quantised)), scales)
    scheme = _scheme(form, bits)
    if family(form) == "coded":
        return Packed(coded_parts(coded_weights(scheme, bits)), None)
    tiles = compressed_matrix(scheme, bits).tiles
    arrays = (with_slack(as_weight_bytes(a)) for a in (tiles.masks, tiles.scales, tiles.data))
    return Packed(dict(zip(PARTS["deca"], arrays, strict=True)), None)


def matrix_of(form: str, shape: tuple[int, int], parts: Parts) -> Multiplier:
    """A matrix in the memory of packed arrays; arrays that contradict each other are refused."""
    arrays = [parts[name][: len(parts[name]) - SLACK] for name in PARTS[family(form)]]
    if form in ELEMENTS:
        metadata, values = arrays
        fmt = WeightFormat(element=ELEMENTS[form], sparse=metadata.size > 0)
        return Matrix.around(fmt, shape, metadata, values.view(DTYPES[fmt.element]))
    if family(form) == "coded":
        return CodedMatrix(_coded(shape, *arrays), copy=False)
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
    """A scheme of DECA; with bitmasks where a matrix has zeros enough to pay for them.

    They never pay for codes of up to 4 bits: expanding those takes longer than reading all of them
    (``roof_surface`` of the record), so that zeros are codes like others there.
    """
    scheme = resolve_scheme(form)
    if bits is None or (family(form) == "coded" and scheme.config.code_bits <= 4):
        return scheme
    zeros = share_of_zeros(bits & 0x7FFF)
    return scheme.sparsified if zeros * scheme.config.code_bits > 1 else scheme


def coded_parts(coded: CodedWeights) -> Parts:
    words = (coded.code_bits, coded.sparse, [*SCALES].index(coded.scale), coded.low_mask)
    tensor_scale = int(np.float32(coded.tensor_scale).view(np.uint32))
    header = np.array([*words, tensor_scale], np.int64)
    arrays = (header, coded.table, coded.tile_starts, coded.stream)
    parts = (with_slack(as_weight_bytes(array)) for array in arrays)
    return dict(zip(PARTS["coded"], parts, strict=True))


def _coded(shape: tuple[int, int], *arrays: NDArray[np.uint8]) -> CodedWeights:
    header, table, starts, stream = arrays
    if len(header) != 40 or len(table) != 512:
        raise ValueError(f"a header of {len(header)} bytes and a table of {len(table)}")
    bits, sparse, scale, low_mask, tensor_scale = (int(value) for value in header.view(np.int64))
    coded = CodedWeights(
        *(shape, bits, bool(sparse), [*SCALES][scale], low_mask),
        *(table.view(np.uint16), stream, starts.view(np.int64)),
        float(np.uint32(tensor_scale).view(np.float32)),
    )
    strips, along = coded.tiles
    wanted = strips * along + 1
    if len(coded.tile_starts) != wanted or len(stream) < coded.tile_starts[-1] + CODED_SLACK:
        raise ValueError(
            f"{len(coded.tile_starts) - 1} tiles in {len(stream)} bytes for a layer of {shape}"
        )
    return coded


def _format(form: str, weights: NDArray) -> WeightFormat:
    """With a bitmap where a matrix has zeros enough to pay for it."""
    element = ELEMENTS[form]
    saved = share_of_zeros(weights) * 8 * element.bytes
    return WeightFormat(element=element, sparse=saved > 1)


def share_of_zeros(weights: NDArray) -> float:
    """Zeros among the weights, by some of the rows where there are many."""
    some = weights[:: max(1, len(weights) // 256)]
    return 1 - float(np.count_nonzero(some)) / some.size


def _bitmap_parts(matrix: Matrix) -> Parts:
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
