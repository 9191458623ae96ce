"""Programs from Python: places data in external memory and writes the instructions."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tilewright.golden.harmonia_machine.isa import ACTIVATIONS, Settings, TileLines
from tilewright.golden.harmonia_machine.layout import activation_rows
from tilewright.golden.params.harmonia_machine import Dataflow, HarmoniaParams, Memory, Opcode
from tilewright.golden.weights import Weights
from tilewright.verify.machine.builder import BaseBuilder


class Builder(BaseBuilder):
    """Collects a program and the external memory it starts with."""

    def __init__(self, params: HarmoniaParams):
        super().__init__(params)
        self._settings = Settings()

    def configure(self, *, lanes: Iterable[int] | None = None, **settings: Any) -> None:
        """Change settings; lanes are the numbers of banks."""
        if lanes is not None:
            settings["lanes"] = sum(1 << lane for lane in lanes)
        old, self._settings = self._settings, self._settings._replace(**settings)
        if self._settings != old:
            self.emit(Opcode.CONFIGURE, **self._settings._asdict())

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
            for memory, part in zip(ACTIVATIONS, rows, strict=True):
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
        placed = self.place_weights(weights)
        results = self.reserve(token_tiles * tiles * TileLines.of(p, groups).destination)
        self.configure(lanes=range(p.rows), dataflow=dataflow)
        lines = {"source": source, "weights": placed, "destination": results}
        sizes = {"groups": groups, "tiles": tiles, "token_tiles": token_tiles, "keep": keep}
        self.emit(Opcode.TILED_GEMM, **lines, **sizes)
        return results
