"""Programs from Python: places data in external memory and writes the instructions."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.harmonia_machine.hazards import first_hazard
from tilewright.golden.harmonia_machine.isa import (
    Instruction,
    Settings,
    TileLines,
    words_of,
)
from tilewright.golden.harmonia_machine.layout import (
    activation_rows,
    from_bytes,
    halves_rows,
    halves_values,
    to_bytes,
    weight_rows,
)
from tilewright.golden.machine.assembly import ONE
from tilewright.golden.machine.extent import Hazard
from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia_machine import (
    COUNT_FIELD,
    TILE_FIELD,
    Conversion,
    Dataflow,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
)
from tilewright.golden.params.machine import Kind
from tilewright.golden.params.vector import Operation
from tilewright.golden.weights import Weights
from tilewright.verify.machine.builder import BaseBuilder

ACTIVATION_MEMORIES = (Memory.MANTISSAS, Memory.SIGNS, Memory.EXPONENTS)


class Builder(BaseBuilder[Instruction]):
    """Collects a program and the external memory it starts with."""

    INSTRUCTION, OPCODE = Instruction, Opcode
    params: HarmoniaParams

    def __init__(self, params: HarmoniaParams):
        super().__init__(params)
        self._settings = Settings()

    # External memory.

    def reserve(self, lines: int) -> int:
        """Lines of zeros; the first one's number."""
        return self._place(np.zeros(lines * self.params.line_bytes, np.uint8))

    def place(self, memory: Memory, rows: NDArray, unit: int) -> int:
        """Rows, every ``unit`` of them from the start of a line; the first line's number."""
        pieces = [
            to_bytes(self.params, memory, rows[k : k + unit]) for k in range(0, len(rows), unit)
        ]
        return self._place(np.concatenate(pieces))

    def align(self) -> None:
        """Let the next line be one that begins a beat, so that loads from it take whole beats."""
        self.reserve(self.params.beat_line(self._line) - self._line)

    # Instructions.

    def first_hazard(self, program: Sequence[Instruction]) -> Hazard | None:
        return first_hazard(self.params, program)

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
        mask = old.lanes if lanes is None else sum(1 << lane for lane in lanes)
        new = Settings(
            mask,
            old.tokens if tokens is None else tokens,
            old.dataflow if dataflow is None else dataflow,
            old.causal_limit if causal_limit is None else causal_limit,
        )
        if new != old:
            self.emit(
                Opcode.CONFIGURE,
                lanes=new.lanes,
                tokens=new.tokens,
                dataflow=int(new.dataflow),
                causal_limit=new.causal_limit,
            )
            self._settings = new

    def load(self, memory: Memory, row: int, rows: int, line: int, bank: int | None = None) -> None:
        """Lines to rows; with ``bank``, all banks that are written take the values of that one."""
        spread = 0 if bank is None else bank + 1
        self.emit(Opcode.LOAD, memory=int(memory), row=row, rows=rows, line=line, spread=spread)

    def store(self, memory: Memory, row: int, rows: int, line: int) -> None:
        self.emit(Opcode.STORE, memory=int(memory), row=row, rows=rows, line=line)

    def gemm(
        self,
        operand: Operand,
        *,
        source: int,
        operands: int,
        metadata: int,
        destination: int,
        groups: int,
        tiles: int,
        low_halves: int = 0,
        token_tiles: int = 1,
        maxima: int | None = None,
    ) -> None:
        """``maxima``: the scalar register of the first token tile's largest results."""
        self.emit(
            Opcode.GEMM,
            operand=int(operand),
            source=source,
            operands=operands,
            low_halves=low_halves,
            metadata=metadata,
            destination=destination,
            groups=groups,
            tiles=tiles,
            token_tiles=token_tiles,
            maxima=int(maxima is not None),
            register=maxima or 0,
        )

    def convert(
        self,
        conversion: Conversion,
        *,
        source: int,
        elements: int,
        destination: int,
        low_halves: int = 0,
        metadata: int = 0,
        part: int = 0,
        tokens: int = 0,
        short: bool = False,
    ) -> None:
        self.emit(
            Opcode.CONVERT,
            conversion=int(conversion),
            source=source,
            elements=elements,
            destination=destination,
            low_halves=low_halves,
            metadata=metadata,
            part=part,
            tokens=tokens,
            short=int(short),
        )

    def vector(
        self,
        operation: Operation,
        destination: int,
        a: int,
        *,
        elements: int,
        scalar: int | None = None,
        causal_limit: int = 0,
        total: int = 0,
    ) -> None:
        """``a`` with a scalar register, or alone, into a tensor or, reduced, into a register."""
        self.emit(
            Opcode.VECTOR,
            operation=int(operation),
            a_kind=int(Kind.TENSOR),
            b_kind=int(Kind.SCALAR),
            a=a,
            b=scalar or 0,
            destination=destination,
            elements=elements,
            scale=ONE,
            causal_limit=causal_limit,
            total=total,
        )

    def work(
        self,
        operation: Operation,
        destination: int,
        a: int,
        b: int = 0,
        *,
        elements: int,
        kind: Kind = Kind.TENSOR,
        a_kind: Kind = Kind.TENSOR,
        scale: int = ONE,
        destination_index: int = 0,
    ) -> None:
        """Write a vector operation; ``b`` is a row, a scalar register or an fp16 constant."""
        self.emit(
            Opcode.VECTOR,
            operation=int(operation),
            a_kind=int(a_kind),
            b_kind=int(kind),
            a=a,
            b=b,
            destination=destination,
            elements=elements,
            scale=scale,
            causal_limit=0,
            total=0,
            destination_index=destination_index,
        )

    def scalar_vector(self, operation: Operation, destination: int, a: int, b: int = 0) -> None:
        """An operation of scalar registers alone."""
        self.emit(
            Opcode.VECTOR,
            operation=int(operation),
            a_kind=int(Kind.SCALAR),
            b_kind=int(Kind.SCALAR),
            a=a,
            b=b,
            destination=destination,
            elements=0,
            scale=ONE,
            causal_limit=0,
            total=0,
        )

    def normalise(self, row: int, elements: int, total: int) -> None:
        """Divide the results at ``row`` by a scalar register, which then has the reciprocal."""
        self.scalar_vector(Operation.RECIPROCAL, total, total)
        self.vector(Operation.MULTIPLY, row, row, scalar=total, elements=elements)

    # GEMMs between lines of external memory.

    def place_activations(self, values: ArrayLike) -> int:
        """fp16 patterns (tokens, elements) as token tiles of a tiled GEMM's source."""
        rows = activation_rows(self.params, values)
        groups = -(-np.shape(values)[1] // self.params.group)
        first = self._line
        for k in range(0, len(rows.mantissas), groups):
            for memory, part in zip(ACTIVATION_MEMORIES, rows, strict=True):
                self.place(memory, part[k : k + groups], groups)
        return first

    def place_weights(self, weights: Weights) -> int:
        """Tiles of a tiled GEMM's weights."""
        operands, scales = weight_rows(self.params, weights)
        groups = -(-weights.inputs // self.params.group)
        first = self._line
        for k in range(0, len(operands), groups):
            self.place(Memory.OPERANDS, operands[k : k + groups], groups)
            self.place(Memory.SCALES, scales[k : k + groups], groups)
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
        self.emit(
            Opcode.TILED_GEMM,
            source=source,
            weights=placed,
            destination=results,
            groups=groups,
            tiles=tiles,
            token_tiles=token_tiles,
            keep=keep,
        )
        return results

    def product_results(
        self, memory: NDArray[np.uint8], line: int, tokens: int, outputs: int
    ) -> NDArray[np.uint16]:
        """fp16 patterns (tokens, outputs) that a tiled GEMM left at ``line``."""
        p = self.params
        tiles, token_tiles = -(-outputs // p.columns), -(-tokens // p.rows)
        size = p.lines(Memory.FP16, p.tile_words) * p.line_bytes
        start = line * p.line_bytes
        rows = [
            from_bytes(p, Memory.FP16, memory[start + k * size :][:size], p.tile_words)
            for k in range(token_tiles * tiles)
        ]
        values = halves_values(p, np.concatenate(rows), tiles * p.columns)
        return values[:tokens, :outputs]

    # fp16 tensors.

    def place_halves(self, values: ArrayLike) -> int:
        """fp16 patterns (tokens, elements), each token tile from the start of a line."""
        unit = words_of(self.params, np.shape(values)[1])
        return self.place(Memory.FP16, halves_rows(self.params, values), unit)

    def halves_lines(self, elements: int) -> int:
        """Lines of a token tile of fp16 values."""
        return self.params.lines(Memory.FP16, words_of(self.params, elements))

    def halves_results(
        self, memory: NDArray[np.uint8], line: int, tokens: int, elements: int
    ) -> NDArray[np.uint16]:
        """fp16 patterns (tokens, elements) of token tiles from ``line`` on."""
        p, words = self.params, words_of(self.params, elements)
        size = self.halves_lines(elements) * p.line_bytes
        start = line * p.line_bytes
        rows = [
            from_bytes(p, Memory.FP16, memory[start + k * size :][:size], words)
            for k in range(-(-tokens // p.rows))
        ]
        return halves_values(p, np.concatenate(rows), elements)[:tokens]
