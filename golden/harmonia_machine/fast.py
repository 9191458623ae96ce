"""The golden accelerator for programs of a whole model: the same results, sooner.

What the executor computes bit by bit is computed here by numpy's own float16 and float32, whose
operations round once as the accelerator's do, by tables of all fp16 patterns, and on weights that
are unpacked when they are first used and kept. Only banks that are written are computed. Nothing
else differs: memories, counters and traces are those of
:class:`tilewright.golden.harmonia_machine.executor.Machine`.
"""

from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.bfp import Blocks
from tilewright.golden.harmonia_machine.executor import Machine
from tilewright.golden.harmonia_machine.fast_blocks import encoded
from tilewright.golden.harmonia_machine.isa import Instruction
from tilewright.golden.harmonia_machine.layout import from_bytes
from tilewright.golden.machine.compiled import CompiledMachine, DecodedOnce, Lanes
from tilewright.golden.machine.fast_products import FEW_BANKS, Banks, PartWeights, added
from tilewright.golden.machine.fast_vector import arithmetic, largest, masked
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
from tilewright.golden.params.machine import Error
from tilewright.golden.params.vector import Operation

Floats = NDArray[np.float32]
_EXPONENT_MASK = np.uint8((1 << FP16.exponent_bits) - 1)


class _Instruction(DecodedOnce, Instruction):
    KNOWN: ClassVar[dict[int, Any]] = {}


