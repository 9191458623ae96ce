"""The golden accelerator for programs of a whole model: the same results, sooner.

What the executor computes bit by bit is computed here by numpy's own float16 and float32, whose
operations round once as the accelerator's do, by tables of all fp16 patterns, and on weights that
are unpacked when they are first used and kept. Only banks that are written are computed. Nothing
else differs: memories, counters and traces are those of
:class:`tilewright.golden.harmonia_machine.executor.Machine`.
"""

from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.bfp import Blocks
from tilewright.golden.harmonia_machine.executor import Machine
from tilewright.golden.harmonia_machine.fast_blocks import encoded
from tilewright.golden.harmonia_machine.fast_products import FEW_BANKS, Banks, PartWeights, added
from tilewright.golden.harmonia_machine.isa import Instruction, words_of
from tilewright.golden.harmonia_machine.layout import from_bytes
from tilewright.golden.machine.compiled import CompiledMachine, DecodedOnce
from tilewright.golden.machine.fast_vector import (
    FUNCTIONS,
    arithmetic,
    largest,
    masked,
    reduced,
    table,
)
from tilewright.golden.machine.instruction import works_on_scalars
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
from tilewright.golden.params.machine import Error, Kind
from tilewright.golden.params.vector import Operation

__all__ = ["FastMachine"]

Floats = NDArray[np.float32]
_SIMPLE = (*FUNCTIONS, Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY)
_LINE = ("line",)
_EXPONENT_MASK = np.uint8((1 << FP16.exponent_bits) - 1)


class _Pending(NamedTuple):
    """Rows of weights that a load has announced and nothing has read yet."""

    line: int
    rows: int
    skip: int = 0  # rows of the load before the first of these


class _Decoded(NamedTuple):
    """A vector instruction, decoded once: loops execute it again."""

    operation: Operation
    of_scalars: bool  # one of few operations on scalar registers
    rare: bool  # left to the executor
    all_banks: bool  # computed for banks that are not written too
    reduces: bool
    takes_b: bool
    by_table: bool

    @classmethod
    def of(cls, x: Instruction) -> "_Decoded":
        operation = Operation(x["operation"])
        return cls(
            operation,
            works_on_scalars(x) and x["a_kind"] == Kind.SCALAR and operation in _SIMPLE,
            operation is Operation.MAXIMUM or x["a_kind"] != Kind.TENSOR,
            operation.reduces or operation.keeps_sum,
            operation.reduces,
            operation.takes_b,
            operation in FUNCTIONS,
        )


class _Instruction(DecodedOnce, Instruction):
    KNOWN: ClassVar[dict[int, Any]] = {}

    @cached_property
    def facts(self) -> _Decoded:
        return _Decoded.of(self)


