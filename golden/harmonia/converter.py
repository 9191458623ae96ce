"""The online converter on a stream of beats: its results and their cycles."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden import bfp
from tilewright.golden.params.formats import FP16, BlockFormat
from tilewright.golden.params.harmonia import ACTIVATION_BITS, OPERAND_BITS, HarmoniaConverterParams
from tilewright.golden.payload import Columns


class Block(NamedTuple):
    """The beats of one block."""

    spatial: bool
    short: bool
    values: NDArray[np.uint16]  # (beats, lanes)


def blocks_of(params: HarmoniaConverterParams, beats: Columns) -> Iterator[Block]:
    """Whole blocks of a stream."""
    start = 0
    while start < len(beats["spatial"]):
        spatial = bool(beats["spatial"][start])
        end = start + params.block_beats(spatial)
        if end > len(beats["spatial"]):
            return
        yield Block(spatial, bool(beats["short"][start]), beats["values"][start:end])
        start = end


def convert(params: HarmoniaConverterParams, beats: Columns) -> Columns:
    """Beats of ``o`` for the whole blocks among the beats of ``i``."""
    converted = [_converted(params, block) for block in blocks_of(params, beats)]
    names = [f.name for f in params.outputs[0].fields]
    empty = {
        f.name: np.zeros((0, f.count) if f.count else 0, np.uint8) for f in params.outputs[0].fields
    }
    return {n: np.concatenate([empty[n], *(c[n] for c in converted)]) for n in names}


def _converted(params: HarmoniaConverterParams, block: Block) -> Columns:
    bits = OPERAND_BITS if block.short else ACTIVATION_BITS
    fmt = BlockFormat(group=params.group, mantissa_bits=bits)
    values = block.values.astype(np.uint16)
    if block.spatial:
        # (loops, columns, rows) to one group a column, and back to beats column by column.
        width = params.spatial_width
        values = values[:, : width * params.rows]
        grid = values.reshape(params.loops, params.columns, params.rows)
        groups = bfp.encode(fmt, grid.swapaxes(0, 1).reshape(params.columns, -1), saturate=True)
        unused = ((0, 0), (0, params.lanes - values.shape[1]))
        by_beat = (params.columns // width, width, params.loops, params.rows)
        signs, mantissas = (
            np.pad(x.reshape(by_beat).swapaxes(1, 2).reshape(values.shape), unused)
            for x in (groups.sign, groups.mantissa)
        )
        exponents = np.repeat(groups.exponent.reshape(-1, width), params.loops, axis=0)
        exponents = np.tile(exponents, params.rows // width)
    else:
        # (beats, elements of a beat, rows) to one group a row, and back.
        by_row = values.reshape(-1, params.rows).T
        groups = bfp.encode(fmt, by_row, saturate=True)
        shape = (len(values), params.lanes)
        signs = groups.sign[:, 0].T.reshape(shape)
        mantissas = groups.mantissa[:, 0].T.reshape(shape)
        exponents = np.broadcast_to(groups.exponent.T, (len(values), params.rows))
    count = len(signs)
    special = ((values & 0x7FFF) > FP16.max_finite_bits).any()
    return {
        "signs": signs.astype(np.uint8),
        "mantissas": mantissas,
        "exponents": exponents,
        "saturated": np.full(count, special, np.uint8),
        "last": (np.arange(count) == count - 1).astype(np.uint8),
    }


def cycles(params: HarmoniaConverterParams, beats: Columns) -> NDArray[np.int64]:
    """Cycle of every output beat, counted from the first input beat, if nobody ever waits.

    There is room for two blocks. A block is read from the cycle after its last beat on, one beat a
    cycle, and each beat is offered a cycle later.
    """
    taken, read = [-1, -1], [-1, -1]  # cycles in which blocks were complete, and read to the end
    offered: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    for block in blocks_of(params, beats):
        count = len(block.values)
        taken.append(max(taken[-1], read[-2]) + count)
        first = max(taken[-1], read[-1]) + 1
        read.append(first + count - 1)
        offered.append(first + 1 + np.arange(count))
    return np.concatenate(offered)
