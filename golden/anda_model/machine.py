"""The golden accelerator for whole models: bit for bit the executor, but faster.

Weights are unpacked once, whenever lines that hold them are first multiplied. Banks that hold the
same activations are multiplied once. Vector operations are numpy's.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden import anda
from tilewright.golden.anda_machine.executor import Machine
from tilewright.golden.anda_machine.isa import Instruction, groups_of
from tilewright.golden.anda_machine.layout import block_format
from tilewright.golden.anda_model.lines import Lines
from tilewright.golden.anda_model.plan import Plan
from tilewright.golden.harmonia_model.fast_vector import (
    FUNCTIONS,
    arithmetic,
    largest,
    masked,
    reduced,
    table,
)
from tilewright.golden.machine.instruction import works_on_scalars
from tilewright.golden.params.anda_machine import FP16_ROWS, Counter, Memory, group_rows
from tilewright.golden.params.formats import FP16, FP32
from tilewright.golden.params.machine import Error, Kind
from tilewright.golden.params.vector import Operation

__all__ = ["ModelMachine"]

_ARITHMETIC = (Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY)


class _Source(NamedTuple):
    """Where the weights of a load came from."""

    row: int
    line: int
    rows: int


class _Unpacked(NamedTuple):
    """A part's weights (groups, group, outputs) and scales (groups, outputs)."""

    factors: NDArray[np.float32]
    scales: NDArray[np.float32]


class ModelMachine(Machine):
    """One accelerator with a model's image; lines before ``lines.state`` do not change."""

    def __init__(self, plan: Plan, lines: Lines, external: NDArray[np.uint8]):
        super().__init__(plan.params, external)
        self._constant = lines.state
        self._sources: dict[int, _Source] = {}  # by the first row of the weight buffer
        self._weights: dict[tuple[int, int, int], _Unpacked] = {}

    def settle(self) -> None:
        """All memories are as the executor leaves them: nothing is put off here."""

    def _load(self, x: Instruction) -> Error:
        error = super()._load(x)
        if x["memory"] == Memory.WEIGHTS:
            row, rows = x["row"], x["rows"]
            for first in [
                s.row for s in self._sources.values() if s.row < row + rows and row < s.row + s.rows
            ]:
                del self._sources[first]
            if (
                error is Error.NONE
                and x["line"] + self.params.lines(Memory.WEIGHTS, rows) <= self._constant
            ):
                self._sources[row] = _Source(row, x["line"], rows)
        return error

    def _gemm(self, x: Instruction) -> None:
        p, source = self.params, self.settings.source
        groups, tiles = groups_of(p, x["inputs"]), -(-x["outputs"] // p.columns)
        taken = self.activations[x["source"] :][: groups * group_rows(source)]
        exponents = self.exponents[x["source"] :][: len(taken) : group_rows(source)] & np.uint8(
            0x1F
        )
        same = bool((taken == taken[:, :1]).all() and (exponents == exponents[:, :1]).all())
        # Sums of a group are exact in float32 up to this length.
        if not same or p.group << (source + p.weight_bits - 1) > 1 << FP32.significand_bits:
            super()._gemm(x)
            return
        layout = anda.TensorLayout(
            fmt=block_format(p, source), rows=p.rows, length=groups * p.group, lanes=p.rows
        )
        blocks = anda.load(layout, taken, exponents)
        step = blocks.exponent[0].astype(np.int32) - FP16.bias - (source - 1)
        values = np.ldexp(blocks.mantissa[0].astype(np.float32), step[:, np.newaxis])
        values = np.where(blocks.sign[0], -values, values)
        factors, scales = self._unpacked(x, tiles, groups)
        sums = np.matmul(values[:, np.newaxis], factors)[:, 0]
        with np.errstate(all="ignore"):
            terms = sums.astype(np.float16).astype(np.float32) * scales
            total = np.zeros(terms.shape[1], np.float32)
            for term in terms:
                total += term
            result = masked(total)
        self._write_result(
            x["destination"], np.broadcast_to(result, (p.rows, len(result))), self.settings.result
        )
        self._count(Counter.MATRIX_BUSY, tiles * groups * group_rows(source))

    def _unpacked(self, x: Instruction, tiles: int, groups: int) -> _Unpacked:
        p = self.params
        source = self._sources.get(x["weights"])
        rows = tiles * groups * p.mxu.weight_beats
        key = (source.line, rows, groups) if source and rows <= source.rows else None
        found = self._weights.get(key) if key else None
        if found is None:
            values = self._weight_values(self.weights[x["weights"] :][:rows], tiles, groups)
            scales = self.scales[x["scales"] :][: tiles * groups].reshape(tiles, groups, -1)
            found = _Unpacked(
                np.ascontiguousarray(values.T, np.float32).reshape(groups, p.group, -1),
                scales.swapaxes(0, 1).reshape(groups, -1).view(np.float16).astype(np.float32),
            )
            if key:
                self._weights[key] = found
        return found

    # Vector operations, on rows as the buffer has them: (words, banks, values of a word).

    def _vector(self, x: Instruction) -> None:
        operation = Operation(x["operation"])
        scalars = works_on_scalars(x)
        known = operation in (*_ARITHMETIC, *FUNCTIONS) or (
            operation in (Operation.SUM, Operation.DOT, Operation.LARGEST)
        )
        if scalars and known and x["a_kind"] == Kind.SCALAR and not operation.reduces:
            self._scalar(x, operation)
            return
        if not known or scalars or x["a_kind"] != Kind.TENSOR:
            super()._vector(x)
            return
        elements = x["elements"]
        a = self._part(x["a"], elements)
        b = self._second(x, elements) if operation.takes_b else a
        if operation is Operation.LARGEST:
            self.scalars[x["destination"]] = largest(a, elements)
        elif operation.reduces:
            second = None if operation is Operation.SUM else np.broadcast_to(b, a.shape)
            self.scalars[x["destination"]] = reduced(a, second, elements, x["scale"])
        else:
            with np.errstate(all="ignore"):
                result = (
                    table(operation)[a] if operation in FUNCTIONS else arithmetic(operation, a, b)
                )
            tail = elements % self.params.vector.row_lanes
            if tail:
                result[-1, :, tail:] = 0
            rows = groups_of(self.params, elements) * FP16_ROWS
            written = self.activations[x["destination"] :][:rows]
            written[len(result) :] = 0
            written[: len(result)] = np.ascontiguousarray(result).view(written.dtype)[..., 0]

    def _scalar(self, x: Instruction, operation: Operation) -> None:
        a = self.scalars[x["a"]]
        with np.errstate(all="ignore"):
            if operation in FUNCTIONS:
                result = table(operation)[a]
            else:
                immediate = x["b_kind"] == Kind.IMMEDIATE
                b = np.full(1, x["b"], np.uint16) if immediate else self.scalars[x["b"]]
                result = arithmetic(operation, a, b)
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