class FastMachine(CompiledMachine, Machine):
    """One accelerator with a model's image, whose first ``constant`` lines nothing changes."""

    INSTRUCTION: ClassVar = _Instruction

    def __init__(self, params: HarmoniaParams, external: NDArray[np.uint8], constant: int):
        super().__init__(params, external, constant)
        self._pending: dict[tuple[Memory, int], _Pending] = {}
        self._unpacked: dict[tuple[int, int], PartWeights] = {}
        self._factors: dict[tuple[int, ...], Floats] = {}  # of the cache, as it is now
        self._values: dict[tuple, Floats] = {}  # of activations, as they are now
        self._banks: tuple[Floats, Banks] | None = None  # of the last activations of all
        self._offsets: dict[bytes, NDArray[np.uint16]] = {}  # that windows have taught
        self._judged: dict[tuple[int, ...], Error] = {}

    def _check(self, x: Instruction | None) -> Error:
        """What is right does not depend on a line, so most has been looked at before."""
        if x is None:
            return super()._check(x)
        origin = x.__dict__.get("origin", x)  # before index registers were added
        same = x if origin.moved != _LINE else origin
        by, known = same.__dict__.get("judged", (None, Error.NONE))
        if by is self:  # a loop has come to it before
            return known
        fields = x.fields
        key = (x.opcode, *(fields[name] for name in fields if name != "line"))
        known = self._judged.get(key)
        if known is None:
            known = self._judged[key] = super()._check(x)
        same.__dict__["judged"] = self, known
        return known

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

    # Weights stay in external memory until their rows are read.

    def _load(self, x: Instruction) -> Error:
        memory, row = Memory(x["memory"]), x["row"]
        lines = self._lines(x)
        is_weight = memory in (Memory.OPERANDS, Memory.SCALES)
        if not is_weight or x["line"] >= self._constant:
            if is_weight and lines is not None:
                self._forget(memory, row, x["rows"])
                self._pending.pop((memory, row), None)
            return super()._load(x)
        if lines is None:
            return Error.BUS
        self._forget(memory, row, x["rows"])
        self._pending[memory, row] = _Pending(x["line"], x["rows"])
        count = lines.stop - lines.start
        self._count(Counter.LINES_READ, count)
        if memory is Memory.OPERANDS:
            self._count(Counter.OPERAND_LINES, count)
        return Error.NONE

    def _put(self, x: Instruction, data: NDArray[np.uint8]) -> None:
        (self._values if x["memory"] < Memory.OPERANDS else self._factors).clear()
        super()._put(x, data)

    def _forget(self, memory: Memory, row: int, rows: int) -> None:
        """Rows that are written anew; what is beside them is put where it belongs."""
        before = self._pending.get((memory, row))
        if before is not None and before.rows == rows:  # of all that came no rows are shared
            return
        for key, pending in list(self._pending.items()):
            first, end = key[1], key[1] + pending.rows
            if key[0] is not memory or first >= row + rows or row >= end:
                continue
            del self._pending[key]
            if first < row:
                self._pending[memory, first] = pending._replace(rows=row - first)
            if row + rows < end:
                gone = row + rows - first
                rest = pending._replace(rows=pending.rows - gone, skip=pending.skip + gone)
                self._pending[memory, row + rows] = rest

    def _settle(self, key: tuple[Memory, int]) -> None:
        """Write rows that have come."""
        memory, row = key
        pending = self._pending.pop(key)
        rows = self._fetched(memory, pending)
        self.memories[memory][row : row + pending.rows] = rows

    def _fetched(self, memory: Memory, pending: _Pending) -> NDArray:
        rows = pending.skip + pending.rows
        count = self.params.lines(memory, rows)
        data = np.array(self.external[pending.line : pending.line + count]).reshape(-1)
        return from_bytes(self.params, memory, data, rows)[pending.skip :]

    def settle(self) -> None:
        """Let the memories hold all that has come."""
        for key in list(self._pending):
            self._settle(key)

    def _rows(self, memory: Memory, first: int, rows: int) -> NDArray:
        if memory >= Memory.OPERANDS:
            for key, pending in list(self._pending.items()):
                if key[0] is memory and key[1] < first + rows and first < key[1] + pending.rows:
                    self._settle(key)
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
    def _written(self) -> slice | NDArray[np.int64]:
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

    # Vector operations, on rows as the memory has them: (words, banks, values of a word).

    def _vector(self, x: Instruction) -> None:
        assert isinstance(x, _Instruction)
        facts = x.facts
        operation, elements = facts.operation, x["elements"]
        if facts.of_scalars:
            self._scalar(x, operation)
            return
        if facts.rare:
            super()._vector(x)
            return
        lanes = slice(None) if facts.all_banks else self._written
        a = self._words(x["a"], elements, lanes)
        if x["causal_limit"]:
            a = self._hidden(a, x["causal_limit"], lanes)
        b = self._second(x, elements, lanes) if facts.takes_b else a
        if operation is Operation.LARGEST:
            self.scalars[x["destination"]] = largest(a, elements)
            return
        if facts.reduces:
            second = None if operation is Operation.SUM else b
            self.scalars[x["destination"]] = reduced(a, second, elements, x["scale"])
            return
        if operation is Operation.COPY:
            result = a.copy()
        elif facts.by_table:
            result = table(operation)[a]
        elif operation is Operation.POWERS:
            powers = table(Operation.EXPONENTIAL)[arithmetic(Operation.SUBTRACT, a, b)]
            self.scalars[x["total"]] = reduced(powers, None, elements, x["scale"])
            lanes = self._written
            result = powers[:, lanes]
        else:
            result = arithmetic(operation, a, b)
        tail = elements % self.params.word_values
        if tail:
            result[-1, ..., tail:] = 0
        row = x["destination"]
        self.memories[Memory.FP16][row : row + len(result), lanes] = result

    def _scalar(self, x: Instruction, operation: Operation) -> None:
        a = self.scalars[x["a"]]
        if operation in FUNCTIONS:
            result = table(operation)[a]
        else:
            immediate = x["b_kind"] == Kind.IMMEDIATE
            b = np.full(1, x["b"], np.uint16) if immediate else self.scalars[x["b"]]
            result = arithmetic(operation, a, b)
        self.scalars[x["destination"]] = result

    def _words(self, row: int, elements: int, lanes: Any) -> NDArray[np.uint16]:
        count = words_of(self.params, elements)
        values: NDArray[np.uint16] = self.memories[Memory.FP16][row : row + count, lanes]
        tail = elements % self.params.word_values
        if tail:
            values = values.copy()
            values[-1, ..., tail:] = 0
        return values

    def _second(self, x: Instruction, elements: int, lanes: Any) -> NDArray[np.uint16]:
        if x["b_kind"] == Kind.TENSOR:
            return self._words(x["b"], elements, lanes)
        if x["b_kind"] == Kind.SCALAR:
            return self.scalars[x["b"]][lanes][np.newaxis, :, np.newaxis]
        return np.full((1, 1, 1), x["b"], np.uint16)

    def _hidden(self, a: NDArray[np.uint16], limit: int, lanes: Any) -> NDArray[np.uint16]:
        """Elements that ``limit`` hides from a bank read as -infinity."""
        banks = np.arange(self.params.rows)[lanes]
        place = np.arange(a.shape[0] * a.shape[2]).reshape(a.shape[0], 1, -1)
        return np.where(place < limit + banks[:, np.newaxis], a, np.uint16(0xFC00))


@lru_cache(maxsize=1 << 12)
def _lanes(mask: int, rows: int) -> slice | NDArray[np.int64]:
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
