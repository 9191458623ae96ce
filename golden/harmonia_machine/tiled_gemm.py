"""A GEMM of any size as programs that move tiles while they compute.

Unlike the instruction ``tiled_gemm``, which computes when its tiles have come, these programs bring
the next weights and activations while the array works, and store results, in fp16, meanwhile. What
a program does not hold in its instruction memory is left to the next: memories keep their contents.

Programs depend on sizes alone. :meth:`TiledGemm.memory` is what they start with.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.harmonia_machine.isa import Instruction, Settings, groups_of, tiles_of
from tilewright.golden.harmonia_machine.layout import (
    activation_rows,
    from_bytes,
    halves_values,
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
from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia_machine import (
    COUNT_FIELD,
    TILE_FIELD,
    Dataflow,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
)
from tilewright.golden.weights import Weights


class _Move(NamedTuple):
    """Rows of a memory, from ``row`` on or to there, and their first line."""

    memory: Memory
    row: int
    rows: int
    line: int


@dataclass(frozen=True, kw_only=True)
class TiledGemm:
    """``tokens`` rows of ``inputs`` values in block floating point, times INT4 weights.

    With ``large_blocks`` activations have one place: nothing of the next block comes meanwhile, but
    twice as many token tiles share the weights that pass, which pays where the port is slow.
    """

    params: HarmoniaParams
    tokens: int
    inputs: int
    outputs: int
    dataflow: Dataflow = Dataflow.ROW_MAJOR
    large_blocks: bool = False

    def __post_init__(self) -> None:
        p = self.params
        for name in ("tokens", "inputs", "outputs"):
            value = getattr(self, name)
            require(value >= 1, f"{name} must be at least 1, not {value}")
        most = min(p.operand_rows // 2, p.activation_rows, (1 << COUNT_FIELD) - 1) * p.group
        require(
            self.inputs <= most,
            f"inputs must be at most {most} on {p.slug}, not {self.inputs}",
        )

    # Sizes.

    @cached_property
    def groups(self) -> int:
        return groups_of(self.params, self.inputs)

    @cached_property
    def _sources(self) -> tuple[int, list[int]]:
        """Token tiles of a block, and the rows of activations of one block and of the next.

        All activations stay if they fit, else blocks come into two places, or into one.
        """
        p, tiles = self.params, -(-self.tokens // self.params.rows)
        region, most = p.region_rows(Memory.MANTISSAS), min(tiles, (1 << TILE_FIELD) - 1)
        results = max(1, p.halves_rows // 2 // p.tile_words)
        if tiles <= min(most, results) and tiles * self.groups <= p.activation_rows:
            return tiles, [0, 0]
        for fit in range(0 if self.large_blocks else min(most, results), 0, -1):
            found = places(p.activation_rows, region, (fit * self.groups, 2))
            if found:
                return fit, found[0]
        return min(most, results, p.activation_rows // self.groups), [0, 0]

    @cached_property
    def _part_tiles(self) -> int:
        """Tiles of columns of a part: half of the operand memory, and results of a block."""
        p = self.params
        overlapping = -(-tiles_of(p, self.outputs) // LEAST_PARTS)
        results = max(1, p.halves_rows // 2 // (self._sources[0] * p.tile_words))
        fit = min(p.operand_rows // 2 // self.groups, results, (1 << COUNT_FIELD) - 1)
        return min(overlapping, fit)

    @cached_property
    def _destinations(self) -> list[int]:
        """Rows of the results of one step and of the next; one place if there is no room."""
        p = self.params
        rows = self._sources[0] * self._part_tiles * p.tile_words
        found = places(p.halves_rows, p.region_rows(Memory.FP16), (rows, 2))
        return found[0] if found else [0]

    @property
    def result_rows(self) -> int:
        """Rows of the fp16 memory, from the first on, that results come to."""
        rows = self._sources[0] * self._part_tiles * self.params.tile_words
        return self._destinations[-1] + rows

    @cached_property
    def blocks(self) -> list[int]:
        """Token tiles of every block."""
        return cut(-(-self.tokens // self.params.rows), self._sources[0])

    @cached_property
    def parts(self) -> list[int]:
        """Tiles of columns of every part."""
        return cut(tiles_of(self.params, self.outputs), self._part_tiles)

    # External memory: blocks of activations, parts of weights, results of every step.

    @cached_property
    def _moves(self) -> tuple[list[list[_Move]], list[list[_Move]], list[list[_Move]]]:
        """Moves of every block, of every part (in half 0), and of results by block and part."""
        line = 0

        def move(memory: Memory, rows: int) -> _Move:
            nonlocal line
            found = _Move(memory, 0, rows, line)
            line = self.params.beat_line(line + self.params.lines(memory, rows))
            return found

        activations = (Memory.MANTISSAS, Memory.SIGNS, Memory.EXPONENTS)
        weights = (Memory.OPERANDS, Memory.SCALES)
        blocks = [[move(m, n * self.groups) for m in activations] for n in self.blocks]
        parts = [[move(m, n * self.groups) for m in weights] for n in self.parts]
        words = self.params.tile_words
        results = [[move(Memory.FP16, n * k * words) for k in self.parts] for n in self.blocks]
        return blocks, parts, results

    # Programs.

    def programs(self) -> list[list[Instruction]]:
        """For the instruction memory: one after the other; each halts."""
        return self._programs(self.params.instructions)

    def program(self) -> list[Instruction]:
        """For external memory: all of it."""
        (program,) = self._programs(None)
        return program

    def _programs(self, most: int | None) -> list[list[Instruction]]:
        stay = self.dataflow is Dataflow.COLUMN_MAJOR
        order = steps(len(self.blocks), len(self.parts), weights_stay=stay)
        pieces = [self._piece(k, step) for k, step in enumerate(order)]
        lanes = (1 << self.params.rows) - 1
        start = Settings()
        fields = {
            "lanes": lanes,
            "tokens": start.tokens,
            "dataflow": int(self.dataflow),
            "causal_limit": start.causal_limit,
        }
        first = [Instruction(Opcode.CONFIGURE, fields)]
        ordered = pipelined(pieces, results_stay=len(self._destinations) > 1)
        return packed(ordered, first, Instruction(Opcode.HALT), most)

    def _piece(self, number: int, step: Step) -> Piece[Instruction]:
        blocks, parts, results = self._moves
        weights = [
            _instruction(Opcode.LOAD, move._replace(row=self._weight_row(step)))
            for move in parts[step.part]
            if step.new_part
        ]
        row = self._sources[1][step.block_half]
        activations = [
            _instruction(Opcode.LOAD, move._replace(row=row))
            for move in blocks[step.block]
            if step.new_block
        ]
        destination = self._destinations[number % len(self._destinations)]
        store = results[step.block][step.part]._replace(row=destination)
        return Piece(
            weights[:1],
            [*weights[1:], *activations],
            [self._gemm(step, destination)],
            [_instruction(Opcode.STORE, store)],
        )

    def _weight_row(self, step: Step) -> int:
        return step.part_half * (self.params.operand_rows // 2)

    def _gemm(self, step: Step, destination: int) -> Instruction:
        row = self._weight_row(step)
        return Instruction(
            Opcode.GEMM,
            {
                "operand": int(Operand.WEIGHTS),
                "source": self._sources[1][step.block_half],
                "operands": row,
                "low_halves": 0,
                "metadata": row,
                "destination": destination,
                "groups": self.groups,
                "tiles": self.parts[step.part],
                "token_tiles": self.blocks[step.block],
                "maxima": 0,
                "register": 0,
            },
        )

    # Data.

    def memory(self, values: ArrayLike, weights: Weights) -> NDArray[np.uint8]:
        """External memory of fp16 patterns (tokens, inputs) and of the weights."""
        p, values = self.params, np.asarray(values, np.uint16)
        require_shapes(values, weights.values, self.tokens, self.inputs, self.outputs)
        blocks, parts, results = self._moves
        end = results[-1][-1]
        memory = np.zeros((end.line + p.lines(end.memory, end.rows), p.line_bytes), np.uint8)
        tensors: tuple[tuple[list[list[_Move]], Sequence[NDArray]], ...] = (
            (blocks, activation_rows(p, values)),
            (parts, weight_rows(p, weights)),
        )
        for pieces, contents in tensors:
            first = 0
            for piece in pieces:
                for move, rows in zip(piece, contents, strict=True):
                    data = to_bytes(p, move.memory, rows[first : first + move.rows])
                    lines = data.reshape(-1, p.line_bytes)
                    memory[move.line : move.line + len(lines)] = lines
                first += piece[0].rows
        return memory.reshape(-1)

    def results(self, memory: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """fp16 patterns (tokens, outputs)."""
        blocks = list(self._block_results(memory))
        return np.concatenate(blocks)[: self.tokens, : self.outputs]

    def _block_results(self, memory: NDArray[np.uint8]) -> Iterator[NDArray[np.uint16]]:
        p = self.params
        for block in self._moves[2]:
            columns = []
            for tiles, move in zip(self.parts, block, strict=True):
                rows = from_bytes(p, move.memory, memory[move.line * p.line_bytes :], move.rows)
                columns.append(halves_values(p, rows, tiles * p.columns))
            yield np.concatenate(columns, axis=1)


def _instruction(opcode: Opcode, move: _Move) -> Instruction:
    return Instruction(opcode, move._asdict() | {"memory": int(move.memory)})
