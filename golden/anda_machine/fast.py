"""The golden accelerator for whole models: bit for bit the executor, but faster.

Weights are unpacked once, whenever lines that hold them are first multiplied. Banks that hold the
same activations are multiplied once. Vector operations are numpy's.
"""

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden import anda
from tilewright.golden.anda_machine.executor import Machine
from tilewright.golden.anda_machine.isa import Instruction, groups_of
from tilewright.golden.anda_machine.layout import block_format, from_bytes
from tilewright.golden.bfp import encode
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
from tilewright.golden.params.anda_machine import FP16_ROWS, AndaParams, Counter, Memory, group_rows
from tilewright.golden.params.formats import FP16, FP32
from tilewright.golden.params.machine import Error, Kind
from tilewright.golden.params.vector import Operation

__all__ = ["FastMachine"]

_ARITHMETIC = (Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY)


class _Pending(NamedTuple):
    """A load of weights or scales whose rows have not been read yet."""

    memory: Memory
    row: int
    rows: int
    line: int

    def overlaps(self, other: "_Pending") -> bool:
        apart = self.row + self.rows <= other.row or other.row + other.rows <= self.row
        return self.memory is other.memory and not apart


class _Decoded(NamedTuple):
    """A vector instruction, decoded once: loops execute it again."""

    operation: Operation
    of_scalars: bool  # one of few operations on scalar registers
    rare: bool  # left to the executor
    reduces: bool
    takes_b: bool
    by_table: bool

    @classmethod
    def of(cls, x: Instruction) -> "_Decoded":
        operation, scalars = Operation(x["operation"]), works_on_scalars(x)
        simple = operation in _ARITHMETIC or operation in FUNCTIONS
        return cls(
            operation,
            scalars and simple and x["a_kind"] == Kind.SCALAR,
            scalars or x["a_kind"] != Kind.TENSOR or not (simple or operation.reduces),
            operation.reduces,
            operation.takes_b,
            operation in FUNCTIONS,
        )


class _Instruction(DecodedOnce, Instruction):
    KNOWN: ClassVar[dict[int, Any]] = {}

    @cached_property
    def facts(self) -> _Decoded:
        return _Decoded.of(self)


class _Unpacked(NamedTuple):
    """A part's weights (groups, group, outputs) and scales (groups, outputs)."""

    factors: NDArray[np.float32]
    scales: NDArray[np.float32]


