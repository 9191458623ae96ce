"""The Anda accelerator's instructions: what they leave in its memories, bit by bit."""

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.golden import anda
from tilewright.golden.anda_machine.attention import dots, weighed
from tilewright.golden.anda_machine.isa import (
    Formats,
    Instruction,
    attention_beats,
    check,
    extents,
    groups_of,
)
from tilewright.golden.anda_machine.layout import (
    anda_rows,
    block_format,
    fp16_rows,
    fp16_values,
    from_bytes,
    to_bytes,
    word_dtype,
)
from tilewright.golden.machine.machine import BaseMachine
from tilewright.golden.params.anda_machine import AndaParams, Counter, Memory, Opcode, group_rows
from tilewright.golden.params.formats import FP16, IntFormat
from tilewright.golden.params.machine import Error
from tilewright.golden.params.vector import Operation
from tilewright.golden.weights import Weights


class Machine(BaseMachine):
    """The accelerator's memories; ``run`` executes a program on them."""

    INSTRUCTION: ClassVar = Instruction
    SETTINGS: ClassVar = Formats
    COUNTER: ClassVar = Counter
    COUNTED: ClassVar = (
        *(Counter.INSTRUCTIONS, Counter.MATRIX_BUSY, Counter.LINES_READ, Counter.LINES_WRITTEN),
        Counter.GROUPS_COMPRESSED,
    )

    def __init__(
        self, params: AndaParams, external: NDArray[np.uint8], bad_lines: Iterable[int] = ()
    ):
        super().__init__(params, external, bad_lines)
        words = word_dtype(params)
        shape = (params.activation_rows, params.rows)
        self.activations = np.zeros(shape, words)
        self.exponents = np.zeros(shape, np.uint8)
        columns = params.planes_per_beat * params.columns
        self.weights = np.zeros((params.weight_rows, columns), words)
        self.scales = np.zeros((params.scale_rows, params.columns), np.uint16)

    def _check(self, x: Instruction | None) -> Error:
        return check(self.params, self.settings, x)

    def _execute(self, x: Instruction) -> Error:
        match x.opcode:
            case Opcode.CONFIGURE:
                self.settings = Formats(x["source_mantissa"], x["result_mantissa"])
            case Opcode.LOAD:
                return self._load(x)
            case Opcode.STORE:
                return self._store(x)
            case Opcode.GEMM:
                self._gemm(x)
            case Opcode.VECTOR:
                self._vector(x)
            case Opcode.COMPRESS:
                self._compress(x)
        return Error.NONE

    def _moved(self, x: Instruction) -> NDArray:
        """The rows that a load or store names."""
        (extent,) = extents(self.params, self.settings, x)
        memory = {
            Memory.EXPONENTS: self.exponents,
            Memory.WEIGHTS: self.weights,
            Memory.SCALES: self.scales,
        }.get(Memory(x["memory"]), self.activations)
        return memory[extent.first : extent.end : extent.stride]

    def _put(self, x: Instruction, data: NDArray[np.uint8]) -> None:
        self._moved(x)[:] = from_bytes(self.params, Memory(x["memory"]), data, x["rows"])

    def _get(self, x: Instruction) -> NDArray[np.uint8]:
        return to_bytes(self.params, Memory(x["memory"]), self._moved(x))

    def _gemm(self, x: Instruction) -> None:
        p, source = self.params, self.settings.source
        groups, tiles = groups_of(p, x["inputs"]), -(-x["outputs"] // p.columns)
        inputs = groups * p.group
        taken = self.activations[x["source"] :][: groups * group_rows(source)]
        exponents = self.exponents[x["source"] :][: len(taken) : group_rows(source)] & np.uint8(
            0x1F
        )
        layout = anda.TensorLayout(
            fmt=block_format(p, source), rows=p.rows, length=inputs, lanes=p.rows
        )
        blocks = anda.load(layout, taken, exponents)
        rows = self.weights[x["weights"] :][: tiles * groups * p.mxu.weight_beats]
        scales = self.scales[x["scales"] :][: tiles * groups]
        weights = Weights(
            IntFormat(bits=p.weight_bits),
            self._weight_values(rows, tiles, groups),
            scales.reshape(tiles, groups, -1).transpose(0, 2, 1).reshape(-1, groups),
            p.group,
        )
        values = anda.gemm(p.mxu.numerics, source, blocks, weights)
        self._write_result(x["destination"], values, self.settings.result)
        self._count(Counter.MATRIX_BUSY, tiles * groups * group_rows(source))

    def _weight_values(self, rows: NDArray, tiles: int, groups: int) -> NDArray[np.int8]:
        """(outputs, inputs) integers of rows of the weight buffer."""
        p = self.params
        words = rows.reshape(tiles, groups, p.weight_bits, p.columns)
        octets = np.ascontiguousarray(words)[..., np.newaxis].view(np.uint8)
        bits = np.unpackbits(octets, axis=-1, bitorder="little")  # ..., columns, group
        values = -bits[:, :, 0].view(np.int8)  # the topmost plane is the sign
        for plane in range(1, p.weight_bits):
            values <<= 1
            values |= bits[:, :, plane].view(np.int8)
        return values.transpose(0, 2, 1, 3).reshape(tiles * p.columns, -1)

    def _write_result(self, row: int, values: NDArray, mantissa: int) -> None:
        """fp16 patterns (banks, elements) as fp16, or in Anda format with ``mantissa`` bits."""
        if not mantissa:
            self._write_tensor(row, values)
            return
        planes = anda_rows(self.params, mantissa, values)
        end = row + len(planes.rows)
        self.activations[row:end] = planes.rows
        self.exponents[row : end : group_rows(mantissa)] = planes.exponents
        self.outcome.saturated |= bool(((values & 0x7FFF) > FP16.max_finite_bits).any())
        self._count(Counter.GROUPS_COMPRESSED, planes.exponents.size)

    def _write_tensor(self, row: int, values: NDArray[np.uint16]) -> None:
        rows = fp16_rows(self.params, values)
        self.activations[row : row + len(rows)] = rows

    def _tensor(self, row: int, elements: int) -> NDArray[np.uint16]:
        p = self.params
        groups = groups_of(p, elements)
        rows = self.activations[row : row + groups * group_rows(0)]
        values = fp16_values(p, rows, groups * p.group).copy()
        values[:, elements:] = 0
        return values

    def _vector(self, x: Instruction) -> None:
        if Operation(x["operation"]).attends:
            self._attend(x)
        else:
            super()._vector(x)

    def _attend(self, x: Instruction) -> None:
        """Several sums of a and b; docs/anda-system.md has their rows."""
        beats, results = attention_beats(self.params, x), x["results"]
        terms = x["pitch"] * np.arange(results)[:, np.newaxis]
        if x["operation"] == Operation.WEIGH:
            a = self._words(x["a"] + terms + x["step"] * np.arange(beats))
            b = self._words(x["b"] + np.arange(-(-beats // self.params.vector.row_lanes)))
            found = weighed(a, b.swapaxes(0, 1).reshape(self.params.rows, -1)[:, :beats])
        else:
            a = self._words(x["a"] + terms + np.arange(beats))
            b = self._words(x["b"] + x["step"] * np.arange(beats))
            found = dots(a, b, x["elements"], x["scale"])
        row = x["destination"]
        self.activations[row : row + len(found)] = found.view(self.activations.dtype)[..., 0]

    def _words(self, rows: NDArray) -> NDArray[np.uint16]:
        """fp16 patterns (..., banks, row_lanes) of rows of the activation buffer."""
        return self.activations[rows][..., np.newaxis].view("<u2")

    def _compress(self, x: Instruction) -> None:
        values = self._tensor(x["source"], x["elements"])
        self._write_result(x["destination"], values, self.settings.result)
