"""The Harmonia accelerator's instructions: what they leave in its memories, bit by bit."""

from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.golden import bfp
from tilewright.golden.bfp import Blocks
from tilewright.golden.harmonia.gemm import MixedBlocks
from tilewright.golden.harmonia.offset import largest_halved, signed_maximum
from tilewright.golden.harmonia_machine.isa import (
    CACHED,
    Instruction,
    Settings,
    check,
    expand,
    operand_tiles,
    sums_of,
    tiles_of,
    words_of,
)
from tilewright.golden.harmonia_machine.layout import halves_values
from tilewright.golden.machine.fast_products import FEW_BANKS, Banks, PartWeights
from tilewright.golden.machine.fast_vector import arithmetic, largest, masked
from tilewright.golden.machine.machine import BaseMachine, Lanes, Place
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import ACTIVATION_BITS, OPERAND_BITS
from tilewright.golden.params.harmonia_machine import (
    Conversion,
    Counter,
    Memory,
    Opcode,
    Operand,
    Sums,
)
from tilewright.golden.params.machine import SCALARS, Error
from tilewright.golden.params.vector import Operation

Floats = NDArray[np.float32]
_MINUS_INFINITY = np.uint16(0xFC00)
_EXPONENT_MASK = np.uint8((1 << FP16.exponent_bits) - 1)


