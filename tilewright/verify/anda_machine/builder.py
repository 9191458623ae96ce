"""Programs from Python: places tensors in the memories and writes the instructions.

Norms, softmax and activation functions are short sequences of vector instructions, written down
here once. A *tensor* is one token tile in the activation buffer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.anda_machine.hazards import first_hazard
from tilewright.golden.anda_machine.isa import Instruction
from tilewright.golden.anda_machine.layout import (
    anda_rows,
    fp16_rows,
    fp16_values,
    from_bytes,
    to_bytes,
    weight_rows,
)
from tilewright.golden.bits import encode
from tilewright.golden.machine.extent import Hazard
from tilewright.golden.params.anda_machine import AndaParams, Memory, Opcode, group_rows
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import SCALARS, Kind
from tilewright.golden.params.vector import Operation
from tilewright.golden.weights import Weights
from tilewright.verify.machine.builder import BaseBuilder


@dataclass(frozen=True)
class Tensor:
    """``elements`` values of every token from ``row`` on: fp16, or Anda with ``mantissa`` bits."""

    row: int
    elements: int
    mantissa: int = 0


@dataclass(frozen=True)
class Scalar:
    """A scalar register: one fp16 value for every token."""

    number: int


@dataclass(frozen=True)
class PlacedWeights:
    """Weights in their buffer."""

    row: int
    scale_row: int
    inputs: int
    outputs: int


@dataclass(frozen=True)
class Output:
    """A stored tensor in external memory."""

    line: int
    tensor: Tensor


Operand = Tensor | Scalar | float


class Builder(BaseBuilder[Instruction]):
    """Collects a program and the external memory it starts with.

    Rows are handed out one after the other; ``release`` takes back everything from a row on.
    """

    INSTRUCTION, OPCODE = Instruction, Opcode
    params: AndaParams

    def __init__(self, params: AndaParams):
        super().__init__(params)
        self.outputs: list[Output] = []
        self._row = self._weight_row = self._scale_row = 0
        self._formats: tuple[int, int] | None = None

    # Memory.

    def mark(self) -> int:
        """The next row of the activation buffer."""
        return self._row

    def release(self, row: int) -> None:
        self._row = row

    def allocate(self, elements: int, mantissa: int = 0) -> Tensor:
        """Allocate room for a tensor."""
        tensor = Tensor(self._row, elements, mantissa)
        self._row += self.rows_of(tensor)
        if self._row > self.params.activation_rows:
            raise ValueError(f"the activation buffer ends before row {self._row}")
        return tensor

    def rows_of(self, tensor: Tensor) -> int:
        return self.groups_of(tensor) * group_rows(tensor.mantissa)

    def groups_of(self, tensor: Tensor) -> int:
        return -(-tensor.elements // self.params.group)

    # Instructions.

    def first_hazard(self, program: Sequence[Instruction]) -> Hazard | None:
        return first_hazard(self.params, program)

    def configure(self, source: int = 0, result: int = 0) -> None:
        """Formats of what follows, where they change."""
        if self._formats != (source, result):
            self.emit(Opcode.CONFIGURE, source_mantissa=source, result_mantissa=result)
            self._formats = source, result

    def _load(self, memory: Memory, rows: NDArray, row: int, stride: int = 1) -> None:
        line = self._place(to_bytes(self.params, memory, rows))
        self.emit(
            Opcode.LOAD, memory=int(memory), stride=stride, row=row, rows=len(rows), line=line
        )

    def load(self, values: ArrayLike, mantissa: int = 0) -> Tensor:
        """A tensor of fp16 patterns (tokens, elements), as fp16 or in Anda format."""
        values = np.asarray(values, np.uint16)
        tensor = self.allocate(values.shape[1], mantissa)
        if not mantissa:
            self._load(Memory.ACTIVATIONS, fp16_rows(self.params, values), tensor.row)
            return tensor
        planes = anda_rows(self.params, mantissa, values)
        self._load(Memory.ACTIVATIONS, planes.rows, tensor.row)
        self._load(Memory.EXPONENTS, planes.exponents, tensor.row, group_rows(mantissa))
        return tensor

    def broadcast(self, values: ArrayLike) -> Tensor:
        """A tensor whose tokens all have these fp16 patterns (elements), such as a norm's gain."""
        row = np.asarray(values, np.uint16)[np.newaxis]
        tensor = self.allocate(row.shape[1])
        self._load(Memory.BROADCAST, fp16_rows(self.params, row)[:, :1], tensor.row)
        return tensor

    def weights(self, weights: Weights) -> PlacedWeights:
        """Weights into their buffer, beside what follows; their gemm waits for them."""
        rows, scales = weight_rows(self.params, weights)
        placed = PlacedWeights(self._weight_row, self._scale_row, weights.inputs, weights.outputs)
        # Loads come one by one: the longer one last, to run beside what follows.
        self._load(Memory.SCALES, scales, placed.scale_row)
        self._load(Memory.WEIGHTS, rows, placed.row)
        self._weight_row += len(rows)
        self._scale_row += len(scales)
        if self._weight_row > self.params.weight_rows:
            raise ValueError(f"the weight buffer ends before row {self._weight_row}")
        return placed

    def release_weights(self) -> None:
        """Weights that follow may take the place of all before."""
        self._weight_row = self._scale_row = 0

    def gemm(self, x: Tensor, weights: PlacedWeights, result: int = 0) -> Tensor:
        """x times the weights' transpose, in fp16 or with ``result`` mantissa bits."""
        if x.elements != weights.inputs:
            raise ValueError(f"{x.elements} elements meet weights of {weights.inputs} inputs")
        y = self.allocate(weights.outputs, result)
        self.configure(x.mantissa, result)
        self.emit(
            Opcode.GEMM,
            source=x.row,
            weights=weights.row,
            scales=weights.scale_row,
            destination=y.row,
            inputs=weights.inputs,
            outputs=weights.outputs,
        )
        return y

    def compress(self, x: Tensor, mantissa: int) -> Tensor:
        """Compress a tensor to the Anda format."""
        y = self.allocate(x.elements, mantissa)
        self.configure(self._formats[0] if self._formats else 0, mantissa)
        self.emit(Opcode.COMPRESS, source=x.row, destination=y.row, elements=x.elements)
        return y

    def store(self, x: Tensor) -> Output:
        """Store a tensor in external memory."""
        p, rows = self.params, self.rows_of(x)
        output = Output(self._line, x)
        moves = [(Memory.ACTIVATIONS, rows, 1)]
        if x.mantissa:
            moves.append((Memory.EXPONENTS, self.groups_of(x), group_rows(x.mantissa)))
        for memory, count, stride in moves:
            line = self._place(np.zeros(p.lines(memory, count) * p.line_bytes, np.uint8))
            self.emit(
                Opcode.STORE,
                memory=int(memory),
                stride=stride,
                row=x.row,
                rows=count,
                line=line,
            )
        self.outputs.append(output)
        return output

    def read_output(self, memory: NDArray[np.uint8], output: Output) -> NDArray[np.uint16]:
        """fp16 patterns (rows of the array, elements) of a stored fp16 tensor."""
        tensor = output.tensor
        if tensor.mantissa:
            raise ValueError("only fp16 tensors are read back as values")
        data = memory[output.line * self.params.line_bytes :]
        rows = from_bytes(self.params, Memory.ACTIVATIONS, data, self.rows_of(tensor))
        return fp16_values(self.params, rows, tensor.elements)

    # Vector operations.

    def apply(
        self,
        operation: Operation,
        a: Operand,
        b: Operand = 0.0,
        *,
        into: Tensor | Scalar,
        scale: float = 1.0,
    ) -> None:
        """Emit one vector instruction."""
        tensors = [x for x in (a, b, into) if isinstance(x, Tensor)]
        (a_kind, a_field), (b_kind, b_field) = _encoded(a), _encoded(b)
        self.emit(
            Opcode.VECTOR,
            operation=int(operation),
            a_kind=a_kind,
            b_kind=b_kind,
            a=a_field,
            b=b_field,
            destination=into.row if isinstance(into, Tensor) else into.number,
            elements=tensors[0].elements if tensors else 0,
            scale=_half(scale),
            results=0,
            step=0,
            pitch=0,
        )

    def attend(
        self,
        operation: Operation,
        a: int,
        b: int,
        *,
        into: int,
        elements: int,
        results: int,
        step: int = 1,
        pitch: int = 1,
        scale: float = 1.0,
        **indices: int,
    ) -> None:
        """Emit DOTS or WEIGH on rows; ``indices`` are fields that name index registers."""
        self.emit(
            Opcode.VECTOR,
            operation=int(operation),
            a_kind=int(Kind.TENSOR),
            b_kind=int(Kind.TENSOR),
            a=a,
            b=b,
            destination=into,
            elements=elements,
            scale=_half(scale),
            results=results,
            step=step,
            pitch=pitch,
            **indices,
        )

    def softmax(self, x: Tensor) -> Tensor:
        """Compute the softmax of every token's elements."""
        y, s = self.allocate(x.elements), Scalar(SCALARS - 1)
        self.apply(Operation.LARGEST, x, into=s)
        self.apply(Operation.SUBTRACT, x, s, into=y)
        self.apply(Operation.EXPONENTIAL, y, into=y)
        self.apply(Operation.SUM, y, into=s)
        self.apply(Operation.RECIPROCAL, s, into=s)
        self.apply(Operation.MULTIPLY, y, s, into=y)
        return y

    def relu(self, x: Tensor) -> Tensor:
        y = self.allocate(x.elements)
        self.apply(Operation.MAXIMUM, x, 0.0, into=y)
        return y

    def layer_norm(self, x: Tensor, gain: Tensor, bias: Tensor, epsilon: float = 1e-5) -> Tensor:
        y, s = self.allocate(x.elements), Scalar(SCALARS - 1)
        self.apply(Operation.SUM, x, into=s, scale=1 / x.elements)
        self.apply(Operation.SUBTRACT, x, s, into=y)
        self.apply(Operation.DOT, y, y, into=s, scale=1 / x.elements)
        self._normalise(y, y, s, epsilon)
        self.apply(Operation.MULTIPLY, y, gain, into=y)
        self.apply(Operation.ADD, y, bias, into=y)
        return y

    def _normalise(self, x: Tensor, y: Tensor, variance: Scalar, epsilon: float) -> None:
        """y = x / sqrt(variance + epsilon)."""
        self.apply(Operation.ADD, variance, epsilon, into=variance)
        self.apply(Operation.RECIPROCAL_ROOT, variance, into=variance)
        self.apply(Operation.MULTIPLY, x, variance, into=y)


@lru_cache(maxsize=256)  # long programs repeat a few constants
def _half(value: float) -> int:
    """The fp16 pattern of a constant."""
    return int(encode(FP16, value))


def _encoded(operand: Operand) -> tuple[int, int]:
    """Kind and field of an operand."""
    if isinstance(operand, Tensor):
        if operand.mantissa:
            raise ValueError("the vector unit works on fp16 tensors, not on compressed ones")
        return int(Kind.TENSOR), operand.row
    if isinstance(operand, Scalar):
        return int(Kind.SCALAR), operand.number
    return int(Kind.IMMEDIATE), _half(operand)