class FastMachine(CompiledMachine, Machine):
    """One accelerator with a model's image, whose first ``constant`` lines nothing changes."""

    INSTRUCTION: ClassVar = _Instruction

    def __init__(self, params: AndaParams, external: NDArray[np.uint8], constant: int):
        super().__init__(params, external, constant)
        self._pending: list[_Pending] = []
        self._settled: set[_Pending] = set()  # of these: their rows are in the buffers
        self._weights: dict[tuple[int, int, int], _Unpacked] = {}
        self._judged: dict[tuple, Error] = {}
        self._last_key: tuple = ()  # of the last product's activations
        self._last_values: NDArray[np.float32] = np.zeros(0, np.float32)

    def _check(self, x: Instruction | None) -> Error:
        """What is right does not depend on a line, so most has been looked at before."""
        if x is None:
            return super()._check(x)
        by, settings, known = x.__dict__.get("judged", (None, None, Error.NONE))
        if by is self and settings == self.settings:  # a loop has come to it before
            return known
        fields = x.fields
        key = (x.opcode, self.settings, *(fields[name] for name in fields if name != "line"))
        known = self._judged.get(key)
        if known is None:
            known = self._judged[key] = super()._check(x)
        x.__dict__["judged"] = self, self.settings, known
        return known

    # Weights stay in external memory until their rows are read.

    def settle(self) -> None:
        """Load all rows that have been put off: buffers are then as the executor leaves them."""
        for load in self._pending:
            self._settle(load)

    def _settle(self, load: _Pending) -> None:
        if load in self._settled:
            return
        self._settled.add(load)
        lines = self.params.lines(load.memory, load.rows)
        data = self.external[load.line : load.line + lines].reshape(-1)
        buffer = self.weights if load.memory is Memory.WEIGHTS else self.scales
        rows = from_bytes(self.params, load.memory, data, load.rows)
        buffer[load.row : load.row + load.rows] = rows

    def _load(self, x: Instruction) -> Error:
        memory = Memory(x["memory"])
        if memory not in (Memory.WEIGHTS, Memory.SCALES):
            return super()._load(x)
        load = _Pending(memory, x["row"], x["rows"], x["line"])
        lines = self._lines(x)
        if x["stride"] != 1 or lines is None or lines.stop > self._constant:
            self.settle()
            self._pending, self._settled = [], set()
            return super()._load(x)
        for other in [c for c in self._pending if c.overlaps(load)]:
            if (other.row, other.rows) != (load.row, load.rows):
                self._settle(other)  # some of its rows stay
            self._pending.remove(other)
            self._settled.discard(other)
        self._pending.append(load)
        self._count(Counter.LINES_READ, lines.stop - lines.start)
        return Error.NONE

    def _gemm(self, x: Instruction) -> None:
        p, source = self.params, self.settings.source
        groups, tiles = groups_of(p, x["inputs"]), -(-x["outputs"] // p.columns)
        taken = self.activations[x["source"] :][: groups * group_rows(source)]
        exponents = self.exponents[x["source"] :][: len(taken) : group_rows(source)] & np.uint8(
            0x1F
        )
        same = bool((taken == taken[:, :1]).all() and (exponents == exponents[:, :1]).all())
        # Sums of a group are exact in float32 up to this length.
        if p.group << (source + p.weight_bits - 1) > 1 << FP32.significand_bits:
            self.settle()
            super()._gemm(x)
            return
        banks = 1 if same else p.rows
        values = self._activation_values(source, taken[:, :banks], exponents[:, :banks])
        factors, scales = self._unpacked(x, tiles, groups)
        sums = np.matmul(values, factors)  # groups, banks, outputs
        with np.errstate(all="ignore"):
            terms = sums.astype(np.float16).astype(np.float32)
            terms *= scales[:, np.newaxis]
            # Each addition rounds: numpy adds one after the other along the first axis.
            result = masked(np.add.reduce(terms, axis=0, initial=np.float32(0)))
        result = np.broadcast_to(result, (p.rows, result.shape[1]))
        self._write_result(x["destination"], result, self.settings.result)
        self._count(Counter.MATRIX_BUSY, tiles * groups * group_rows(source))

    def _activation_values(
        self, mantissa: int, planes: NDArray, exponents: NDArray
    ) -> NDArray[np.float32]:
        """(groups, banks, group): exact values; all parts of a matrix have the same activations."""
        key = mantissa, planes.shape[1], planes.tobytes(), exponents.tobytes()
        if key != self._last_key:
            p, (rows, banks) = self.params, planes.shape
            length = rows // group_rows(mantissa) * p.group
            fmt = block_format(p, mantissa)
            layout = anda.TensorLayout(fmt=fmt, rows=banks, length=length, lanes=banks)
            blocks = anda.load(layout, planes, exponents)
            step = blocks.exponent.astype(np.int32) - FP16.bias - (mantissa - 1)
            values = np.ldexp(blocks.mantissa.astype(np.float32), step[..., np.newaxis])
            values = np.where(blocks.sign, -values, values).swapaxes(0, 1)
            self._last_key, self._last_values = key, np.ascontiguousarray(values)
        return self._last_values

    def _compress(self, x: Instruction) -> None:
        """Of banks that hold the same values one is converted."""
        p, mantissa, row = self.params, self.settings.result, x["destination"]
        values = self._tensor(x["source"], x["elements"])
        one = values[:1]
        if not (values == one).all():
            self._write_result(row, values, mantissa)
            return
        fmt = block_format(p, mantissa)
        layout = anda.TensorLayout(fmt=fmt, rows=1, length=values.shape[1], lanes=1)
        planes, exponents = anda.store(layout, encode(fmt, one, saturate=True))
        end = row + len(planes)
        self.activations[row:end] = planes
        self.exponents[row : end : group_rows(mantissa)] = exponents
        self.outcome.saturated |= bool(((one & 0x7FFF) > FP16.max_finite_bits).any())
        self._count(Counter.GROUPS_COMPRESSED, p.rows * exponents.size)

    def _unpacked(self, x: Instruction, tiles: int, groups: int) -> _Unpacked:
        p = self.params
        rows = tiles * groups * p.mxu.weight_beats
        first = {(c.memory, c.row): c for c in self._pending}
        weights = first.get((Memory.WEIGHTS, x["weights"]))
        scales = first.get((Memory.SCALES, x["scales"]))
        key = None
        if weights and scales and rows <= weights.rows and tiles * groups <= scales.rows:
            key = (weights.line, rows, groups)
            found = self._weights.get(key)
            if found is not None:
                return found
        self.settle()
        values = self._weight_values(self.weights[x["weights"] :][:rows], tiles, groups)
        factors = self.scales[x["scales"] :][: tiles * groups].reshape(tiles, groups, -1)
        found = _Unpacked(
            np.ascontiguousarray(values.T, np.float32).reshape(groups, p.group, -1),
            factors.swapaxes(0, 1).reshape(groups, -1).view(np.float16).astype(np.float32),
        )
        if key:
            self._weights[key] = found
        return found

    # Vector operations, on rows as the buffer has them: (words, banks, values of a word).

    def _vector(self, x: Instruction) -> None:
        assert isinstance(x, _Instruction)
        facts = x.facts
        operation = facts.operation
        if facts.of_scalars:
            self._scalar(x, facts)
            return
        if facts.rare:
            super()._vector(x)
            return
        elements = x["elements"]
        a = self._part(x["a"], elements)
        b = self._second(x, elements) if facts.takes_b else a
        if operation is Operation.LARGEST:
            self.scalars[x["destination"]] = largest(a, elements)
        elif facts.reduces:
            second = None if operation is Operation.SUM else np.broadcast_to(b, a.shape)
            self.scalars[x["destination"]] = reduced(a, second, elements, x["scale"])
        else:
            result = table(operation)[a] if facts.by_table else arithmetic(operation, a, b)
            tail = elements % self.params.vector.row_lanes
            if tail:
                result[-1, :, tail:] = 0
            rows = groups_of(self.params, elements) * FP16_ROWS
            first, behind = x["destination"], x["destination"] + len(result)
            words = np.ascontiguousarray(result).view(self.activations.dtype)[..., 0]
            self.activations[first:behind] = words
            self.activations[behind : first + rows] = 0

    def _scalar(self, x: Instruction, facts: _Decoded) -> None:
        a = self.scalars[x["a"]]
        if facts.by_table:
            result = table(facts.operation)[a]
        else:
            immediate = x["b_kind"] == Kind.IMMEDIATE
            b = np.full(1, x["b"], np.uint16) if immediate else self.scalars[x["b"]]
            result = arithmetic(facts.operation, a, b)
        self.scalars[x["destination"]] = result

    def _part(self, row: int, elements: int) -> NDArray[np.uint16]:
        """The words of a tensor that hold elements."""
        count = -(-elements // self.params.vector.row_lanes)
        return self.activations[row : row + count][..., np.newaxis].view("<u2")

    def _second(self, x: Instruction, elements: int) -> NDArray[np.uint16]:
        if x["b_kind"] == Kind.TENSOR:
            return self._part(x["b"], elements)
        if x["b_kind"] == Kind.SCALAR:
            return self.scalars[x["b"]][np.newaxis, :, np.newaxis]
        return np.full((1, 1, 1), x["b"], np.uint16)
