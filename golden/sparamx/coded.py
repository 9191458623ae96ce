"""Compressed weights re-laid for processors: codes in the order in which vectors look them up.

DECA's tiles have the order of its hardware. Decompression in vector registers takes fewer
instructions if codes are in the order of the look-up, and if 8-bit codes are renamed so that one
permutation of bytes decodes them:

- Codes of up to 4 bits: a word has four of them; shifted by 0, 4, 8 or 12 bits it is an index of
  VPERMW, which ignores all but its low five bits, so that a table of the 16 values, twice, decodes
  32 codes. Where zeros are left out, codes are spread to bytes, expanded by VPEXPANDB, and decoded
  by two VPERMB, one for each byte of a bf16.
- Codes of 5 to 8 bits become 8-bit ones whose high bits *are* the low byte of the bf16 (few of
  these bits differ from zero), and whose low 6 bits are the index of the high byte for VPERMB. A
  code is renamed according to its value; whether all values that occur fit is known when packing.

A strip is 16 outputs, a tile of it 32 inputs, as in ``tilewright.golden.params.sparamx``. A tile
is one record: 64 bytes of bitmap where zeros are left out, scales of its 16 outputs, one for each
group of 32 or 16 inputs, where there are scales, and codes. Records follow each other in one
stream.

Weights that were quantised elsewhere (``lay_out``) have other scales than powers of two, and may
have one fp32 scale of the whole tensor; a factor is their product, rounded to fp32.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.arith import add, fma
from tilewright.golden.bits import decode, decode_scale
from tilewright.golden.deca.coding import decode_tiles
from tilewright.golden.deca.matrix import CompressedMatrix
from tilewright.golden.deca.scheme import Scheme
from tilewright.golden.deca.tiles import grid
from tilewright.golden.params.arith import AMX_RULES
from tilewright.golden.params.block import require
from tilewright.golden.params.deca import TILE_ROWS, ScaleKind, TileConfig
from tilewright.golden.params.formats import (
    BF16,
    E4M3,
    E8M0,
    FP16,
    FP32,
    FloatFormat,
    ScaleFormat,
)
from tilewright.golden.params.sparamx import STRIP_OUTPUTS, VECTOR_CHAINS, Order, WeightFormat
from tilewright.golden.sparamx.core import Core
from tilewright.golden.sparamx.linear import check_activations
from tilewright.golden.sparamx.linear import multiply as multiply_packed
from tilewright.golden.sparamx.packed import pack as pack_elements

SEGMENT_TILES = 64  # what one thread takes at a time; its sums are added up afterwards
SLACK = 256  # bytes of the stream after the last record, which kernels may read
ELEMENTS = 512
ROW = 32
MASK_BYTES, SCALE_BYTES = ELEMENTS // 8, STRIP_OUTPUTS
INDEX_BITS = 6  # of VPERMB
NIBBLE = 4
_DENSE = WeightFormat(sparse=False)


class TileScale(NamedTuple):
    """How the scales of a tile are stored: their format, and groups of its inputs."""

    fmt: FloatFormat | ScaleFormat | None
    groups: int

    @property
    def dtype(self) -> np.dtype:
        return np.dtype("<u2" if self.fmt and self.fmt.bits == 16 else "u1")

    def numbers(self, patterns: NDArray) -> NDArray[np.float64]:
        decoded = decode_scale if isinstance(self.fmt, ScaleFormat) else decode
        return decoded(self.fmt, patterns)  # type: ignore[arg-type]


SCALES = {  # in the order of their numbers in the kernels
    "none": TileScale(None, 0),
    "e8m0": TileScale(E8M0, 1),
    "fp16": TileScale(FP16, 1),
    "bf16": TileScale(BF16, 1),
    "e4m3": TileScale(E4M3, 2),
}


@dataclass(frozen=True)
class CodedWeights:
    """A (outputs, inputs) matrix as one stream of records."""

    shape: tuple[int, int]
    code_bits: int  # 4 or 8
    sparse: bool
    scale: str  # a name of ``SCALES``
    low_mask: int  # 8-bit codes: which of their bits are the low byte of the bf16
    table: NDArray[np.uint16]  # (256,) bf16 pattern of every code, before its scale
    stream: NDArray[np.uint8]  # with ``SLACK`` bytes at its end
    tile_starts: NDArray[np.int64]  # (strips * tiles + 1,) offsets of the records
    tensor_scale: float = 1.0  # fp32, in every factor of e4m3 scales

    @property
    def tiles(self) -> tuple[int, int]:
        return _DENSE.grid(self.shape)

    @property
    def size(self) -> int:
        """Bytes that a multiplication reads of it."""
        return int(self.tile_starts[-1])

    @property
    def scale_bytes(self) -> int:
        kind = SCALES[self.scale]
        return STRIP_OUTPUTS * kind.dtype.itemsize * kind.groups

    @property
    def has_tile_order(self) -> bool:
        """Whether scales can be applied to elements, which powers of two do without rounding."""
        return self.scale in ("none", "e8m0")

    @property
    def segment_starts(self) -> NDArray[np.int64]:
        """Offsets of the first record of every segment of every strip, and of the end."""
        strips, along = self.tiles
        first = np.arange(strips)[:, np.newaxis] * along + np.arange(0, along, SEGMENT_TILES)
        return self.tile_starts[np.append(first.reshape(-1), strips * along)]


def slot_order() -> NDArray[np.int64]:
    """(512,) element of a tile, row by row as the processor takes it, of every byte of codes.

    VPUNPCKLBW and VPUNPCKHBW interleave within 16 bytes: eight words of a row, then eight of the
    next one.
    """
    pair, lane, row, word = np.meshgrid(*map(np.arange, (8, 4, 2, 8)), indexing="ij")
    return ((2 * pair + row) * ROW + 8 * lane + word).reshape(-1)


def repeated(coded: CodedWeights, times: int) -> CodedWeights:
    """The same strips several times below each other: a larger matrix without packing one."""
    require(coded.shape[0] % STRIP_OUTPUTS == 0, f"{coded.shape[0]} outputs are no whole strips")
    stream = np.zeros(coded.size * times + SLACK, np.uint8)
    stream[: coded.size * times] = np.tile(coded.stream[: coded.size], times)
    steps = np.tile(np.diff(coded.tile_starts), times)
    return replace(
        coded,
        shape=(coded.shape[0] * times, coded.shape[1]),
        stream=stream,
        tile_starts=np.concatenate([[0], np.cumsum(steps)]).astype(np.int64),
    )


def check_layout(scheme: Scheme) -> None:
    """Refuse a scheme that has no such layout."""
    config, name = scheme.config, scheme.name
    require(not config.int8, f"{name}: int8 tiles have no look-up kernel")
    require(config.code_bits <= 8, f"{name}: 16-bit elements need no look-up")
    require(
        config.scale is ScaleKind.NONE or (config.scale is ScaleKind.E8M0 and config.group == ROW),
        f"{name}: {config.scale.value} scales of groups of {config.group} have no look-up kernel",
    )


def pack(compressed: CompressedMatrix) -> CodedWeights:
    """Lay a compressed matrix out anew; refused where its scheme has no such layout."""
    config, name = compressed.scheme.config, compressed.scheme.name
    check_layout(compressed.scheme)
    scaled = config.scale is ScaleKind.E8M0
    nans = scaled and bool((compressed.tiles.scales == E8M0.nan_bits).any())
    require(not nans, f"{name}: a scale is NaN")
    tiles = decode_tiles(compressed.tiles)
    count, (strips, along) = len(tiles.codes), grid(config, compressed.shape)
    require(count == strips * along, f"{count} tiles are not those of {compressed.shape}")
    # Outputs by inputs to rows of pairs of inputs, each for all outputs.
    blocks = (count, STRIP_OUTPUTS, TILE_ROWS, 2)
    by_rows = tiles.codes.astype(np.uint8).reshape(blocks).transpose(0, 2, 1, 3)
    codes = by_rows.reshape(count, ELEMENTS)
    mask = tiles.mask.reshape(blocks).transpose(0, 2, 1, 3).reshape(count, ELEMENTS)
    book = np.array(compressed.scheme.book, np.uint16)
    if config.code_bits <= NIBBLE:
        bits, low_mask = NIBBLE, 0
        table = np.zeros(256, np.uint16)
        table[: len(book)] = book
    else:
        bits = 8
        new, table, low_mask = renamed(compressed.scheme, np.unique(codes[mask]))
        codes = new[codes]
    order = slot_order()
    heads = []
    if config.sparse:
        mask = mask[:, order]
        heads.append(np.packbits(mask, axis=1, bitorder="little"))
        codes = codes[:, order]
        kept = np.count_nonzero(mask, axis=1).astype(np.int64)
        lengths = kept if bits == 8 else -(-kept // 2)
        data = codes[mask] if bits == 8 else _halves(codes[mask], kept)
    else:
        lengths = np.full(count, ELEMENTS * bits // 8, np.int64)
        data = (codes[:, order] if bits == 8 else _nibbles(codes)).reshape(-1)
    if scaled:
        heads.append(compressed.tiles.scales.reshape(count, SCALE_BYTES))
    head = np.concatenate(heads, axis=1) if heads else np.zeros((count, 0), np.uint8)
    starts = np.concatenate([[0], np.cumsum(lengths + head.shape[1])]).astype(np.int64)
    stream = np.zeros(int(starts[-1]) + SLACK, np.uint8)
    stream[starts[:-1, np.newaxis] + np.arange(head.shape[1])] = head
    if config.sparse:
        places = np.arange(len(data)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        stream[np.repeat(starts[:-1] + head.shape[1], lengths) + places] = data
    else:
        rows = stream[: starts[-1]].reshape(count, -1)
        rows[:, head.shape[1] :] = data.reshape(count, -1)
    scale = "e8m0" if scaled else "none"
    return CodedWeights(
        compressed.shape, bits, config.sparse, scale, low_mask, table, stream, starts
    )


def lay_out(
    codes: NDArray[np.uint8],
    scales: NDArray,
    values: NDArray[np.uint16],
    scale: str,
    tensor_scale: float = 1.0,
) -> CodedWeights:
    """Lay out (outputs, inputs) codes of up to 4 bits, quantised elsewhere, none left out.

    ``values`` are the bf16 patterns of the codes, ``scales`` (outputs, groups) patterns. The
    ``tensor_scale`` of e4m3 ones is far from fp32's limits.
    """
    plain = tensor_scale == 1 if scale != "e4m3" else 2.0**-80 <= abs(tensor_scale) <= 2.0**80
    require(plain, f"{scale} scales take no tensor scale of {tensor_scale!r}")
    by_tile, heads = tiles_of(codes, scales, scale)
    by_rows = by_tile.reshape(-1, STRIP_OUTPUTS, TILE_ROWS, 2).transpose(0, 2, 1, 3)
    data = _nibbles(by_rows.reshape(-1, ELEMENTS))
    records = np.concatenate([heads, data], axis=1)
    stream = np.append(records.reshape(-1), np.zeros(SLACK, np.uint8))
    starts = np.arange(len(records) + 1, dtype=np.int64) * records.shape[1]
    table = np.zeros(256, np.uint16)
    table[: len(values)] = values
    shape = (codes.shape[0], codes.shape[1])
    return CodedWeights(shape, NIBBLE, False, scale, 0, table, stream, starts, tensor_scale)


def tiles_of(
    codes: NDArray[np.uint8], scales: NDArray, scale: str
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """(tiles, 512) codes, output by output, and (tiles, bytes) scales; ragged edges are zeros."""
    kind, (outputs, inputs) = SCALES[scale], codes.shape
    require(
        scales.shape == (outputs, -(-inputs * kind.groups // ROW)),
        f"scales of shape {scales.shape} are not those of weights of {codes.shape}",
    )
    require(bool(np.isfinite(kind.numbers(scales)).all()), "a scale is NaN or infinite")
    strips, along = _DENSE.grid((outputs, inputs))
    down = (0, strips * STRIP_OUTPUTS - outputs)
    codes = np.pad(codes, [down, (0, along * ROW - inputs)])
    by_tile = codes.reshape(strips, STRIP_OUTPUTS, along, ROW).swapaxes(1, 2)
    scales = np.pad(scales, [down, (0, along * kind.groups - scales.shape[1])])
    heads = scales.reshape(strips, STRIP_OUTPUTS, along, kind.groups).transpose(0, 2, 3, 1)
    heads = np.ascontiguousarray(heads, kind.dtype).view(np.uint8)
    return by_tile.reshape(-1, ELEMENTS), heads.reshape(strips * along, -1)


def _nibbles(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(tiles, 512) codes to words of four: word w of 64 bytes j has rows 4j to 4j + 3."""
    rows = codes.reshape(len(codes), 4, 4, ROW).astype(np.uint16)
    words = sum(rows[:, :, k] << np.uint16(NIBBLE * k) for k in range(4))
    return np.asarray(words, "<u2").reshape(len(codes), -1).view(np.uint8)