class FastMachine(CompiledMachine, Machine):
    """One accelerator with a model's image, whose first ``constant`` lines nothing changes."""

    INSTRUCTION: ClassVar = _Instruction
    LAZY: ClassVar = (Memory.OPERANDS, Memory.SCALES)
    CHECKED_BY_SETTINGS: ClassVar = False

    def __init__(self, params: HarmoniaParams, external: NDArray[np.uint8], constant: int):
        super().__init__(params, external, constant)
        self._unpacked: dict[tuple[int, int], PartWeights] = {}
        self._factors: dict[tuple[int, ...], Floats] = {}  # of the cache, as it is now
        self._values: dict[tuple, Floats] = {}  # of activations, as they are now
        self._banks: tuple[Floats, Banks] | None = None  # of the last activations of all
        self._offsets: dict[bytes, NDArray[np.uint16]] = {}  # that windows have taught

    def _execute(self, x: Instruction) -> Error:
        if x.opcode is Opcode.VECTOR:  # most are
            self._vector(x)
            return Error.NONE
        match x.opcode:
            case Opcode.CLEAR:
                self._factors.clear()
                self._rows(Memory.OPERANDS, x["low_halves"], x["rows"])
            case Opcode.CONVERT if x["conversion"] != Conversion.ACTIVATIONS:
                self._factors.clear()
            case Opcode.CONVERT:
                self._values.clear()
        return super()._execute(x)

    # Rows.

    def _buffer(self, memory: Memory) -> NDArray:
        return self.memories[memory]

    def _rows_of_lines(self, memory: Memory, data: NDArray[np.uint8], rows: int) -> NDArray:
        return from_bytes(self.params, memory, data, rows)

    def _put(self, x: Instruction, data: NDArray[np.uint8]) -> None:
        (self._values if x["memory"] < Memory.OPERANDS else self._factors).clear()
        super()._put(x, data)

    def _rows(self, memory: Memory, first: int, rows: int) -> NDArray:
        if memory in self.LAZY:
            self._settle_rows(memory, first, rows)
        return super()._rows(memory, first, rows)

    def _write(self, memory: Memory, first: int, rows: NDArray) -> None:
        if memory is not Memory.FP16:
            super()._write(memory, first, rows)
            return
        lanes = self._written
        self.memories[memory][first : first + len(rows), lanes] = rows[:, lanes]

    # Products.

    def _gemm(self, x: Instruction) -> None:
        if x["token_tiles"] != 1:
            super()._gemm(x)
            return
        p, operand = self.params, Operand(x["operand"])
        groups, tiles = x["groups"], x["tiles"]
        lanes = self._written
        # Largest results are kept of all banks, whether they are written or not.
        values = self._activation_values(x["source"], groups, slice(None) if x["maxima"] else lanes)
        if operand is Operand.WEIGHTS:
            busy, weights = groups * tiles, self._part(x)
            if x["maxima"] or values.shape[1] > FEW_BANKS:
                banks = self._banks_of(values)
                sums = weights.product(banks.distinct)[banks.place]
            else:
                sums = weights.product(values)
        else:
            factors, busy = self._cached_factors(x, operand)
            sums = added((values @ factors).astype(np.float16).astype(np.float32))
        results = masked(sums)
        if x["maxima"]:
            self._keep_largest(x, results)
            results = results[lanes]
        words = results.reshape(len(results), -1, p.word_values).swapaxes(0, 1)
        target = self.memories[Memory.FP16]
        target[x["destination"] : x["destination"] + len(words), lanes] = words
        self._count(Counter.MATRIX_BUSY, busy)

    def _keep_largest(self, x: Instruction, values: NDArray[np.uint16]) -> None:
        column = np.arange(values.shape[1])
        hidden = np.zeros(values.shape, bool)
        if x["operand"] == Operand.KEYS:
            hidden |= column >= self.settings.tokens
        if self.settings.causal_limit:
            seen = self.settings.causal_limit + np.arange(len(values))
            hidden |= column >= seen[:, np.newaxis]
        shown = np.where(hidden, np.uint16(0xFC00), values)
        self.scalars[x["register"]] = largest(shown[np.newaxis], values.shape[1])

    @property
    def _written(self) -> Lanes:
        """Banks that are written, as an index."""
        return _lanes(self.settings.lanes, self.params.rows)

    def _activation_values(self, row: int, groups: int, lanes: Any) -> Floats:
        """(groups, banks, group): exact values of the activations."""
        place = lanes if isinstance(lanes, slice) else None
        key = (row, groups, None if place is None else (place.start, place.stop))
        if place is not None and key in self._values:
            return self._values[key]
        rows = slice(row, row + groups)
        mantissa = self.memories[Memory.MANTISSAS][rows, lanes].astype(np.float32)
        exponent = self.memories[Memory.EXPONENTS][rows, lanes] & _EXPONENT_MASK
        step = _power(exponent, ACTIVATION_BITS)[..., np.newaxis]
        sign = self.memories[Memory.SIGNS][rows, lanes].astype(bool)
        step = np.where(sign, -step, step)
        mantissa *= step
        if place is not None:
            self._values[key] = mantissa
        return mantissa

    def _banks_of(self, values: Floats) -> Banks:
        """All parts of a matrix are multiplied by the same activations."""
        known = self._banks
        if known is None or known[0] is not values:
            known = self._banks = values, Banks.of(values)
        return known[1]

    def _part(self, x: Instruction) -> PartWeights:
        """Weights of a product, from external memory where they have not been unpacked yet."""
        rows, groups = x["groups"] * x["tiles"], x["groups"]
        operands = self._pending.get((Memory.OPERANDS, x["operands"]))
        scales = self._pending.get((Memory.SCALES, x["metadata"]))
        if (
            operands is None
            or scales is None
            or operands.skip + scales.skip
            or rows > min(operands.rows, scales.rows)
        ):
            return self._unpack(
                self._rows(Memory.OPERANDS, x["operands"], rows),
                self._rows(Memory.SCALES, x["metadata"], rows),
                groups,
            )
        key = operands.line, rows
        found = self._unpacked.get(key)
        if found is None:
            found = self._unpacked[key] = self._unpack(
                self._fetched(Memory.OPERANDS, operands._replace(rows=rows)),
                self._fetched(Memory.SCALES, scales._replace(rows=rows)),
                groups,
            )
        return found

    def _unpack(self, operands: NDArray, scales: NDArray, groups: int) -> PartWeights:
        p = self.params
        values = (operands.astype(np.int8) ^ 8) - 8  # two's complement of 4 bits
        by_group = values.reshape(-1, groups, p.columns, p.group).swapaxes(0, 1)
        factors = scales.view(np.float16).reshape(-1, groups, p.columns).transpose(1, 0, 2)
        return PartWeights(
            by_group.reshape(groups, -1, p.group).astype(np.float32),
            factors.reshape(groups, 1, -1).astype(np.float32),
        )

    def _cached_factors(self, x: Instruction, operand: Operand) -> tuple[Floats, int]:
        """(groups, group, columns) of keys or values, and the sums that the array takes."""
        fields = ("operand", "operands", "low_halves", "metadata", "groups", "tiles")
        key = (*(x[name] for name in fields), self.settings.tokens)
        factors = self._factors.get(key)
        p, groups, tiles = self.params, x["groups"], x["tiles"]
        units, across = (tiles, groups) if operand is Operand.KEYS else (groups, tiles)
        low = sum(p.has_low(operand, unit, self.settings.tokens) for unit in range(units))
        if factors is None:
            mixed = self._cached(x, operand)
            step = _power(mixed.exponent, mixed.bits)[..., np.newaxis]
            values = mixed.mantissa.astype(np.float32) * np.where(mixed.sign, -step, step)
            factors = np.ascontiguousarray(values.transpose(1, 2, 0))
            self._factors[key] = factors
        return factors, (units + low) * across

    # Conversions.

    def _convert(self, x: Instruction) -> None:
        """Of activations in whole groups all stays as the memories have it: rows, then banks."""
        p, elements = self.params, x["elements"]
        if x["conversion"] != Conversion.ACTIVATIONS or elements % p.group:
            super()._convert(x)
            return
        groups, words = elements // p.group, elements // p.word_values
        halves = self.memories[Memory.FP16][x["source"] : x["source"] + words]
        by_group = halves.reshape(groups, -1, p.rows, p.word_values).swapaxes(1, 2)
        blocks = self._encoded(by_group.reshape(groups, p.rows, p.group))
        rows = slice(x["destination"], x["destination"] + groups)
        self.memories[Memory.MANTISSAS][rows] = blocks.mantissa[:, :, 0]
        self.memories[Memory.SIGNS][rows] = blocks.sign[:, :, 0]
        self.memories[Memory.EXPONENTS][rows] = blocks.exponent[:, :, 0]

    def _shifted(
        self, tokens: NDArray[np.uint16], offsets: NDArray[np.uint16]
    ) -> NDArray[np.uint16]:
        chosen = np.flatnonzero(offsets & 0x7FFF)
        result = tokens.copy()
        result[:, chosen] = arithmetic(Operation.SUBTRACT, tokens[:, chosen], offsets[chosen])
        return result

    def _learned(self, maxima: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """Every later step learns from the same window again."""
        key = maxima.tobytes()
        if key not in self._offsets:
            self._offsets[key] = super()._learned(maxima)
        return self._offsets[key]

    def _encoded(self, values: NDArray[np.uint16]) -> Blocks:
        blocks, saturated = encoded(values, self.params.group)
        self.outcome.saturated |= saturated
        self._count(Counter.GROUPS_CONVERTED, blocks.exponent.size)
        return blocks

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
        return np.where(place < x["causal_limit"] + banks[:, np.newaxis], a, np.uint16(0xFC00))


@lru_cache(maxsize=1 << 12)
def _lanes(mask: int, rows: int) -> Lanes:
    """Banks of a mask: a slice where they follow each other."""
    banks = [bank for bank in range(rows) if mask >> bank & 1]
    if banks and banks == list(range(banks[0], banks[-1] + 1)):
        return slice(banks[0], banks[-1] + 1)
    return np.array(banks, np.int64)


def _power(exponent: NDArray, bits: NDArray | int) -> Floats:
    """What a mantissa's lowest bit is worth."""
    step = exponent.astype(np.int32) - FP16.bias - (np.asarray(bits, np.int32) - 1)
    return np.ldexp(np.float32(1), step)


assert OPERAND_BITS == 4  # ``_unpack`` knows
