"""Programs on the golden accelerator: what they leave in external memory, bit by bit.

Instructions take effect one after the other, also loads that the hardware runs in the background:
a program must ``wait`` before it uses what such a load brings. Ranges that one instruction reads
and writes must not overlap, except a vector operation's that are the same. Whether a program keeps
to that, :mod:`golden.harmonia_system.hazards` says.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from golden import bfp
from golden.anda.weights import Weights
from golden.anda_system.vector import elementwise, reduce_tensor
from golden.bfp import Blocks
from golden.harmonia.mixed import MixedBlocks
from golden.harmonia.offset import largest_halved, signed_maximum, subtract
from golden.harmonia.product import linear, product
from golden.harmonia_system.isa import (
    Instruction,
    Settings,
    decode,
    expand,
    judge,
    tiles_of,
    words_of,
)
from golden.harmonia_system.layout import (
    activation_rows_of,
    element_bits,
    from_bytes,
    halves_rows,
    halves_values,
    row_shape,
    to_bytes,
)
from golden.params.anda_vector import Operation
from golden.params.formats import FP16
from golden.params.harmonia import ACTIVATION_BITS, OPERAND_BITS
from golden.params.harmonia_system import (
    Conversion,
    Counter,
    Dataflow,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
)
from golden.params.program import SCALARS, Error, Kind
from golden.program.instruction import works_on_scalars

_MINUS_INFINITY = 0xFC00
_EXPONENT_MASK = np.uint8((1 << FP16.exponent_bits) - 1)
_COUNTED = (
    *(Counter.INSTRUCTIONS, Counter.MATRIX_BUSY, Counter.LINES_READ, Counter.LINES_WRITTEN),
    *(Counter.MANTISSA_LINES, Counter.OPERAND_LINES, Counter.GROUPS_CONVERTED),
)


@dataclass
class Outcome:
    """How a program ended."""

    error: Error
    instruction: int  # the one that stopped it
    saturated: bool
    counts: dict[Counter, int]  # what does not depend on timing
    # Finished instructions; a product is followed by those that it consists of.
    trace: list[tuple[Instruction, Settings]] = field(default_factory=list)


class Machine:
    """The accelerator's memories; ``run`` executes a program on them.

    ``external`` is changed in place; its lines are numbered from 0. Lines beyond its end answer
    with a bus error, and so does every line of ``bad_lines``.
    """

    def __init__(
        self,
        params: HarmoniaParams,
        external: NDArray[np.uint8],
        bad_lines: Iterable[int] = (),
    ):
        if external.dtype != np.uint8 or len(external) % params.line_bytes:
            raise ValueError(f"external memory is whole lines of {params.line_bytes} bytes")
        self.params = params
        self.external = external.reshape(-1, params.line_bytes)
        self.bad_lines = frozenset(bad_lines)
        self.memories = {
            memory: np.zeros(
                (params.depth(memory), *row_shape(params, memory)),
                np.uint16 if element_bits(memory) == FP16.bits else np.uint8,
            )
            for memory in Memory
        }
        self.scalars = np.zeros((SCALARS, params.rows), np.uint16)
        self.maxima = np.zeros(params.channels, np.uint16)  # of K in the initial window
        self.offsets = np.zeros(params.channels, np.uint16)

    def run(self, program: Iterable[Instruction | int]) -> Outcome:
        """Execute from instruction 0 to a halt or an error."""
        p = self.params
        words = [x.encode() if isinstance(x, Instruction) else x for x in program]
        if len(words) > p.instructions:
            raise ValueError(f"{len(words)} instructions do not fit {p.instructions}")
        words += [0] * (p.instructions - len(words))
        self._settings, self._saturated = Settings(), False
        self._outcome = Outcome(Error.END, p.instructions, False, dict.fromkeys(_COUNTED, 0))
        for number, word in enumerate(words):
            x = decode(word)
            error = self._step(x)
            if x is None or error is not Error.NONE or x.opcode is Opcode.HALT:
                self._outcome.error, self._outcome.instruction = error, number
                break
        self._outcome.saturated = self._saturated
        return self._outcome

    def _step(self, x: Instruction | None) -> Error:
        """Judge and execute one instruction, or all that a product consists of."""
        error = judge(self.params, x)
        if error is not Error.NONE or x is None:
            return error
        if x.opcode is Opcode.PRODUCT:
            self._outcome.trace.append((x, self._settings))
            parts = expand(self.params, self._settings, x)
            return next((e for e in map(self._step, parts) if e is not Error.NONE), Error.NONE)
        error = self._execute(x)
        if error is Error.NONE:
            self._outcome.counts[Counter.INSTRUCTIONS] += 1
            self._outcome.trace.append((x, self._settings))
        return error

    def _execute(self, x: Instruction) -> Error:
        match x.opcode:
            case Opcode.CONFIGURE:
                self._settings = Settings(x["lanes"], x["tokens"], Dataflow(x["dataflow"]))
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
                rows = slice(x["lows"], x["lows"] + x["rows"])
                self.memories[Memory.OPERANDS][rows, lanes] = 0
        return Error.NONE

    @property
    def _lanes(self) -> NDArray[np.bool_]:
        """Banks that are written."""
        return (self._settings.lanes >> np.arange(self.params.rows) & 1).astype(bool)

    def _count(self, counter: Counter, amount: int) -> None:
        self._outcome.counts[counter] += amount

    # Moves.

    def _lines(self, x: Instruction) -> tuple[slice, Error]:
        count = self.params.lines(Memory(x["memory"]), x["rows"])
        lines = slice(x["line"], x["line"] + count)
        bad = lines.stop > len(self.external) or not self.bad_lines.isdisjoint(
            range(lines.start, lines.stop)
        )
        return lines, Error.BUS if bad else Error.NONE

    def _load(self, x: Instruction) -> Error:
        memory = Memory(x["memory"])
        lines, error = self._lines(x)
        if error is not Error.NONE:
            return error
        rows = from_bytes(self.params, memory, self.external[lines].reshape(-1), x["rows"])
        self._write(memory, x["row"], rows)
        count = lines.stop - lines.start
        self._count(Counter.LINES_READ, count)
        counter = {
            Memory.MANTISSAS: Counter.MANTISSA_LINES,
            Memory.OPERANDS: Counter.OPERAND_LINES,
        }.get(memory)
        if counter is not None:
            self._count(counter, count)
        return Error.NONE

    def _store(self, x: Instruction) -> Error:
        memory = Memory(x["memory"])
        lines, error = self._lines(x)
        if error is not Error.NONE:
            return error
        data = to_bytes(self.params, memory, self._rows(memory, x["row"], x["rows"]))
        self.external[lines] = data.reshape(-1, self.params.line_bytes)
        self._count(Counter.LINES_WRITTEN, lines.stop - lines.start)
        return Error.NONE

    def _rows(self, memory: Memory, first: int, rows: int) -> NDArray:
        return self.memories[memory][first : first + rows]

    def _write(self, memory: Memory, first: int, rows: NDArray) -> None:
        """Whole rows; of fp16 only the lanes that are set."""
        target = self._rows(memory, first, len(rows))
        if memory is Memory.HALVES:
            target[:, self._lanes] = rows[:, self._lanes]
        else:
            target[:] = rows

    # Matrix products.

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
            values = product(p.numerics, activations, mixed)
        # (token tiles, tiles, rows of a tile), each with its banks
        words = values.reshape(token_tiles, p.rows, -1, p.word_values).swapaxes(1, 2)
        self._write(Memory.HALVES, x["destination"], words.reshape(-1, p.rows, p.word_values))
        self._count(Counter.MATRIX_BUSY, sums * token_tiles)

    def _activations(self, row: int, token_tiles: int, groups: int) -> Blocks:
        """(tokens, groups, group)."""
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
        scales = self._by_column(Memory.SCALES, x["facts"], x)
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
            if p.has_low(operand, unit, self._settings.tokens):
                row = x["lows"] + p.low_slot(operand, unit) * across
                low = self._rows(Memory.OPERANDS, row, across)  # (across, columns, group)
                of_unit = (unit,) if by_tile else (slice(None), slice(None), unit)
                low = low.swapaxes(0, 1) if by_tile else low
                mantissa[of_unit] = mantissa[of_unit] << OPERAND_BITS | low
                bits[of_unit] = ACTIVATION_BITS
        return MixedBlocks(
            self._by_column(Memory.OPERAND_SIGNS, x["facts"], x).astype(bool),
            mantissa.reshape(-1, groups, p.group),
            self._by_column(Memory.OPERAND_EXPONENTS, x["facts"], x) & _EXPONENT_MASK,
            bits.reshape(-1, groups),
            groups * p.group,
        )

    # Conversions.

    def _tokens(self, row: int, elements: int, tiles: int = 1) -> NDArray[np.uint16]:
        """fp16 patterns (tokens of the tiles, whole words) from ``row`` on, 0 beyond elements."""
        words = words_of(self.params, elements)
        rows = self._rows(Memory.HALVES, row, words * tiles)
        values = halves_values(self.params, rows, words * self.params.word_values).copy()
        values[:, elements:] = 0
        return values

    def _encoded(self, values: NDArray[np.uint16]) -> Blocks:
        self._saturated |= bool(((values & 0x7FFF) > FP16.max_finite_bits).any())
        blocks = bfp.encode(self.params.numerics.activation, values, saturate=True)
        self._count(Counter.GROUPS_CONVERTED, blocks.exponent.size)
        return blocks

    def _convert(self, x: Instruction) -> None:
        match Conversion(x["conversion"]):
            case Conversion.ACTIVATIONS:
                blocks = self._encoded(self._tokens(x["source"], x["elements"]))
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
        tokens = self._tokens(x["source"], elements)[:, :elements]
        blocks = self._encoded(subtract(tokens, self.offsets[:elements]))
        lanes = np.flatnonzero(self._lanes)
        self._write_operands(x, blocks, lanes, x["part"] * p.rows + lanes)

    def _convert_values(self, x: Instruction) -> None:
        p = self.params
        tiles = tiles_of(p, x["elements"])
        tokens = self._tokens(x["source"], x["elements"], p.converter.loops)
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
            put(Memory.OPERANDS, x["lows"], blocks.mantissa & 15)
        put(Memory.OPERAND_SIGNS, x["facts"], blocks.sign)
        put(Memory.OPERAND_EXPONENTS, x["facts"], blocks.exponent)

    def _learn(self, x: Instruction) -> None:
        count = x["elements"]
        tokens = self._tokens(x["source"], count)[:, :count]
        tokens[~self._lanes] = 0
        seen = tokens if x["first"] else np.vstack([self.maxima[:count], tokens])
        self.maxima[:count] = signed_maximum(seen)
        if x["last"]:
            self.offsets[:] = 0
            chosen = largest_halved(self.maxima[np.newaxis, :count], self.params.offsets)
            self.offsets[:count] = chosen

    # Vector operations.

    def _vector(self, x: Instruction) -> None:
        p, operation = self.params, Operation(x["operation"])
        scalars = works_on_scalars(x)
        elements = 1 if scalars else x["elements"]
        a = self._operand(x["a_kind"], x["a"], elements)
        if x["seen"] and x["a_kind"] == Kind.TENSOR:
            visible = np.arange(a.shape[1]) < x["seen"] + np.arange(p.rows)[:, np.newaxis]
            a = np.where(visible, a, np.uint16(_MINUS_INFINITY))
        b = self._operand(x["b_kind"], x["b"], elements) if operation.takes_b else a
        if operation.reduces:
            self.scalars[x["destination"]] = reduce_tensor(
                operation, a, b, elements, p.vector.row_lanes, x["scale"]
            )
            return
        values = elementwise(operation, a, b)
        if scalars:
            self.scalars[x["destination"]] = values[:, 0]
        else:
            rows = halves_rows(p, values[:, :elements])
            self._write(Memory.HALVES, x["destination"], rows)

    def _operand(self, kind: int, value: int, elements: int) -> NDArray[np.uint16]:
        """(banks, whole words)."""
        p = self.params
        shape = (p.rows, words_of(p, elements) * p.word_values)
        if kind == Kind.TENSOR:
            return self._tokens(value, elements)
        if kind == Kind.SCALAR:
            return np.broadcast_to(self.scalars[value][:, np.newaxis], shape)
        return np.full(shape, value, np.uint16)
