"""The properties of a tile that its time depends on: lines in memory, steps of operations."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.deca.coding import CompressedTiles, decode_tiles, lay_out
from tilewright.golden.params.deca import STRUCTURES, DecaParams, TileConfig
from tilewright.golden.payload import Columns

# Flags of a piece of a structure that one step takes.
CROSSES = 1  # it goes on in the next line
ENDS = 2  # it uses up its line
WANTED = 4  # it is not empty


@dataclass(slots=True)
class Tile:
    """A tile as the cycle model sees it: its lines, and the steps of its vector operations."""

    bases: tuple[int, int, int]
    lengths: tuple[int, int, int]
    lines: tuple[tuple[int, int], ...]  # first line and number of lines of each structure
    mask_cuts: list[int]  # flags of each chunk of the bitmask
    chunks: list[int]  # steps of each vector operation
    steps: list[tuple[int, int, int, int]]  # rows touched; cuts of codes, of scales; rows completed


def _cuts(position: int, needs: Sequence[int], size: int) -> list[int]:
    """Flags (``CROSSES``, ``ENDS``, ``WANTED``) of consecutive pieces of a structure."""
    found = []
    for need in needs:
        end = position + need
        found.append((end > size) | (end >= size) << 1 | (need > 0) << 2)
        position = end % size
    return found


def tiles_at(
    params: DecaParams, config: TileConfig, windows: NDArray[np.int64], commands: Columns
) -> list[Tile]:
    """Tiles with ``windows`` codes in each vector operation, at the addresses of ``commands``."""
    line_bytes, lookups = params.line_bytes, params.lookups(config.code_bits)
    columns = {name: column.tolist() for name, column in commands.items()}
    operations = params.chunks(config)
    rows = [_rows_of(params, config, chunk) for chunk in range(operations)]
    ends = [mine & ~after for mine, after in zip(rows, [*rows[1:], 0], strict=True)]
    scales = max(1, params.lanes // config.group) * config.scale.bytes
    chunks_of_group = max(1, config.group // params.lanes)
    found = []
    for tile, counts in enumerate(windows.tolist()):
        bases = tuple(columns[f"{name}_base"][tile] for name in STRUCTURES)
        lengths = tuple(columns[f"{name}_length"][tile] for name in STRUCTURES)
        lines = tuple(
            (base // line_bytes, -(-(base % line_bytes + length) // line_bytes) if length else 0)
            for base, length in zip(bases, lengths, strict=True)
        )
        chunks = [max(1, -(-count // lookups)) for count in counts]
        needs: list[int] = []
        for count, steps in zip(counts, chunks, strict=True):
            needs += [lookups] * (steps - 1) + [count - lookups * (steps - 1)]
        bits = [need * config.code_bits for need in needs]
        code_cuts = _cuts(bases[2] % line_bytes * 8, bits, 8 * line_bytes)
        scale_cuts = []
        position = bases[1] % line_bytes
        for chunk in range(operations):
            end = position + scales
            group_ends = chunk % chunks_of_group == chunks_of_group - 1
            cut = (end > line_bytes) | (end >= line_bytes and group_ends) << 1 | (scales > 0) << 2
            scale_cuts += [0] * (chunks[chunk] - 1) + [int(cut)]
            if group_ends:
                position = end % line_bytes
        touched, completed = [], []
        for chunk, steps in enumerate(chunks):
            touched += [rows[chunk]] * steps
            completed += [0] * (steps - 1) + [ends[chunk]]
        mask = [params.lanes // 8] * operations if config.sparse else []
        found.append(
            Tile(
                bases,
                lengths,
                lines,
                _cuts(bases[0] % line_bytes, mask, line_bytes),
                chunks,
                list(zip(touched, code_cuts, scale_cuts, completed, strict=True)),
            )
        )
    return found


def _rows_of(params: DecaParams, config: TileConfig, chunk: int) -> int:
    """Rows of TOut that a chunk touches, one bit per row."""
    size = params.lanes * (1 if config.int8 else 2)
    first, last = chunk * size // params.line_bytes, (chunk * size + size - 1) // params.line_bytes
    return (1 << last + 1) - (1 << first)


def tiles_in_order(
    params: DecaParams, tiles: CompressedTiles, base: int = 0, alignment: int = 1
) -> list[Tile]:
    """Tiles one after the other as ``tilewright.golden.deca.lay_out`` places them."""
    config = tiles.config
    mask = decode_tiles(tiles).mask
    windows = mask.reshape(len(mask), params.chunks(config), params.lanes).sum(axis=-1)
    return tiles_at(params, config, windows, lay_out(tiles, base, alignment).commands)


def even_tiles(
    params: DecaParams, config: TileConfig, density: Fraction, count: int, seed: int = 0
) -> list[Tile]:
    """``count`` tiles in a row whose weights are nonzero independently with ``density``.

    The codes of a vector operation are binomial. Over all vector operations each quantile occurs
    once, in random order, so that few tiles have the mean of many.
    """
    operations, lanes = params.chunks(config), params.lanes
    windows = np.full((count, operations), lanes)
    if config.sparse:
        share = [
            float(comb(lanes, n) * density**n * (1 - density) ** (lanes - n))
            for n in range(lanes + 1)
        ]
        quantiles = (np.arange(windows.size) + 0.5) / windows.size
        drawn = np.searchsorted(np.cumsum(share)[:-1], quantiles)
        windows = np.random.default_rng(seed).permutation(drawn).reshape(windows.shape)
    lengths = {
        "mask": np.full(count, config.mask_bytes),
        "scale": np.full(count, config.scale_bytes),
        "data": -(-windows.sum(axis=1) * config.code_bits // 8),
    }
    commands: Columns = {}
    start = 0
    for name, length in lengths.items():
        commands[f"{name}_base"] = start + np.cumsum(length) - length
        commands[f"{name}_length"] = length
        start += -(-int(length.sum()) // params.line_bytes) * params.line_bytes
    return tiles_at(params, config, windows, commands)
