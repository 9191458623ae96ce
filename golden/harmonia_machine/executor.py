"""The Harmonia accelerator's instructions: what they leave in its memories, bit by bit."""

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.golden import bfp
from tilewright.golden.bfp import Blocks
from tilewright.golden.harmonia.gemm import gemm, linear
from tilewright.golden.harmonia.mixed import MixedBlocks
from tilewright.golden.harmonia.offset import largest_halved, signed_maximum, subtract
from tilewright.golden.harmonia_machine.isa import (
    Instruction,
    Settings,
    check,
    expand,
    tiles_of,
    words_of,
)
from tilewright.golden.harmonia_machine.layout import (
    activation_rows_of,
    element_bits,
    from_bytes,
    halves_rows,
    halves_values,
    row_shape,
    to_bytes,
)
from tilewright.golden.machine.machine import BaseMachine
from tilewright.golden.machine.vector import largest
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import ACTIVATION_BITS, OPERAND_BITS
from tilewright.golden.params.harmonia_machine import (
    Conversion,
    Counter,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
)
from tilewright.golden.params.machine import SCALARS, Error
from tilewright.golden.weights import Weights

_MINUS_INFINITY = 0xFC00
_EXPONENT_MASK = np.uint8((1 << FP16.exponent_bits) - 1)


