"""Where an Anda tensor and its weights lie in the buffers: Figure 10's bit-plane layout.

A memory *line* holds one plane word of each of ``lanes`` rows, so that one read feeds every row
of an array. A block of ``lanes`` rows takes, group after group, a line of sign words and then M
lines of mantissa bits, the most significant first. Exponents have a memory of their own, one line
of ``lanes`` exponents per block and group. M only changes how many lines a group takes.

Weights follow the same scheme: ``lanes`` outputs side by side, ``weight_bits`` lines per group of
inputs, the sign plane first, and a line of scales per group of inputs in a memory of its own.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.golden import planes
from tilewright.golden.bfp import Blocks
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import BlockFormat
from tilewright.golden.weights import Weights


@dataclass(frozen=True, kw_only=True)
class TensorLayout:
    """How a matrix of ``rows`` x ``length`` activations lies in lines of ``lanes`` words."""

    fmt: BlockFormat
    rows: int
    length: int
    lanes: int = 1

    def __post_init__(self) -> None:
        for name in ("rows", "length", "lanes"):
            value = getattr(self, name)
            require(value >= 1, f"{name} must be at least 1, not {value!r}")

    @property
    def groups(self) -> int:
        return -(-self.length // self.fmt.group)

    @property
    def row_blocks(self) -> int:
        return -(-self.rows // self.lanes)

    @property
    def group_lines(self) -> int:
        """Lines of one group: signs and mantissa planes."""
        return 1 + self.fmt.mantissa_bits


def store(layout: TensorLayout, blocks: Blocks) -> tuple[NDArray, NDArray[np.uint8]]:
    """Lines of planes and lines of exponents, in their own memory.

    Rows that fill up the last block are zero with the exponent 1, as encoded zeros are.
    """
    want = (layout.rows, layout.groups, layout.fmt.group)
    require(blocks.mantissa.shape == want, f"blocks are {blocks.mantissa.shape}, not {want}")
    words = planes.pack(layout.fmt, blocks)
    padded = layout.row_blocks * layout.lanes
    memory = np.zeros((padded, layout.groups, layout.group_lines), words.dtype)
    memory[: layout.rows] = words
    exponents = np.ones((padded, layout.groups), np.uint8)
    exponents[: layout.rows] = blocks.exponent
    return _lines(layout, memory), _lines(layout, exponents[..., np.newaxis])


def load(layout: TensorLayout, lines: NDArray, exponents: NDArray[np.uint8]) -> Blocks:
    words = _rows(layout, lines, layout.group_lines)
    exponent = np.ascontiguousarray(_rows(layout, exponents, 1)[..., 0])
    return planes.unpack(layout.fmt, words, exponent, layout.length)


def weight_planes(weights: Weights, group: int, lanes: int = 1) -> NDArray:
    """Plane lines (output blocks x groups x weight_bits, lanes) for groups of ``group`` inputs.

    Outputs that fill up the last block, and inputs that fill up the last group, weigh 0.
    """
    bits, blocks = weights.fmt.bits, -(-weights.outputs // lanes)
    values, _ = weights.grouped(group, blocks * lanes)
    codes = values.view(np.uint8) & ((1 << bits) - 1)
    codes = codes.reshape(blocks, lanes, -1, group)
    unsigned = Blocks(np.zeros(codes.shape, bool), codes, np.empty(0, np.uint8), codes.shape[2])
    words = planes.pack(BlockFormat(group=group, mantissa_bits=bits), unsigned)[..., 1:]
    return words.transpose(0, 2, 3, 1).reshape(-1, lanes)


def weight_scales(weights: Weights, group: int, lanes: int = 1) -> NDArray[np.uint16]:
    """Scale lines (output blocks x groups, lanes), repeated for every ``group`` of inputs.

    Outputs that fill up the last block have the scale 0.
    """
    blocks = -(-weights.outputs // lanes)
    _, scales = weights.grouped(group, blocks * lanes)
    return scales.reshape(blocks, lanes, -1).swapaxes(1, 2).reshape(-1, lanes)


def _lines(layout: TensorLayout, rows: NDArray) -> NDArray:
    """(rows, groups, words) to (blocks x groups x words, lanes)."""
    *_, words = rows.shape
    blocked = rows.reshape(layout.row_blocks, layout.lanes, layout.groups, words)
    return blocked.transpose(0, 2, 3, 1).reshape(-1, layout.lanes)


def _rows(layout: TensorLayout, lines: NDArray, words: int) -> NDArray:
    blocked = np.asarray(lines).reshape(layout.row_blocks, layout.groups, words, layout.lanes)
    rows = blocked.transpose(0, 3, 1, 2).reshape(-1, layout.groups, words)
    return rows[: layout.rows]
