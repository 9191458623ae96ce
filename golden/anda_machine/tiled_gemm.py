"""A GEMM of any size as programs: blocks of token tiles meet parts of the weights.

A part comes into one half of the weight buffer while the gemms of the part before run. Activations
of the next block come meanwhile too, and results of the step before are stored, where the buffer
has two places for them. What a program does not hold in its instruction memory is left to the next:
buffers keep their contents.

Programs depend on sizes alone. :meth:`TiledGemm.memory` is what they start with.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.anda_machine.isa import Instruction
from tilewright.golden.anda_machine.layout import (
    anda_rows,
    fp16_values,
    from_bytes,
    to_bytes,
    weight_rows,
)
from tilewright.golden.machine.tiling import (
    LEAST_PARTS,
    Piece,
    Step,
    cut,
    packed,
    pipelined,
    places,
    require_shapes,
    steps,
)
from tilewright.golden.params.anda import MAX_MANTISSA_BITS
from tilewright.golden.params.anda_machine import AndaParams, Memory, Opcode, group_rows
from tilewright.golden.params.block import require
from tilewright.golden.params.machine import SIZE_FIELD
from tilewright.golden.weights import Weights

__all__ = ["Move", "Places", "TiledGemm", "configure", "move_instruction", "tensor_moves"]

OTHERS = 9  # instructions of a step beside one gemm for every tile, at most


class Move(NamedTuple):
    """Rows of a memory, from ``row`` on or to there, and their first line."""

    memory: Memory
    row: int
    rows: int
    line: int = 0
    stride: int = 1


class Places(NamedTuple):
    """Rows of the activation buffer where what belongs to a block begins."""

    tiles: int  # token tiles of a block
    sources: list[int]  # activations of one block and of the next
    destinations: list[int]  # results of one step and of the next, or of every step


def tensor_moves(row: int, groups: int, mantissa: int) -> list[Move]:
    """A tensor's rows, and its exponents unless it is fp16."""
    stride = group_rows(mantissa)
    moves = [Move(Memory.ACTIVATIONS, row, groups * stride)]
    if mantissa:
        moves.append(Move(Memory.EXPONENTS, row, groups, stride=stride))
    return moves