class Machine(BaseMachine):
    """The accelerator's memories; ``run`` executes a program on them."""

    INSTRUCTION: ClassVar = Instruction
    SETTINGS: ClassVar = Settings
    COUNTER: ClassVar = Counter
    COUNTED: ClassVar = (
        *(Counter.INSTRUCTIONS, Counter.MATRIX_BUSY, Counter.LINES_READ, Counter.LINES_WRITTEN),
        *(Counter.MANTISSA_LINES, Counter.OPERAND_LINES, Counter.GROUPS_CONVERTED),
    )

    def __init__(
        self, params: HarmoniaParams, external: NDArray[np.uint8], bad_lines: Iterable[int] = ()
    ):
        super().__init__(params, external, bad_lines)
        self.memories = {
            memory: np.zeros(
                (params.depth(memory), *row_shape(params, memory)),
                np.uint16 if element_bits(memory) == FP16.bits else np.uint8,
            )
            for memory in Memory
        }
        self.maxima = np.zeros(params.channels, np.uint16)  # of K in the initial window
        self.offsets = np.zeros(params.channels, np.uint16)

    def _check(self, x: Instruction | None) -> Error:
        return check(self.params, x)

    def _step(self, x: Instruction | None) -> Error:
        """One instruction, or all that a tiled GEMM consists of."""
        if x is None or x.opcode is not Opcode.TILED_GEMM or self._check(x) is not Error.NONE:
            return super()._step(x)
        self._note(x)
        parts = expand(self.params, self.settings, x)
        return next((e for e in map(self._step, parts) if e is not Error.NONE), Error.NONE)

    def _execute(self, x: Instruction) -> Error:
        match x.opcode:
            case Opcode.CONFIGURE:
                self.settings = Settings.of(x)
            case Opcode.LOAD:
                return self._load(x)
            case Opcode.STORE:
                return self._store(x)
            case Opcode.GEMM:
                self._gemm(x)
            case Opcode.VECTOR:
                self._vector(x)
            case Opcode.CONVERT:
                self._convert(x)
            case Opcode.LEARN:
                self._learn(x)
            case Opcode.CLEAR:
                lanes = x["part"] * self.params.rows + np.flatnonzero(self._lanes)
                rows = slice(x["low_halves"], x["low_halves"] + x["rows"])
                self.memories[Memory.OPERANDS][rows, lanes] = 0
        return Error.NONE

    @property
    def _lanes(self) -> NDArray[np.bool_]:
        """Banks that are written."""
        return (self.settings.lanes >> np.arange(self.params.rows) & 1).astype(bool)

    # Moves.

    def _put(self, x: Instruction, data: NDArray[np.uint8]) -> None:
        memory = Memory(x["memory"])
        rows = from_bytes(self.params, memory, data, x["rows"])
        if x["spread"]:
            rows = np.repeat(rows[:, x["spread"] - 1 : x["spread"]], self.params.rows, axis=1)
        self._write(memory, x["row"], rows)

    def _count_read(self, memory: int, lines: int) -> None:
        super()._count_read(memory, lines)
        if memory == Memory.MANTISSAS:
            self._count(Counter.MANTISSA_LINES, lines)
        elif memory == Memory.OPERANDS:
            self._count(Counter.OPERAND_LINES, lines)

    def _get(self, x: Instruction) -> NDArray[np.uint8]:
        memory = Memory(x["memory"])
        return to_bytes(self.params, memory, self._rows(memory, x["row"], x["rows"]))

    def _rows(self, memory: Memory, first: int, rows: int) -> NDArray:
        return self.memories[memory][first : first + rows]

    def _write(self, memory: Memory, first: int, rows: NDArray) -> None:
        """Whole rows; of fp16 only the lanes that are set."""
        target = self._rows(memory, first, len(rows))
        if memory is Memory.FP16:
            target[:, self._lanes] = rows[:, self._lanes]
        else:
            target[:] = rows

    # GEMMs.

    def _gemm(self, x: Instruction) -> None:
        p, operand = self.params, Operand(x["operand"])
        groups, tiles, token_tiles = x["groups"], x["tiles"], x["token_tiles"]
        activations = self._activations(x["source"], token_tiles, groups)
        if operand is Operand.WEIGHTS:
            sums = groups * tiles
            values = linear(p.numerics, activations, self._weights(x))
        else:
            mixed = self._cached(x, operand)
            sums = int((mixed.bits[:: p.columns] // OPERAND_BITS).sum())
            values = gemm(p.numerics, activations, mixed)
        # (token tiles, tiles, rows of a tile), each with its banks
        words = values.reshape(token_tiles, p.rows, -1, p.word_values).swapaxes(1, 2)
        self._write(Memory.FP16, x["destination"], words.reshape(-1, p.rows, p.word_values))
        self._count(Counter.MATRIX_BUSY, sums * token_tiles)
        if x["maxima"]:
            self._keep_largest(x, values)

    def _keep_largest(self, x: Instruction, values: NDArray[np.uint16]) -> None:
        """The largest result of every row (tokens, columns) that counts, to scalar registers.

        Columns behind the last key do not count, nor do those that the causal limit hides.
        """
        rows, column = self.params.rows, np.arange(values.shape[1])
        counts = np.ones(values.shape, bool)
        if x["operand"] == Operand.KEYS:
            counts &= column < self.settings.tokens
        if self.settings.causal_limit:
            seen = self.settings.causal_limit + np.arange(len(values))
            counts &= column < seen[:, np.newaxis]
        maxima = largest(values, counts).reshape(-1, rows)
        for token_tile, found in enumerate(maxima):
            self.scalars[(x["register"] + token_tile) % SCALARS] = found

    def _activations(self, row: int, token_tiles: int, groups: int) -> Blocks:
        """The activations of a ``gemm``: (tokens, groups, group)."""
        p, count = self.params, token_tiles * groups

        def by_token(memory: Memory) -> NDArray:
            rows = self._rows(memory, row, count)
            tiles = rows.reshape(token_tiles, groups, *rows.shape[1:]).swapaxes(1, 2)
            return tiles.reshape(token_tiles * p.rows, groups, *rows.shape[2:])

        return Blocks(
            by_token(Memory.SIGNS).astype(bool),
            by_token(Memory.MANTISSAS),
            by_token(Memory.EXPONENTS) & _EXPONENT_MASK,
            groups * p.group,
        )

    def _by_column(self, memory: Memory, row: int, x: Instruction) -> NDArray:
        """Rows of an operand memory as (columns of all tiles, groups, ...)."""
        groups, tiles = x["groups"], x["tiles"]
        rows = self._rows(memory, row, groups * tiles)
        if x["operand"] == Operand.VALUES:
            ordered = rows.reshape(groups, tiles, *rows.shape[1:]).swapaxes(0, 1)
        else:
            ordered = rows.reshape(tiles, groups, *rows.shape[1:])
        columns = ordered.swapaxes(1, 2)
        return columns.reshape(tiles * self.params.columns, groups, *rows.shape[2:])

    def _weights(self, x: Instruction) -> Weights:
        p = self.params
        nibbles = self._by_column(Memory.OPERANDS, x["operands"], x)
        values = (nibbles.astype(np.int8) ^ 8) - 8  # two's complement of 4 bits
        scales = self._by_column(Memory.SCALES, x["metadata"], x)
        fmt = p.numerics.weight_format
        return Weights(fmt, values.reshape(len(values), -1), scales, p.group)

    def _cached(self, x: Instruction, operand: Operand) -> MixedBlocks:
        """Keys or values in the precision that their age gives them."""
        p, groups, tiles = self.params, x["groups"], x["tiles"]
        by_tile = operand is Operand.KEYS
        units, across = (tiles, groups) if by_tile else (groups, tiles)
        mantissa = self._by_column(Memory.OPERANDS, x["operands"], x)
        # (tiles, columns, groups, group), so that a unit is one index of the first or third axis.
        mantissa = mantissa.reshape(tiles, p.columns, groups, p.group).copy()
        bits = np.full((tiles, p.columns, groups), OPERAND_BITS, np.uint8)
        for unit in range(units):
            if p.has_low(operand, unit, self.settings.tokens):
                row = x["low_halves"] + p.low_slot(operand, unit) * across
                low = self._rows(Memory.OPERANDS, row, across)  # (across, columns, group)
                of_unit = (unit,) if by_tile else (slice(None), slice(None), unit)
                low = low.swapaxes(0, 1) if by_tile else low
                mantissa[of_unit] = mantissa[of_unit] << OPERAND_BITS | low
                bits[of_unit] = ACTIVATION_BITS
        return MixedBlocks(
            self._by_column(Memory.OPERAND_SIGNS, x["metadata"], x).astype(bool),
            mantissa.reshape(-1, groups, p.group),
            self._by_column(Memory.OPERAND_EXPONENTS, x["metadata"], x) & _EXPONENT_MASK,
            bits.reshape(-1, groups),
            groups * p.group,
        )

    # Conversions.

    def _tensor(self, row: int, elements: int, tiles: int = 1) -> NDArray[np.uint16]:
        """The same of several token tiles, tile after tile."""
        words = words_of(self.params, elements)
        rows = self._rows(Memory.FP16, row, words * tiles)
        values = halves_values(self.params, rows, words * self.params.word_values).copy()
        values[:, elements:] = 0
        return values

    def _encoded(self, values: NDArray[np.uint16]) -> Blocks:
        self.outcome.saturated |= bool(((values & 0x7FFF) > FP16.max_finite_bits).any())
        blocks = bfp.encode(self.params.numerics.activation, values, saturate=True)
        self._count(Counter.GROUPS_CONVERTED, blocks.exponent.size)
        return blocks

    def _convert(self, x: Instruction) -> None:
        match Conversion(x["conversion"]):
            case Conversion.ACTIVATIONS:
                blocks = self._encoded(self._tensor(x["source"], x["elements"]))
                rows = activation_rows_of(
                    Blocks(
                        blocks.sign[np.newaxis],
                        blocks.mantissa[np.newaxis],
                        blocks.exponent[np.newaxis],
                        blocks.length,
                    )
                )
                self._write(Memory.MANTISSAS, x["destination"], rows.mantissas)
                self._write(Memory.SIGNS, x["destination"], rows.signs)
                self._write(Memory.EXPONENTS, x["destination"], rows.exponents)
            case Conversion.KEYS:
                self._convert_keys(x)
            case Conversion.VALUES:
                self._convert_values(x)

    def _convert_keys(self, x: Instruction) -> None:
        p = self.params
        elements = x["elements"]
        tokens = self._tensor(x["source"], elements)[:, :elements]
        blocks = self._encoded(self._shifted(tokens, self.offsets[:elements]))
        lanes = np.flatnonzero(self._lanes)
        self._write_operands(x, blocks, lanes, x["part"] * p.rows + lanes)

    def _convert_values(self, x: Instruction) -> None:
        p = self.params
        tiles = tiles_of(p, x["elements"])
        tokens = self._tensor(x["source"], x["elements"], p.converter.loops)
        tokens[x["tokens"] :] = 0
        values = np.zeros((p.group, tiles * p.columns), np.uint16)
        values[:, : tokens.shape[1]] = tokens
        encoded = self._encoded(values.T)  # (channels, 1 group, group)

        def by_column(channels: NDArray) -> NDArray:
            return channels[:, 0].reshape(tiles, p.columns, *channels.shape[2:]).swapaxes(0, 1)

        blocks = Blocks(
            by_column(encoded.sign),
            by_column(encoded.mantissa),
            by_column(encoded.exponent),
            p.group,
        )
        columns = np.arange(p.columns)
        self._write_operands(x, blocks, columns, columns)

    def _write_operands(
        self, x: Instruction, blocks: Blocks, taken: NDArray, columns: NDArray
    ) -> None:
        """Entries ``taken`` of blocks (entries, rows, group) into columns of the memories."""
        rows = blocks.exponent.shape[1]

        def put(memory: Memory, first: int, values: NDArray) -> None:
            self._rows(memory, first, rows)[:, columns] = values[taken].swapaxes(0, 1)

        put(Memory.OPERANDS, x["destination"], blocks.mantissa >> OPERAND_BITS)
        if not x["short"]:
            put(Memory.OPERANDS, x["low_halves"], blocks.mantissa & 15)
        put(Memory.OPERAND_SIGNS, x["metadata"], blocks.sign)
        put(Memory.OPERAND_EXPONENTS, x["metadata"], blocks.exponent)

    def _learn(self, x: Instruction) -> None:
        count = x["elements"]
        tokens = self._tensor(x["source"], count)[:, :count]
        tokens[~self._lanes] = 0
        seen = tokens if x["first"] else np.vstack([self.maxima[:count], tokens])
        self.maxima[:count] = signed_maximum(seen)
        if x["last"]:
            self.offsets[:] = 0
            self.offsets[:count] = self._learned(self.maxima[:count])

    def _shifted(
        self, tokens: NDArray[np.uint16], offsets: NDArray[np.uint16]
    ) -> NDArray[np.uint16]:
        return subtract(tokens, offsets)

    def _learned(self, maxima: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """Offsets that follow from the largest values of a window."""
        return largest_halved(maxima[np.newaxis], self.params.offsets)

    # Vector operations.

    def _write_tensor(self, row: int, values: NDArray[np.uint16]) -> None:
        self._write(Memory.FP16, row, halves_rows(self.params, values))

    def _visible(self, x: Instruction, a: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """Elements that ``causal_limit`` hides from a bank read as -infinity."""
        if not x["causal_limit"]:
            return a
        limits = x["causal_limit"] + np.arange(self.params.rows)[:, np.newaxis]
        return np.where(np.arange(a.shape[1]) < limits, a, np.uint16(_MINUS_INFINITY))