class Machine(BaseMachine):
    """The accelerator's memories; ``run`` executes a program on them.

    Weights are unpacked once, when they are first multiplied. Results are computed for banks that
    are written, and for all where a scalar register takes one of each.
    """

    INSTRUCTION: ClassVar = Instruction
    MEMORY: ClassVar = Memory
    SETTINGS: ClassVar = Settings
    COUNTER: ClassVar = Counter
    COUNTED: ClassVar = (
        *(Counter.INSTRUCTIONS, Counter.MATRIX_BUSY, Counter.LINES_READ, Counter.LINES_WRITTEN),
        *(Counter.MANTISSA_LINES, Counter.OPERAND_LINES, Counter.GROUPS_CONVERTED),
    )
    LAZY: ClassVar = (Memory.OPERANDS, Memory.SCALES)
    CHECKED_BY_SETTINGS: ClassVar = False

    def _prepare(self) -> None:
        self.maxima = np.zeros(self.params.channels, np.uint16)  # of K in the initial window
        self.offsets = np.zeros_like(self.maxima)
        self._open: Floats | None = None  # sums (rows, columns) that the last gemm has left open
        self._cache: dict[tuple[int, ...], PartWeights] = {}  # keys and values, as they are now
        self._values: dict[tuple, Floats] = {}  # of activations, as they are now
        self._banks: tuple[Floats, Banks] | None = None  # of the last activations of all
        self._learned: dict[bytes, NDArray[np.uint16]] = {}  # offsets by the maxima of a window

    def _judge(self, x: Instruction | None) -> Error:
        return check(self.params, x)

    def _step(self, x: Instruction | None) -> Error:
        """One instruction, or all that a tiled GEMM expands into."""
        if x is None or x.opcode is not Opcode.TILED_GEMM or self._check(x) is not Error.NONE:
            return super()._step(x)
        self._note(x)
        parts = expand(self.params, self.settings, x)
        return next((e for e in map(self._step, parts) if e is not Error.NONE), Error.NONE)

    def _execute(self, x: Instruction) -> Error:
        match x.opcode:
            case Opcode.VECTOR:  # most are
                self._vector(x)
            case Opcode.CONFIGURE:
                self.settings = self.settings.after(x)
            case Opcode.LOAD:
                return self._load(x)
            case Opcode.STORE:
                return self._store(x)
            case Opcode.GEMM:
                self._gemm(x)
            case Opcode.CONVERT:
                self._convert(x)
            case Opcode.LEARN:
                self._learn(x)
            case Opcode.CLEAR:
                self._cache.clear()
                lanes = x["part"] * self.params.rows + np.arange(self.params.rows)[self._written]
                self._rows(Memory.OPERANDS, x["low_halves"], x["rows"])[:, lanes] = 0
        return Error.NONE

    @property
    def _written(self) -> Lanes:
        return _lanes(self.settings.lanes, self.params.rows)

    # Moves and rows.

    def _put(self, x: Instruction, rows: NDArray) -> None:
        memory = x["memory"]
        if memory == Memory.FP16:
            lanes = self._written
            chosen = slice(x["spread"] - 1, x["spread"]) if x["spread"] else lanes
            self._moved(x)[:, lanes] = rows[:, chosen]
            return
        (self._values if memory < Memory.OPERANDS else self._cache).clear()
        super()._put(x, rows)

    def _count_read(self, memory: int, lines: int) -> None:
        super()._count_read(memory, lines)
        if memory == Memory.MANTISSAS:
            self._count(Counter.MANTISSA_LINES, lines)
        elif memory == Memory.OPERANDS:
            self._count(Counter.OPERAND_LINES, lines)

    # Products.

    def _gemm(self, x: Instruction) -> None:
        p, operand, groups = self.params, Operand(x["operand"]), x["groups"]
        shared = operand is Operand.SHARED
        if operand not in CACHED:
            sums = groups * x["tiles"] // (p.row_groups if shared else 1)
            rows = groups * operand_tiles(p, x)
            places = (
                Place(Memory.OPERANDS, x["operands"], rows),
                Place(Memory.SCALES, x["metadata"], rows),
            )
            part = self._part(places, groups, lambda w, s: self._unpack(w, s, groups))
        else:
            part, sums = self._cached_part(x, operand)
        self._count(Counter.MATRIX_BUSY, sums * x["token_tiles"])
        lanes = slice(None) if x["maxima"] or shared else self._written
        row, before = x["destination"], self._open
        self._open = None
        for tile in range(x["token_tiles"]):
            values = self._activation_values(x["source"] + tile * groups, groups, lanes)
            goes_on = None
            if before is not None:  # the first tile does, of a shared gemm that of every row group
                goes_on = np.zeros((values.shape[1], part.values.shape[1]), np.float32)
                own = np.tile(before[lanes], p.row_groups if shared else 1)
                goes_on[:, : own.shape[1]], before = own, None
            if Sums.OPEN in sums_of(x):
                total = part.product(values, goes_on).reshape(p.rows, p.row_groups, p.columns)
                bank = np.arange(p.rows)
                self._open = total[bank, bank // p.group_rows]
                return
            if goes_on is not None:
                results = masked(part.product(values, goes_on))
            elif values.shape[1] > FEW_BANKS:
                banks = self._banks_of(values)
                results = masked(part.product(banks.distinct)[banks.place])
            else:
                results = masked(part.product(values))
            results = results[:, : x["tiles"] * p.columns]
            if shared:
                results = self._gathered(results)[self._written]
            if x["maxima"]:
                register = (x["register"] + tile) % SCALARS
                self.scalars[register] = self._largest(x, tile, results)
                results = results[self._written]
            shape = len(results), results.shape[1] // p.word_values, p.word_values
            words = results.reshape(shape).swapaxes(0, 1)
            self.memories[Memory.FP16][row : row + len(words), self._written] = words
            row += len(words)

    def _gathered(self, results: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """Results for every bank out of (rows, outputs): in each tile that of its row group."""
        p = self.params
        tiles = results.reshape(p.rows, -1, p.row_groups, p.columns).swapaxes(1, 2)
        row_group, bank = np.arange(p.row_groups), np.arange(p.rows)[:, np.newaxis]
        own = tiles[row_group * p.group_rows + bank % p.group_rows, row_group]
        return own.swapaxes(1, 2).reshape(p.rows, -1)

    def _largest(self, x: Instruction, tile: int, values: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """The largest result of every bank (banks, columns) that counts.

        Columns after the last key do not count, nor do those that the causal limit hides.
        """
        banks, columns = values.shape
        column = np.arange(columns)
        hidden = np.zeros(values.shape, bool)
        if x["operand"] == Operand.KEYS:
            hidden |= column >= self.settings.tokens
        if self.settings.causal_limit:
            seen = self.settings.causal_limit + tile * banks + np.arange(banks)
            hidden |= column >= seen[:, np.newaxis]
        return largest(np.where(hidden, _MINUS_INFINITY, values)[np.newaxis], columns)

    def _activation_values(self, row: int, groups: int, lanes: Lanes) -> Floats:
        """(groups, banks, group): exact values of the activations."""
        key = (row, groups, lanes.start, lanes.stop) if isinstance(lanes, slice) else ()
        if key and key in self._values:
            return self._values[key]
        rows = slice(row, row + groups)
        mantissa = self.memories[Memory.MANTISSAS][rows, lanes].astype(np.float32)
        exponent = self.memories[Memory.EXPONENTS][rows, lanes] & _EXPONENT_MASK
        step = _power(exponent, ACTIVATION_BITS)[..., np.newaxis]
        sign = self.memories[Memory.SIGNS][rows, lanes].astype(bool)
        mantissa *= np.where(sign, -step, step)
        if key:
            self._values[key] = mantissa
        return mantissa

    def _banks_of(self, values: Floats) -> Banks:
        """All parts of a matrix are multiplied by the same activations."""
        known = self._banks
        if known is None or known[0] is not values:
            known = self._banks = values, Banks.of(values)
        return known[1]

    def _unpack(self, operands: NDArray, scales: NDArray, groups: int) -> PartWeights:
        p, sign = self.params, 1 << (OPERAND_BITS - 1)
        values = (operands.astype(np.int8) ^ sign) - sign  # two's complement
        blocks = values.reshape(-1, groups, p.row_groups, p.columns, p.group)
        by_group = blocks.swapaxes(0, 1)
        factors = scales.view(np.float16).reshape(-1, groups, p.row_groups * p.columns)
        factors = factors.transpose(1, 0, 2)
        return PartWeights(
            by_group.reshape(groups, -1, p.group).astype(np.float32),
            factors.reshape(groups, 1, -1).astype(np.float32),
        )

    def _cached_part(self, x: Instruction, operand: Operand) -> tuple[PartWeights, int]:
        """Keys or values, and the sums that the array takes."""
        fields = ("operand", "operands", "low_halves", "metadata", "groups", "tiles")
        key = (*(x[name] for name in fields), self.settings.tokens)
        p, groups, tiles = self.params, x["groups"], x["tiles"]
        units, across = (tiles, groups) if operand is Operand.KEYS else (groups, tiles)
        low = sum(p.has_low(operand, unit, self.settings.tokens) for unit in range(units))
        if key not in self._cache:
            mixed = self._cached(x, operand)
            step = _power(mixed.exponent, mixed.bits)[..., np.newaxis]
            values = mixed.mantissa.astype(np.float32) * np.where(mixed.sign, -step, step)
            self._cache[key] = PartWeights(np.ascontiguousarray(values.swapaxes(0, 1)))
        return self._cache[key], (units + low) * across

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
        """fp16 patterns (tokens of all tiles, elements in whole words), 0 beyond ``elements``."""
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
        p, elements, conversion = self.params, x["elements"], Conversion(x["conversion"])
        (self._values if conversion is Conversion.ACTIVATIONS else self._cache).clear()
        if conversion is Conversion.VALUES:
            self._convert_values(x)
            return
        tokens = self._tensor(x["source"], elements)[:, :elements]
        if conversion is Conversion.KEYS:
            offsets = self.offsets[:elements]
            chosen = np.flatnonzero(offsets & 0x7FFF)
            tokens[:, chosen] = arithmetic(Operation.SUBTRACT, tokens[:, chosen], offsets[chosen])
            lanes = np.arange(p.rows)[self._written]
            self._write_operands(x, self._encoded(tokens), lanes, x["part"] * p.rows + lanes)
            return
        blocks = self._encoded(tokens)
        rows = slice(x["destination"], x["destination"] + blocks.exponent.shape[1])
        self.memories[Memory.MANTISSAS][rows] = blocks.mantissa.swapaxes(0, 1)
        self.memories[Memory.SIGNS][rows] = blocks.sign.swapaxes(0, 1)
        self.memories[Memory.EXPONENTS][rows] = blocks.exponent.T

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
        unseen = np.ones(len(tokens), bool)
        unseen[self._written] = False
        tokens[unseen] = 0
        seen = tokens if x["first"] else np.vstack([self.maxima[:count], tokens])
        self.maxima[:count] = signed_maximum(seen)
        if x["last"]:
            key = self.maxima[:count].tobytes()
            if key not in self._learned:  # every later step learns from the same window again
                found = largest_halved(self.maxima[np.newaxis, :count], self.params.offsets)
                self._learned[key] = found
            self.offsets[:] = 0
            self.offsets[:count] = self._learned[key]

    # Vector operations.

    def _words_of(self, row: int, count: int, lanes: Lanes) -> NDArray[np.uint16]:
        return self.memories[Memory.FP16][row : row + count, lanes]

    def _put_words(self, row: int, words: NDArray[np.uint16], elements: int, lanes: Lanes) -> None:
        self.memories[Memory.FP16][row : row + len(words), lanes] = words

    def _shown(self, x: Instruction, a: NDArray[np.uint16], lanes: Lanes) -> NDArray[np.uint16]:
        """Elements that ``causal_limit`` hides from a bank read as -infinity."""
        if not x["causal_limit"]:
            return a
        banks = np.arange(self.params.rows)[lanes]
        place = np.arange(a.shape[0] * a.shape[2]).reshape(a.shape[0], 1, -1)
        return np.where(place < x["causal_limit"] + banks[:, np.newaxis], a, _MINUS_INFINITY)


@lru_cache(maxsize=1 << 12)
def _lanes(mask: int, rows: int) -> Lanes:
    """Banks of a mask: a slice where they are consecutive."""
    banks = [bank for bank in range(rows) if mask >> bank & 1]
    if banks and banks == list(range(banks[0], banks[-1] + 1)):
        return slice(banks[0], banks[-1] + 1)
    return np.array(banks, np.int64)


def _power(exponent: NDArray, bits: NDArray | int) -> Floats:
    """The weight of a mantissa's lowest bit."""
    step = exponent.astype(np.int32) - FP16.bias - (np.asarray(bits, np.int32) - 1)
    return np.ldexp(np.float32(1), step)
