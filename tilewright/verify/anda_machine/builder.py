"""Programs from Python: places tensors in the memories and writes the instructions.

A *tensor* is one token tile in the activation buffer.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.compiler.lowering import Scalar, encoded, half
from tilewright.golden.anda_machine.layout import anda_rows, fp16_rows
from tilewright.golden.params.anda_machine import AndaParams, Memory, Opcode, group_rows
from tilewright.golden.params.vector import Operation
from tilewright.golden.weights import Weights
from tilewright.verify.machine.builder import BaseBuilder


class Tensor(NamedTuple):
    """``elements`` values of every token from ``row`` on: fp16, or Anda with ``mantissa`` bits."""

    row: int
    elements: int
    mantissa: int = 0


class PlacedWeights(NamedTuple):
    """Weights in their buffer."""

    row: int
    scale_row: int
    inputs: int
    outputs: int


class Output(NamedTuple):
    """A stored tensor in external memory."""

    line: int
    tensor: Tensor


Operand = Tensor | Scalar | float


class Builder(BaseBuilder):
    """Collects a program and the external memory it starts with.

    Rows are handed out one after the other; ``release`` takes back everything from a row on. What
    lies beyond the end of a memory stops the program, on golden as on the hardware.
    """

    def __init__(self, params: AndaParams):
        super().__init__(params)
        self.row = 0  # the next one of the activation buffer
        self._weight_row = self._scale_row = 0
        self._formats: tuple[int, int] | None = None

    # Memory.

    def release(self, row: int) -> None:
        self.row = row

    def allocate(self, elements: int, mantissa: int = 0) -> Tensor:
        """Allocate room for a tensor, from a beat on."""
        size = self.params.beat_words
        tensor = Tensor(-(-self.row // size) * size, elements, mantissa)
        self.row = tensor.row + self.rows_of(tensor)
        return tensor

    def rows_of(self, tensor: Tensor) -> int:
        return self.groups_of(tensor) * group_rows(tensor.mantissa)

    def groups_of(self, tensor: Tensor) -> int:
        return -(-tensor.elements // self.params.group)

    # Instructions.

    def configure(self, source: int = 0, result: int = 0) -> None:
        """Formats of what follows, where they change."""
        if self._formats != (source, result):
            self.emit(Opcode.CONFIGURE, source_mantissa=source, result_mantissa=result)
            self._formats = source, result

    def _load(self, memory: Memory, rows: NDArray, row: int, stride: int = 1) -> None:
        fields = {"stride": stride, "row": row, "rows": len(rows)}
        self.emit(Opcode.LOAD, memory=int(memory), line=self.place(memory, rows), **fields)

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
        """Load weights concurrently with what follows; their gemm waits for them."""
        rows, scales = self.machine.weight_rows(weights)
        placed = PlacedWeights(self._weight_row, self._scale_row, weights.inputs, weights.outputs)
        # Loads run one by one: the longer one last, concurrently with what follows.
        self._load(Memory.SCALES, scales, placed.scale_row)
        self._load(Memory.WEIGHTS, rows, placed.row)
        self._weight_row += len(rows)
        self._scale_row += len(scales)
        return placed

    def release_weights(self) -> None:
        """Weights that follow may take the place of all before."""
        self._weight_row = self._scale_row = 0

    def gemm(
        self,
        x: Tensor,
        weights: PlacedWeights,
        result: int = 0,
        *,
        opcode: Opcode = Opcode.GEMM,
        **fields: int,
    ) -> Tensor:
        """x times the weights' transpose, in fp16 or with ``result`` mantissa bits."""
        y = self.allocate(weights.outputs, result)
        self.configure(x.mantissa, result)
        places = {"source": x.row, "weights": weights.row, "scales": weights.scale_row}
        sizes = {"inputs": weights.inputs, "outputs": weights.outputs}
        self.emit(opcode, destination=y.row, **places, **sizes, **fields)
        return y

    def compress(self, x: Tensor, mantissa: int) -> Tensor:
        """Compress a tensor to the Anda format."""
        y = self.allocate(x.elements, mantissa)
        self.configure(self._formats[0] if self._formats else 0, mantissa)
        self.emit(Opcode.COMPRESS, source=x.row, destination=y.row, elements=x.elements)
        return y

    def store(self, x: Tensor) -> Output:
        """Store a tensor in external memory."""
        first = self.line
        moves = [(Memory.ACTIVATIONS, self.rows_of(x), 1)]
        if x.mantissa:
            moves.append((Memory.EXPONENTS, self.groups_of(x), group_rows(x.mantissa)))
        for memory, rows, stride in moves:
            line = self.reserve(self.params.lines(memory, rows))
            fields = {"stride": stride, "row": x.row, "rows": rows, "line": line}
            self.emit(Opcode.STORE, memory=int(memory), **fields)
        return Output(first, x)

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
        (a_kind, a_field), (b_kind, b_field) = encoded(a), encoded(b)
        kinds = {"a_kind": a_kind, "b_kind": b_kind, "scale": half(scale)}
        elements = tensors[0].elements if tensors else 0
        places = {"a": a_field, "b": b_field, "destination": into[0], "elements": elements}
        self.emit(Opcode.VECTOR, operation=operation, **places, **kinds)
