"""A GEMM whose weights of one group of results are more than half of the weight buffer holds.

A part then is one or a few tiles of columns, and their results are a few rows of a group in fp16. A
gemm writes whole groups, zero where it has no columns; so the gemms of a group write from one place
to the next, each over the zeros of the one before. After the last one the group is compressed and
stored, or stored as it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.anda_machine.isa import Instruction
from tilewright.golden.anda_machine.layout import fp16_values, from_bytes
from tilewright.golden.anda_machine.tiled_gemm import (
    OTHERS,
    Move,
    Places,
    TiledGemm,
    configure,
    move_instruction,
    tensor_moves,
)
from tilewright.golden.machine.tiling import Piece, Step, packed, pipelined, steps
from tilewright.golden.params.anda_machine import (
    FP16_ROWS,
    AndaParams,
    Memory,
    Opcode,
    group_rows,
)
from tilewright.golden.params.machine import SIZE_FIELD

__all__ = ["DeepGemm", "any_gemm"]

STAGED_ROWS = 2 * FP16_ROWS  # of a token tile: a group, and the zeros behind its last tile


@dataclass(frozen=True, kw_only=True)
class DeepGemm(TiledGemm):
    """As a shallower GEMM, but weights always pass, once for every block of activations."""

    @staticmethod
    def most_inputs(params: AndaParams) -> int:
        """Of which half of the weight buffer holds the weights of a tile of columns."""
        rows = params.weight_rows // 2 // params.mxu.weight_beats
        return min(rows * params.group, (1 << SIZE_FIELD) - 1)

    # Sizes.

    @cached_property
    def _part_tiles(self) -> int:
        """Tiles of columns of a part; they divide a group of results."""
        fit = self.params.weight_rows // 2 // (self.groups * self._weight_beats)
        count = self._tiles_of_group
        return max(k for k in range(1, count + 1) if count % k == 0 and k <= max(1, fit))

    @cached_property
    def _part_outputs(self) -> int:
        return self._part_tiles * self.params.columns

    @cached_property
    def _tile_rows(self) -> int:
        """Rows of a token tile: activations, staged results, compressed results."""
        return self.source_rows + STAGED_ROWS + (group_rows(self.result) if self.result else 0)

    @cached_property
    def _places(self) -> Places:
        p = self.params
        fit = p.activation_rows // self._tile_rows
        # A step has a gemm, a compress and a store for every tile at most.
        tiles = min(-(-self.tokens // p.rows), fit, (p.instructions - OTHERS - 4) // 3)
        return Places(tiles, [0, 0], [tiles * self.source_rows])

    def _staged_row(self, tile: int) -> int:
        """Behind the activations of a block."""
        return self._places.destinations[0] + tile * STAGED_ROWS

    @property
    def _compressed_row(self) -> int:
        return self._staged_row(self._block_tiles)

    def _results(self, tiles: int) -> Iterator[list[Move]]:
        """Rows of results of a block, group by group."""
        for _ in range(self._result_groups(self.outputs)):
            if self.result:
                yield tensor_moves(self._compressed_row, tiles, self.result)
            else:
                yield [
                    Move(Memory.ACTIVATIONS, self._staged_row(tile), FP16_ROWS)
                    for tile in range(tiles)
                ]

    # Programs.

    def _programs(self, most: int | None) -> list[list[Instruction]]:
        order = steps(len(self.blocks), len(self.parts), weights_stay=False)
        pieces = [self._piece(k, step) for k, step in enumerate(order)]
        first = [configure(self.mantissa, 0)]
        # Results of a step are where those of the next begin.
        ordered = pipelined(pieces, results_stay=False)
        return packed(ordered, first, Instruction(Opcode.HALT), most)

    def _piece(self, number: int, step: Step) -> Piece[Instruction]:
        weights, activations = self._loads(step)
        loads = weights[:1], [*weights[1:], *activations]
        parts_of_group = self._tiles_of_group // self._part_tiles
        group, place = divmod(step.part, parts_of_group)
        if place < parts_of_group - 1 and step.part < len(self.parts) - 1:
            return Piece(*loads, self._gemms(step), [])
        results = [
            *(self._compress(step, group) if self.result else []),
            *(move_instruction(Opcode.STORE, move) for move in self._moves[2][step.block][group]),
        ]
        return Piece(*loads, self._gemms(step), results)

    def _compress(self, step: Step, group: int) -> list[Instruction]:
        """The staged groups of all token tiles."""
        elements = min(self.params.group, self.outputs - group * self.params.group)
        compressed = [
            Instruction(
                Opcode.COMPRESS,
                {
                    "source": self._staged_row(tile),
                    "destination": self._compressed_row + tile * group_rows(self.result),
                    "elements": elements,
                },
            )
            for tile in range(self.blocks[step.block])
        ]
        return [configure(self.mantissa, self.result), *compressed, configure(self.mantissa, 0)]

    def _gemms(self, step: Step) -> list[Instruction]:
        """One for every token tile."""
        p, outputs = self.params, self.parts[step.part]
        place = step.part % (self._tiles_of_group // self._part_tiles)
        return [
            Instruction(
                Opcode.GEMM,
                {
                    "source": tile * self.source_rows,
                    "weights": self._weight_row(step, Memory.WEIGHTS),
                    "scales": self._weight_row(step, Memory.SCALES),
                    "destination": self._staged_row(tile) + place * self._part_tiles * p.tile_rows,
                    "inputs": self.inputs,
                    "outputs": outputs,
                },
            )
            for tile in range(self.blocks[step.block])
        ]

    # Data.

    def _block_results(self, memory: NDArray[np.uint8]) -> Iterator[NDArray[np.uint16]]:
        p = self.params
        for block in self._moves[2]:
            columns: list[list[NDArray]] = []
            for group, moves in enumerate(block):
                outputs = min(p.group, self.outputs - group * p.group)
                tiles = []
                for move in moves:
                    data = memory[move.line * p.line_bytes :]
                    tiles.append(
                        fp16_values(p, from_bytes(p, move.memory, data, move.rows), outputs)
                    )
                columns.append(tiles)
            yield from (np.concatenate(tile, axis=1) for tile in zip(*columns, strict=True))


def any_gemm(*, params: AndaParams, inputs: int, **options: Any) -> TiledGemm:
    """The GEMM of these options; a :class:`DeepGemm` only where it must be one."""
    kind = TiledGemm if inputs <= TiledGemm.most_inputs(params) else DeepGemm
    return kind(params=params, inputs=inputs, **options)