@dataclass(frozen=True, kw_only=True)
class TiledGemm:
    """``tokens`` rows of ``inputs`` values with ``mantissa`` bits, times weights.

    Results have ``result`` mantissa bits, or are fp16 where it is 0. With ``weights_stay`` every
    part of the weights comes once and the activations pass; else it is the other way round.

    With ``large_blocks`` activations and results have one place: they do not move while gemms run,
    but more token tiles share the weights that pass, which pays where the port is slow.
    """

    params: AndaParams
    tokens: int
    inputs: int
    outputs: int
    mantissa: int
    result: int = 0
    weights_stay: bool = False
    large_blocks: bool = False

    def __post_init__(self) -> None:
        p = self.params
        for name in ("tokens", "inputs", "outputs"):
            value = getattr(self, name)
            require(value >= 1, f"{name} must be at least 1, not {value}")
        require(
            1 <= self.mantissa <= MAX_MANTISSA_BITS,
            f"mantissa must be 1..{MAX_MANTISSA_BITS}, not {self.mantissa}",
        )
        most = self.most_inputs(p)
        require(
            self.inputs <= most, f"inputs must be at most {most} on {p.slug}, not {self.inputs}"
        )
        require(
            self._block_tiles >= 1,
            f"{self.inputs} inputs and results of a part do not fit {p.activation_rows} rows",
        )

    # Sizes.

    @staticmethod
    def most_inputs(params: AndaParams) -> int:
        """Of which half of the weight buffer holds the weights of a group of results."""
        rows = params.mxu.weight_beats * params.group // params.columns  # for a group of inputs
        return min(params.weight_rows // 2 // rows * params.group, (1 << SIZE_FIELD) - 1)

    @property
    def _tiles_of_group(self) -> int:
        """Tiles of columns whose results make up a group."""
        return self.params.group // self.params.columns

    @cached_property
    def groups(self) -> int:
        return -(-self.inputs // self.params.group)

    @cached_property
    def _weight_beats(self) -> int:
        """Rows of the weight buffer for a group of a tile."""
        return self.params.mxu.weight_beats

    @cached_property
    def _part_outputs(self) -> int:
        """Outputs of a part: whole groups of results in half of the weight buffer."""
        p = self.params
        group = self.groups * self._weight_beats * self._tiles_of_group  # rows
        overlapping = -(-self._result_groups(self.outputs) // LEAST_PARTS)
        return min(overlapping, p.weight_rows // 2 // group) * p.group

    @property
    def _block_tiles(self) -> int:
        """Token tiles of a block."""
        return self._places.tiles

    @cached_property
    def _places(self) -> Places:
        """Where activations and results of a block lie, in regions of their own if they fit.

        All activations stay if they fit, else blocks come into two places; results have two.
        """
        p, tiles = self.params, -(-self.tokens // self.params.rows)
        results = self._part_outputs // p.group * group_rows(self.result)
        most = min(tiles, p.instructions - OTHERS - 2)
        for fit in range(0 if self.large_blocks else most, 0, -1):
            sources = 1 if fit == tiles else 2
            found = places(
                p.activation_rows,
                p.region_rows(Memory.ACTIVATIONS),
                (fit * self.source_rows, sources),
                (fit * results, 2),
            )
            if found:
                (first, *others), destinations = found
                return Places(fit, [first, *(others or [first])], destinations)
        fit = min(most, p.activation_rows // (self.source_rows + results))
        return Places(fit, [0, 0], [fit * self.source_rows])

    @cached_property
    def source_rows(self) -> int:
        """Rows of a token tile's activations."""
        return self.groups * group_rows(self.mantissa)

    @cached_property
    def blocks(self) -> list[int]:
        """Token tiles of every block."""
        return cut(-(-self.tokens // self.params.rows), self._block_tiles)

    @cached_property
    def parts(self) -> list[int]:
        """Outputs of every part."""
        return cut(self.outputs, self._part_outputs)

    # External memory: blocks of activations, parts of weights, results of every step.

    @cached_property
    def _moves(self) -> tuple[list[list[Move]], list[list[Move]], list[list[list[Move]]]]:
        """Moves of every block, of every part (in half 0), and of results by block and part."""
        line = 0

        def place(moves: list[Move]) -> list[Move]:
            """Every one from a beat on."""
            nonlocal line
            placed = []
            for move in moves:
                placed.append(move._replace(line=line))
                line = self.params.beat_line(line + self.params.lines(move.memory, move.rows))
            return placed

        blocks = [
            place(tensor_moves(0, tiles * self.groups, self.mantissa)) for tiles in self.blocks
        ]
        parts = []
        for outputs in self.parts:
            count = -(-outputs // self.params.columns) * self.groups
            weights = Move(Memory.WEIGHTS, 0, count * self._weight_beats)
            parts.append(place([weights, Move(Memory.SCALES, 0, count)]))
        results = [[place(moves) for moves in self._results(tiles)] for tiles in self.blocks]
        return blocks, parts, results

    def _results(self, tiles: int) -> Iterator[list[Move]]:
        """Rows of results of a block, by what is stored together: here a part."""
        for outputs in self.parts:
            groups = tiles * self._result_groups(outputs)
            yield tensor_moves(0, groups, self.result)

    def _result_groups(self, outputs: int) -> int:
        return -(-outputs // self.params.group)

    # Programs.

    def programs(self) -> list[list[Instruction]]:
        """For the instruction memory: one after the other; each halts."""
        return self._programs(self.params.instructions)

    def program(self) -> list[Instruction]:
        """For external memory: all of it."""
        (program,) = self._programs(None)
        return program

    def _programs(self, most: int | None) -> list[list[Instruction]]:
        order = steps(len(self.blocks), len(self.parts), weights_stay=self.weights_stay)
        pieces = [self._piece(k, step) for k, step in enumerate(order)]
        first = [configure(self.mantissa, self.result)]
        ordered = pipelined(pieces, results_stay=len(self._places.destinations) > 1)
        return packed(ordered, first, Instruction(Opcode.HALT), most)

    def _piece(self, number: int, step: Step) -> Piece[Instruction]:
        """Loads, gemms and stores of a step."""
        destinations = self._places.destinations
        row = destinations[number % len(destinations)]
        weights, activations = self._loads(step)
        stores = [
            move_instruction(Opcode.STORE, move._replace(row=row))
            for move in self._moves[2][step.block][step.part]
        ]
        gemms = [self._gemm(step, tile, row) for tile in range(self.blocks[step.block])]
        return Piece(weights[:1], [*weights[1:], *activations], gemms, stores)

    def _loads(self, step: Step) -> tuple[list[Instruction], list[Instruction]]:
        """What the step needs and is not there: weights and scales, activations."""
        blocks, parts, _ = self._moves
        source = self._places.sources[step.block_half]
        return (
            [
                move_instruction(
                    Opcode.LOAD, move._replace(row=self._weight_row(step, move.memory))
                )
                for move in parts[step.part]
                if step.new_part
            ],
            [
                move_instruction(Opcode.LOAD, move._replace(row=source))
                for move in blocks[step.block]
                if step.new_block
            ],
        )

    def _weight_row(self, step: Step, memory: Memory) -> int:
        return step.part_half * (self.params.depth(memory) // 2)

    def _gemm(self, step: Step, tile: int, row: int) -> Instruction:
        """A token tile times a part; results of the step are from ``row`` on."""
        results = tile * self._result_groups(self.parts[step.part])
        return Instruction(
            Opcode.GEMM,
            {
                "source": self._places.sources[step.block_half] + tile * self.source_rows,
                "weights": self._weight_row(step, Memory.WEIGHTS),
                "scales": self._weight_row(step, Memory.SCALES),
                "destination": row + results * group_rows(self.result),
                "inputs": self.inputs,
                "outputs": self.parts[step.part],
            },
        )

    # Data.

    def memory(self, values: ArrayLike, weights: Weights) -> NDArray[np.uint8]:
        """External memory of fp16 patterns (tokens, inputs) and of the weights."""
        p, values = self.params, np.asarray(values, np.uint16)
        require_shapes(values, weights.values, self.tokens, self.inputs, self.outputs)
        blocks, parts, results = self._moves
        end = results[-1][-1][-1]
        memory = np.zeros((end.line + p.lines(end.memory, end.rows), p.line_bytes), np.uint8)

        def place(move: Move, rows: NDArray) -> None:
            data = to_bytes(p, move.memory, rows).reshape(-1, p.line_bytes)
            memory[move.line : move.line + len(data)] = data

        token = 0
        for tiles, moves in zip(self.blocks, blocks, strict=True):
            planes = [
                anda_rows(p, self.mantissa, values[first : first + p.rows])
                for first in range(token, min(token + tiles * p.rows, self.tokens), p.rows)
            ]
            for move, rows in zip(moves, zip(*planes, strict=True), strict=True):
                place(move, np.concatenate(rows))
            token += tiles * p.rows
        for k, moves in enumerate(parts):
            chosen = slice(k * self._part_outputs, (k + 1) * self._part_outputs)
            part = Weights(
                weights.fmt, weights.values[chosen], weights.scales[chosen], weights.group
            )
            rows, scales = weight_rows(p, part)
            for move, content in zip(moves, (rows, scales), strict=True):
                place(move, content)
        return memory.reshape(-1)

    def results(self, memory: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """fp16 patterns (tokens, outputs) of a GEMM whose results are fp16."""
        require(self.result == 0, "only fp16 results are read back as values")
        return np.concatenate(list(self._block_results(memory)))[: self.tokens]

    def _block_results(self, memory: NDArray[np.uint8]) -> Iterator[NDArray[np.uint16]]:
        p = self.params
        for tiles, block in zip(self.blocks, self._moves[2], strict=True):
            columns = []
            for outputs, (move,) in zip(self.parts, block, strict=True):
                data = memory[move.line * p.line_bytes :]
                rows = from_bytes(p, move.memory, data, move.rows).reshape(tiles, -1, p.rows)
                columns.append([fp16_values(p, tile, outputs) for tile in rows])
            yield from (np.concatenate(tile, axis=1) for tile in zip(*columns, strict=True))


def configure(source: int, result: int) -> Instruction:
    fields = {"source_mantissa": source, "result_mantissa": result}
    return Instruction(Opcode.CONFIGURE, fields)


def move_instruction(opcode: Opcode, move: Move) -> Instruction:
    return Instruction(opcode, move._asdict() | {"memory": int(move.memory)})
