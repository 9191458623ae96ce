"""Programs on the golden accelerator: what they leave in external memory, bit by bit.

Instructions take effect one after the other, also loads that the hardware runs in the background:
a program must ``wait`` before it uses what such a load brings. Ranges that one instruction reads
and writes must not overlap, except a vector operation's that are the same. Whether a program keeps
to that, :mod:`golden.anda_system.hazards` says.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from golden import anda
from golden.anda.weights import Weights
from golden.anda_system.isa import (
    Formats,
    Instruction,
    decode,
    extents,
    groups_of,
    judge,
    works_on_scalars,
)
from golden.anda_system.layout import (
    anda_rows,
    block_format,
    fp16_rows,
    fp16_values,
    from_bytes,
    lines_of,
    to_bytes,
    word_dtype,
)
from golden.anda_system.vector import elementwise, reduce_tensor
from golden.params.anda_system import AndaParams, Counter, Memory, Opcode, group_rows
from golden.params.anda_vector import Operation
from golden.params.formats import FP16, IntFormat
from golden.params.program import SCALARS, Error, Kind


@dataclass
class Outcome:
    """How a program ended."""

    error: Error
    instruction: int  # the one that stopped it
    saturated: bool
    counts: dict[Counter, int]  # what does not depend on timing
    trace: list[tuple[Instruction, Formats]] = field(default_factory=list)  # finished instructions


class Machine:
    """The accelerator's memories; ``run`` executes a program on them.

    ``external`` is changed in place; its lines are numbered from 0. Lines beyond its end answer
    with a bus error, and so does every line of ``bad_lines``.
    """

    def __init__(
        self,
        params: AndaParams,
        external: NDArray[np.uint8],
        bad_lines: Iterable[int] = (),
    ):
        if external.dtype != np.uint8 or len(external) % params.line_bytes:
            raise ValueError(f"external memory is whole lines of {params.line_bytes} bytes")
        self.params = params
        self.external = external.reshape(-1, params.line_bytes)
        self.bad_lines = frozenset(bad_lines)
        words = word_dtype(params)
        shape = (params.activation_rows, params.rows)
        self.activations = np.zeros(shape, words)
        self.exponents = np.zeros(shape, np.uint8)
        columns = params.planes_per_beat * params.columns
        self.weights = np.zeros((params.weight_rows, columns), words)
        self.scales = np.zeros((params.scale_rows, params.columns), np.uint16)
        self.scalars = np.zeros((SCALARS, params.rows), np.uint16)

    def run(self, program: Iterable[Instruction | int]) -> Outcome:
        """Execute from instruction 0 to a halt or an error."""
        p = self.params
        words = [x.encode() if isinstance(x, Instruction) else x for x in program]
        if len(words) > p.instructions:
            raise ValueError(f"{len(words)} instructions do not fit {p.instructions}")
        words += [0] * (p.instructions - len(words))
        self._formats, self._saturated = Formats(), False
        counts = dict.fromkeys(
            (
                Counter.INSTRUCTIONS,
                Counter.MATRIX_BUSY,
                Counter.LINES_READ,
                Counter.LINES_WRITTEN,
                Counter.GROUPS_COMPRESSED,
            ),
            0,
        )
        self._counts = counts
        outcome = Outcome(Error.END, p.instructions, False, counts)
        for number, word in enumerate(words):
            x = decode(word)
            error = judge(p, self._formats, x)
            if error is Error.NONE and x is not None:
                error = self._execute(x)
            if error is not Error.NONE or x is None:
                outcome.error, outcome.instruction = error, number
                break
            counts[Counter.INSTRUCTIONS] += 1
            outcome.trace.append((x, self._formats))
            if x.opcode is Opcode.HALT:
                outcome.error, outcome.instruction = Error.NONE, number
                break
        outcome.saturated = self._saturated
        return outcome

    def _execute(self, x: Instruction) -> Error:
        match x.opcode:
            case Opcode.CONFIGURE:
                self._formats = Formats(x["source_mantissa"], x["result_mantissa"])
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

    def _memory(self, memory: Memory) -> NDArray:
        return {
            Memory.EXPONENTS: self.exponents,
            Memory.WEIGHTS: self.weights,
            Memory.SCALES: self.scales,
        }.get(memory, self.activations)

    def _lines(self, x: Instruction) -> tuple[slice, Error]:
        count = lines_of(self.params, Memory(x["memory"]), x["rows"])
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
        (extent,) = extents(self.params, self._formats, x)
        data = self.external[lines].reshape(-1)
        rows = from_bytes(self.params, memory, data, x["rows"])
        self._memory(memory)[extent.first : extent.end : extent.stride] = rows
        self._counts[Counter.LINES_READ] += lines.stop - lines.start
        return Error.NONE

    def _store(self, x: Instruction) -> Error:
        memory = Memory(x["memory"])
        lines, error = self._lines(x)
        if error is not Error.NONE:
            return error
        (extent,) = extents(self.params, self._formats, x)
        rows = self._memory(memory)[extent.first : extent.end : extent.stride]
        data = to_bytes(self.params, memory, rows)
        self.external[lines] = data.reshape(-1, self.params.line_bytes)
        self._counts[Counter.LINES_WRITTEN] += lines.stop - lines.start
        return Error.NONE

    def _gemm(self, x: Instruction) -> None:
        p, source = self.params, self._formats.source
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
        self._write_result(x["destination"], values, self._formats.result)
        self._counts[Counter.MATRIX_BUSY] += tiles * groups * group_rows(source)

    def _weight_values(self, rows: NDArray, tiles: int, groups: int) -> NDArray[np.int8]:
        """(outputs, inputs) integers of rows of the weight buffer."""
        p = self.params
        words = rows.reshape(tiles, groups, p.weight_bits, p.columns)
        octets = np.ascontiguousarray(words)[..., np.newaxis].view(np.uint8)
        bits = np.unpackbits(octets, axis=-1, bitorder="little")  # ..., columns, group
        places = -(1 << np.arange(p.weight_bits - 1, -1, -1, dtype=np.int16))
        places[1:] *= -1  # the topmost plane is the sign
        values = np.tensordot(bits, places, axes=([2], [0]))  # tiles, groups, columns, group
        return values.transpose(0, 2, 1, 3).reshape(tiles * p.columns, -1).astype(np.int8)

    def _write_result(self, row: int, values: NDArray, mantissa: int) -> None:
        """fp16 patterns (banks, elements) as fp16, or in Anda format with ``mantissa`` bits."""
        p = self.params
        if not mantissa:
            rows = fp16_rows(p, values)
            self.activations[row : row + len(rows)] = rows
            return
        planes = anda_rows(p, mantissa, values)
        end = row + len(planes.rows)
        self.activations[row:end] = planes.rows
        self.exponents[row : end : group_rows(mantissa)] = planes.exponents
        self._saturated |= bool(((values & 0x7FFF) > FP16.max_finite_bits).any())
        self._counts[Counter.GROUPS_COMPRESSED] += planes.exponents.size

    def _tensor(self, row: int, elements: int) -> NDArray[np.uint16]:
        """fp16 patterns (banks, whole groups) from ``row`` on, 0 beyond ``elements``."""
        p = self.params
        groups = groups_of(p, elements)
        rows = self.activations[row : row + groups * group_rows(0)]
        values = fp16_values(p, rows, groups * p.group).copy()
        values[:, elements:] = 0
        return values

    def _compress(self, x: Instruction) -> None:
        values = self._tensor(x["source"], x["elements"])
        self._write_result(x["destination"], values, self._formats.result)

    def _vector(self, x: Instruction) -> None:
        p, operation = self.params, Operation(x["operation"])
        scalars = works_on_scalars(x)
        elements = 1 if scalars else x["elements"]
        a = self._operand(x["a_kind"], x["a"], elements)
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
            self._write_result(x["destination"], values[:, :elements], 0)

    def _operand(self, kind: int, value: int, elements: int) -> NDArray[np.uint16]:
        """(banks, whole groups)."""
        shape = (self.params.rows, groups_of(self.params, elements) * self.params.group)
        if kind == Kind.TENSOR:
            return self._tensor(value, elements)
        if kind == Kind.SCALAR:
            return np.broadcast_to(self.scalars[value][:, np.newaxis], shape)
        return np.full(shape, value, np.uint16)
