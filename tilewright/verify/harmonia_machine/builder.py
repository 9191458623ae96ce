"""Programs from Python: places data in external memory and writes the instructions."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.harmonia_machine.isa import Settings, TileLines, words_of
from tilewright.golden.harmonia_machine.layout import (
    activation_rows,
    from_bytes,
    halves_rows,
    halves_values,
)
from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia_machine import (
    COUNT_FIELD,
    TILE_FIELD,
    Dataflow,
    HarmoniaParams,
    Memory,
    Opcode,
)
from tilewright.golden.weights import Weights
from tilewright.verify.machine.builder import BaseBuilder

__all__ = ["Builder"]

ACTIVATION_MEMORIES = (Memory.MANTISSAS, Memory.SIGNS, Memory.EXPONENTS)


class Builder(BaseBuilder):
    """Collects a program and the external memory it starts with."""

    def __init__(self, params: HarmoniaParams):
        super().__init__(params)
        self._settings = Settings()

    def configure(
        self,
        *,
        lanes: Iterable[int] | None = None,
        tokens: int | None = None,
        dataflow: Dataflow | None = None,
        causal_limit: int | None = None,
    ) -> None:
        """What changes; lanes are the banks' numbers."""
        old = self._settings
        new = Settings(
            old.lanes if lanes is None else sum(1 << lane for lane in lanes),
            old.tokens if tokens is None else tokens,
            old.dataflow if dataflow is None else dataflow,
            old.causal_limit if causal_limit is None else causal_limit,
        )
        if new != old:
            self.emit(Opcode.CONFIGURE, **new._asdict())
            self._settings = new

    def load(self, memory: Memory, row: int, rows: int, line: int, bank: int | None = None) -> None:
        """Lines to rows; with ``bank``, all banks that are written take the values of that one."""
        spread = 0 if bank is None else bank + 1
        self.emit(Opcode.LOAD, memory=int(memory), row=row, rows=rows, line=line, spread=spread)

    def store(self, memory: Memory, row: int, rows: int, line: int) -> None:
        self.emit(Opcode.STORE, memory=int(memory), row=row, rows=rows, line=line)

    # GEMMs between lines of external memory.

    def place_activations(self, values: ArrayLike) -> int:
        """fp16 patterns (tokens, elements) as token tiles of a tiled GEMM's source."""
        rows = activation_rows(self.params, values)
        groups = -(-np.shape(values)[1] // self.params.group)
        first = self.line
        for k in range(0, len(rows.mantissas), groups):
            for memory, part in zip(ACTIVATION_MEMORIES, rows, strict=True):
                self.place(memory, part[k : k + groups])
        return first

    def place_weights(self, weights: Weights) -> int:
        """Tiles of a tiled GEMM's weights."""
        operands, scales = self.machine.weight_rows(weights)
        groups = -(-weights.inputs // self.params.group)
        first = self.line
        for k in range(0, len(operands), groups):
            self.place(Memory.OPERANDS, operands[k : k + groups])
            self.place(Memory.SCALES, scales[k : k + groups])
        return first

    def tiled_gemm(
        self, source: int, tokens: int, weights: Weights, dataflow: Dataflow, keep: int
    ) -> int:
        """A linear layer of the activations at line ``source``; the line of its results."""
        p = self.params
        groups = -(-weights.inputs // p.group)
        tiles, token_tiles = -(-weights.outputs // p.columns), -(-tokens // p.rows)
        limits = {
            "groups": (groups, COUNT_FIELD),
            "tiles": (tiles, COUNT_FIELD),
            "token tiles": (token_tiles, TILE_FIELD),
            "keep": (keep, TILE_FIELD),
        }
        for name, (count, bits) in limits.items():
            require(1 <= count < 1 << bits, f"{name} must be 1..{(1 << bits) - 1}, not {count}")
        stays = p.operand_rows if dataflow is Dataflow.COLUMN_MAJOR else p.activation_rows
        require(keep * groups <= stays, f"{keep} tiles of {groups} groups do not fit {stays} rows")
        placed = self.place_weights(weights)
        results = self.reserve(token_tiles * tiles * TileLines.of(p, groups).destination)
        self.configure(lanes=range(p.rows), dataflow=dataflow)
        lines = {"source": source, "weights": placed, "destination": results}
        sizes = {"groups": groups, "tiles": tiles, "token_tiles": token_tiles, "keep": keep}
        self.emit(Opcode.TILED_GEMM, **lines, **sizes)
        return results

    def product_results(
        self, memory: NDArray[np.uint8], line: int, tokens: int, outputs: int
    ) -> NDArray[np.uint16]:
        """fp16 patterns (tokens, outputs) that a tiled GEMM left at ``line``."""
        p = self.params
        tiles, token_tiles = -(-outputs // p.columns), -(-tokens // p.rows)
        rows = self._tiles(memory, line, token_tiles * tiles, p.tile_words)
        return halves_values(p, rows, tiles * p.columns)[:tokens, :outputs]

    # fp16 tensors.

    def place_halves(self, values: ArrayLike) -> int:
        """fp16 patterns (tokens, elements), each token tile from the start of a line."""
        unit = words_of(self.params, np.shape(values)[1])
        return self.place(Memory.FP16, halves_rows(self.params, values), unit)

    def halves_results(
        self, memory: NDArray[np.uint8], line: int, tokens: int, elements: int
    ) -> NDArray[np.uint16]:
        """fp16 patterns (tokens, elements) of token tiles from ``line`` on."""
        words, count = words_of(self.params, elements), -(-tokens // self.params.rows)
        rows = self._tiles(memory, line, count, words)
        return halves_values(self.params, rows, elements)[:tokens]

    def _tiles(self, memory: NDArray[np.uint8], line: int, count: int, words: int) -> NDArray:
        """Rows of so many tiles of ``words`` rows, each from the start of a line."""
        p = self.params
        size, start = p.lines(Memory.FP16, words) * p.line_bytes, line * p.line_bytes
        tiles = [memory[start + k * size :][:size] for k in range(count)]
        return np.concatenate([from_bytes(p, Memory.FP16, tile, words) for tile in tiles])