def _halves(codes: NDArray[np.uint8], kept: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Two codes a byte, a tile's first half in the low bits: each half is a run of codes again."""
    half = -(-kept // 2)
    first = np.cumsum(kept) - kept
    places = np.arange(int(half.sum())) - np.repeat(np.cumsum(half) - half, half)
    low = np.repeat(first, half) + places
    high = low + np.repeat(half, half)
    there = places + np.repeat(half, half) < np.repeat(kept, half)
    upper = np.where(there, codes[np.minimum(high, len(codes) - 1)] if len(codes) else 0, 0)
    return (codes[low] | upper << NIBBLE).astype(np.uint8)


def renamed(scheme: Scheme, used: NDArray) -> tuple[NDArray[np.uint8], NDArray[np.uint16], int]:
    """New names of ``used`` codes, the table of names, and which of their bits are the low byte."""
    book = np.array(scheme.book, np.uint16)
    values = np.where(book & 0x7FFF, book, 0)
    wanted = np.unique(values[used])
    low_bits = 2
    while np.any(wanted & (0xFF >> low_bits)):
        low_bits += 1
    low_mask = 0xFF & ~(0xFF >> low_bits)
    room = 1 << 8 - low_bits  # high bytes for each value of the bits that both parts have
    names: dict[tuple[int, int], int] = {(0, 0): 0}
    taken = Counter({0: 1})
    table, new = np.zeros(256, np.uint16), np.zeros(len(book), np.uint8)
    for value in wanted.tolist():
        low, high = value & 0xFF, value >> 8
        shared = low & (1 << INDEX_BITS) - 1
        if value and (shared, high) not in names:
            names[shared, high] = taken[shared]
            taken[shared] += 1
        index = names[shared, high] if value else 0
        require(
            index < room and low_bits <= INDEX_BITS,
            f"{scheme.name}: the values of this matrix have too many high bytes for one"
            " permutation; DecaMatrix takes it",
        )
        code = low | index
        table[code] = value
        new[values == value] = code
    return new, table, low_mask


# --- the way back, and the kernels


def elements(coded: CodedWeights) -> tuple[NDArray[np.uint16], NDArray | None]:
    """(tiles, 16 rows, 32) bf16 patterns before their scale, and (tiles, groups, 16) scales."""
    count, order = len(coded.tile_starts) - 1, slot_order()
    codes = np.zeros((count, ELEMENTS), np.uint8)
    kept = np.ones((count, ELEMENTS), np.bool_)
    scales = np.zeros((count, coded.scale_bytes), np.uint8)
    for k, start in enumerate(coded.tile_starts[:-1]):
        record = coded.stream[start : coded.tile_starts[k + 1]]
        if coded.sparse:
            bits, record = record[:MASK_BYTES], record[MASK_BYTES:]
            kept[k, order] = np.unpackbits(bits, bitorder="little").view(np.bool_)
        scales[k], record = record[: coded.scale_bytes], record[coded.scale_bytes :]
        if coded.sparse:
            if coded.code_bits == NIBBLE:
                record = np.concatenate([record & 0xF, record >> NIBBLE])
            in_order = kept[k, order]
            codes[k, order[in_order]] = record[: np.count_nonzero(in_order)]
        elif coded.code_bits == 8:
            codes[k, order] = record
        else:
            words = record.view("<u2").reshape(4, ROW)
            rows = [words >> np.uint16(NIBBLE * r) & 0xF for r in range(4)]
            codes[k] = np.stack(rows, axis=1).reshape(-1)
    values = np.where(kept, coded.table[codes], 0).astype(np.uint16)
    kind, patterns = SCALES[coded.scale], values.reshape(count, TILE_ROWS, ROW)
    groups = (count, kind.groups, STRIP_OUTPUTS)
    return patterns, scales.view(kind.dtype).reshape(groups) if kind.groups else None


def factors(coded: CodedWeights, scales: NDArray) -> NDArray[np.uint32]:
    """Factors of sums, as fp32 patterns."""
    if coded.scale == "e8m0":
        return np.asarray(scales.astype(np.uint32) << 23, np.uint32)
    numbers = SCALES[coded.scale].numbers(scales) * np.float64(np.float32(coded.tensor_scale))
    return numbers.astype(np.float32).view(np.uint32)


def multiply(coded: CodedWeights, activations: NDArray[np.uint16], order: Order) -> NDArray:
    """(batch, outputs) fp32 patterns of (batch, inputs) bf16 ones.

    ``Order.TILE``: scales are applied to the elements, and TDPBF16PS goes over the tiles, as in
    ``golden.deca.gemm``. ``Order.VECTOR``: VDPBF16PS over rows, row r of a tile to sum r mod 4.
    Without scales the four sums run over a segment of ``SEGMENT_TILES`` tiles and are added as
    (0 + 1) + (2 + 3). With scales they begin at +0 in every group, are added in the same way, and a
    fused multiplication by the group's factor adds them to the segment's sum. Segments are added
    from the first one on. Scales that are no powers of two have this order only.
    """
    check_activations(_DENSE, coded.shape, activations)
    strips, along = coded.tiles
    batch = len(activations)
    tiles, scales = elements(coded)
    tiles = tiles.reshape(strips, along, TILE_ROWS, ROW)
    if order is Order.TILE:
        require(coded.has_tile_order, f"{coded.scale} scales have vector order only")
        if scales is not None:
            tiles = _scaled(tiles, scales.reshape(strips, along, 1, STRIP_OUTPUTS, 1))
        matrix = tiles.reshape(strips, along, TILE_ROWS, STRIP_OUTPUTS, 2)
        dense = matrix.transpose(0, 3, 1, 2, 4).reshape(strips * STRIP_OUTPUTS, -1)
        packed = pack_elements(_DENSE, dense[: coded.shape[0], : coded.shape[1]])
        return multiply_packed(packed, activations, order)
    core = Core()
    padded = np.pad(activations, [(0, 0), (0, along * ROW - coded.shape[1])])
    x = padded.reshape(batch, along, TILE_ROWS, 2)
    shape = (strips, batch, STRIP_OUTPUTS)
    groups = SCALES[coded.scale].groups
    if scales is not None:
        factor = factors(coded, scales).reshape(strips, along, groups, 1, STRIP_OUTPUTS)
    total = None
    for first in range(0, along, SEGMENT_TILES):
        segment = np.zeros(shape, np.uint32)
        chains = np.zeros((VECTOR_CHAINS, *shape), np.uint32)
        for t in range(first, min(along, first + SEGMENT_TILES)):
            for r in range(TILE_ROWS):
                left = np.tile(x[:, t, r], (1, STRIP_OUTPUTS))
                right = tiles[:, t, r][:, np.newaxis]
                chains[r % VECTOR_CHAINS] = core.vdpbf16ps(chains[r % VECTOR_CHAINS], left, right)
                group, left_over = divmod((r + 1) * groups, TILE_ROWS)
                if groups and not left_over:
                    times = np.broadcast_to(factor[:, t, group - 1], shape)
                    args = (FP32, FP32, FP32, FP32, _joined(chains), times, segment)
                    segment = fma(*args, AMX_RULES).astype(np.uint32)
                    chains[...] = 0
        if scales is None:
            segment = _joined(chains)
        total = segment if total is None else _plus(total, segment)
    return np.asarray(total).swapaxes(0, 1).reshape(batch, -1)[:, : coded.shape[0]]


def _plus(a: NDArray, b: NDArray) -> NDArray:
    return add(FP32, FP32, FP32, a, b, AMX_RULES)


def _joined(chains: NDArray) -> NDArray:
    return _plus(_plus(chains[0], chains[1]), _plus(chains[2], chains[3]))


def _scaled(tiles: NDArray[np.uint16], scales: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """Elements times powers of two that keep them normal: an addition to their exponents."""
    shape = (*tiles.shape[:-1], STRIP_OUTPUTS, 2)
    parts = tiles.reshape(shape)
    moved = parts + ((scales.astype(np.int32) - 127) << 7)
    return np.where(parts & 0x7F80, moved & 0xFFFF, 0).astype(np.uint16).reshape(tiles.shape)


def scales_are_plain(elements: NDArray[np.uint16], scales: NDArray[np.uint8]) -> bool:
    """Whether scaling any of these bf16 patterns is an addition to its exponent."""
    exponents = (elements >> 7 & 0xFF).astype(np.int64)
    normal = exponents[exponents > 0]  # subnormal elements count as zero
    if not scales.size or not normal.size:
        return True
    if scales.max() == E8M0.nan_bits:
        return False
    low, high = int(scales.min()) - 127, int(scales.max()) - 127
    return bool(normal.min() + low >= 1 and normal.max() + high <= 254)


def tile_counts(coded: CodedWeights, order: Order) -> Counter[str]:
    """Vector and tile instructions of one tile at batch 1, as the kernels execute them."""
    counts: Counter[str] = Counter()
    sparse, groups, pairs = coded.sparse, SCALES[coded.scale].groups, TILE_ROWS // 2
    if coded.code_bits == NIBBLE and not sparse:
        counts.update({"load": 4, "vpmultishiftqb": 12, "vpermw": 16})
    elif coded.code_bits == NIBBLE:
        # Both halves of 192 bytes of codes are spread to bytes in the first-level cache.
        counts.update({"load": 3, "vpand": 6, "vpsrlw": 3, "store": 6})
        counts.update({"vpexpandb": pairs, "vpermb": 2 * pairs, "vpunpckbw": 2 * pairs})
    else:
        counts.update({"vpexpandb" if sparse else "load": pairs})
        counts.update({"vpermb": pairs, "vpand": pairs, "vpunpckbw": 2 * pairs})
    if order is Order.VECTOR:
        counts["vdpbf16ps"] = TILE_ROWS
        if groups:
            counts.update({"vpmovzxbd": 1, "vpsrlw": 1, "vaddps": 3 * groups, "vfmadd": groups})
        return counts
    counts.update({"store": TILE_ROWS, "tileloadd": 2, "tdpbf16ps": 1})
    if groups:
        counts.update({"vpmovzxbd": 1, "vpadd": 2, "vpsrlw": 2})
        counts.update({"vptestmw": TILE_ROWS, "vmovdqu16": TILE_ROWS})  # the masked addition
    return counts


def deca_tile_counts(config: TileConfig) -> Counter[str]:
    """The same of one of DECA's own tiles, decompressed row by row and multiplied as a tile."""
    bits, sparse = config.code_bits, config.sparse
    row: Counter[str] = Counter({"store": 1})
    if bits == 16:
        row["vpexpandw" if sparse else "load"] += 1
    else:
        row.update({"load": 1, "vpexpandb": int(sparse), "vpmovzxbw": 1})
        if bits < 8:  # eight codes are as many bytes as a code has bits, shifted apart
            row.update(("vpermb", "vpbroadcastw", "vpadd", "vpmultishiftqb", "vpand"))
        if bits <= 5:
            row.update({"vpermw": 1, "vmovdqu16": int(sparse)})
        else:  # tables of 64 words, and choices between them on the upper bits
            tables = 1 << (bits - 6)
            row.update({"vpermi2w": tables, "vptestmw": bits - 6, "vmovdqu16": tables - 1 + sparse})
    if config.scale is ScaleKind.E8M0:
        row.update(("vptestmw", "vpbroadcastw", "vpand", "vpadd"))
    counts = Counter({name: TILE_ROWS * n for name, n in row.items() if n})
    return counts + Counter({"tileloadd": 2, "tdpbf16ps": 1})
