"""Packed weights ready to multiply: ``Matrix``."""

from collections.abc import Callable, Sequence
from ctypes import addressof, pointer
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.block import require
from tilewright.golden.params.sparamx import (
    SEGMENT_TILES,
    STRIP_OUTPUTS,
    ElementType,
    Order,
    WeightFormat,
)
from tilewright.golden.sparamx import PackedWeights, unpack
from tilewright.golden.sparamx.linear import check_activations
from tilewright.golden.sparamx.packed import DTYPES, balance, check_weights, segment_starts
from tilewright.kernels.library import (
    CCall,
    CCodedWeights,
    CDecaWeights,
    CProduct,
    CWeights,
    Path,
    address,
    as_weight_bytes,
    checked_path,
    checked_threads,
    library,
    weight_bytes,
)

TILE_INPUTS = 512  # below this a strip ends before its tiles have paid for their set-up
VECTOR_BATCH = 2  # up to here multiplying in registers is faster than filling tiles


class Prepared(NamedTuple):
    """One multiplication, and the arrays that its description points at."""

    product: CProduct
    x: NDArray
    y: NDArray


class Multiplier:
    """Base of all matrices: GEMMs and how threads divide them."""

    shape: tuple[int, int]
    format = WeightFormat(sparse=False)  # decides the type of activations
    costs: NDArray[np.int64]  # (strips + 1,) bytes before each strip

    def __init__(self, **weights: CWeights | CDecaWeights | CCodedWeights):
        # Shared by all products with this matrix.
        self.product = CProduct(**{name: pointer(value) for name, value in weights.items()})
        self._bounds: dict[int, tuple[NDArray[np.int64], int]] = {}

    result_dtype: np.dtype = np.dtype(np.uint32)  # fp32 patterns; int32 of int8 weights
    _result_dtypes: tuple[np.dtype, ...] = tuple(map(np.dtype, ("uint32", "float32", "uint16")))

    @property
    def size(self) -> int:
        """Bytes that a multiplication reads of it."""
        raise NotImplementedError

    def default_order(self, batch: int, path: Path) -> Order:
        """The default order of ``multiply``: tiles for large batches, where there is AMX.

        The order decides a bf16 result's last bits, so it never depends on the threads.
        """
        deep = self.shape[1] >= TILE_INPUTS
        return Order.TILE if batch > VECTOR_BATCH and deep and path is Path.AMX else Order.VECTOR

    def bounds_address(self, threads: int) -> int:
        """First strip of each thread; cached, since layers are called again and again."""
        found = self._bounds.get(threads)
        if found is None:
            bounds = balance(self.costs, threads)
            found = self._bounds[threads] = bounds, address(bounds)
        return found[1]

    def multiply(
        self,
        x: NDArray,
        *,
        threads: int | None = None,
        path: Path | None = None,
        order: Order | None = None,
        out: NDArray | None = None,
    ) -> NDArray:
        """(batch, inputs) @ weights: (batch, outputs) fp32 patterns, or int32 of int8 weights.

        ``out`` receives the result where given; as uint16 it receives bf16 patterns, rounded to
        nearest even.
        """
        if out is None:
            out = np.empty((len(x), self.shape[0]), self.result_dtype)
        self.bind(x, out, threads=threads, path=path, order=order)()
        return out

    def bind(
        self,
        x: NDArray,
        out: NDArray,
        *,
        threads: int | None = None,
        path: Path | None = None,
        order: Order | None = None,
    ) -> Callable[[], None]:
        """A call that multiplies ``x`` into ``out`` with whatever they hold then.

        Operands are checked once, here; a loop over tokens with buffers of its own needs no more.
        """
        path, threads = checked_path(path), checked_threads(threads)
        prepared = self.prepare(x, out)
        order = order or self.default_order(len(out), path)
        bounds = self.bounds_address(threads)
        call = CCall(addressof(prepared.product), 1, bounds, threads, path, ORDERS[order])
        bound = partial(library().tw_multiply, addressof(call))
        bound.alive = call, prepared, self  # type: ignore[attr-defined]
        return bound

    def prepare(self, x: NDArray, out: NDArray | None = None) -> Prepared:
        """Check the operands of one multiplication and describe it to the kernel.

        Every call has a description of its own: threads may multiply with one matrix at once.
        """
        check_activations(self.format, self.shape, x)
        if x.strides[1] != x.itemsize or x.strides[0] < 0:
            x = np.ascontiguousarray(x)
        y = self._output(len(x), out)
        product = CProduct.from_buffer_copy(self.product)
        product.x, product.batch, product.x_pitch = address(x), len(x), x.strides[0]
        product.y, product.y_pitch = address(y), y.strides[0] // y.itemsize
        product.y_bf16 = y.itemsize == 2
        return Prepared(product, x, y)

    def _output(self, batch: int, out: NDArray | None) -> NDArray:
        # No message is built unless it is needed: this runs for every layer of every token.
        shape = (batch, self.shape[0])
        if out is None:
            return np.empty(shape, self.result_dtype)
        if out.shape != shape or out.dtype not in self._result_dtypes:
            raise ValueError(
                f"out is {out.dtype} of {out.shape}, not {self.result_dtype} of {shape}"
            )
        row, element = out.strides
        if element != out.itemsize or row < 0 or not out.flags.writeable:
            raise ValueError("out must be writable, its rows contiguous")
        return out


ORDERS = {Order.TILE: 0, Order.VECTOR: 1}


_ELEMENTS = {ElementType.BF16: 0, ElementType.INT8: 1}


class Matrix(Multiplier):
    """A packed (outputs, inputs) matrix in memory of its own."""

    def __init__(self, packed: PackedWeights):
        """Take any packed weights, checked and copied into aligned memory on large pages."""
        packed.check()
        metadata, values = as_weight_bytes(packed.metadata), as_weight_bytes(packed.values)
        self._set(packed.format, packed.shape, metadata, values)

    def _set(
        self, fmt: WeightFormat, shape: tuple[int, int], metadata: NDArray, values: NDArray
    ) -> None:
        strips, tiles = fmt.grid(shape)
        wanted = strips * tiles * fmt.metadata_bytes
        require(
            metadata.size == wanted,
            f"a bitmap of {metadata.size} bytes for a {fmt.element.value} layer of {shape}",
        )
        bitmap, threads = metadata.reshape(strips, tiles, fmt.metadata_bytes), checked_threads(None)
        segments = -(-tiles // SEGMENT_TILES)
        if fmt.sparse:
            starts = np.zeros(strips * segments + 1, np.int64)
            library().tw_count_segments(
                *(address(metadata), fmt.metadata_bytes, strips, tiles, SEGMENT_TILES),
                *(address(starts[1:]), threads),
            )
            np.cumsum(starts, out=starts)
        else:
            starts = segment_starts(fmt, bitmap)
        require(
            len(values) == starts[-1], f"{len(values)} values for a bitmap of {int(starts[-1])}"
        )
        self._segments, self._starts = starts, np.ascontiguousarray(starts[::segments])
        self._sums = None
        if fmt.element is ElementType.INT8:
            self._sums = np.empty(strips * STRIP_OUTPUTS, np.int32)
            library().tw_sum_weights(
                *(address(metadata) if fmt.sparse else None, address(values)),
                *(address(self._starts), strips, tiles, address(self._sums), threads),
            )
        self.packed = packed = PackedWeights(fmt, shape, bitmap, values, self._starts)
        self.format, self.shape, self.costs = fmt, shape, packed.costs
        weights = CWeights(
            element=_ELEMENTS[fmt.element],
            sparse=fmt.sparse,
            outputs=shape[0],
            inputs=shape[1],
            strips=strips,
            tiles=tiles,
            metadata=address(packed.metadata),
            values=address(packed.values),
            strip_starts=address(self._starts),
            segment_starts=address(starts),
            weight_sums=None if self._sums is None else address(self._sums),
        )
        super().__init__(weights=weights)
        if fmt.element is ElementType.INT8:
            self.result_dtype = np.dtype(np.int32)
            self._result_dtypes = (self.result_dtype,)

    @classmethod
    def pack(cls, fmt: WeightFormat, weights: NDArray, *, threads: int | None = None) -> Self:
        """Pack a matrix: bf16 patterns (uint16), float32 (rounded to bf16), or int8."""
        weights, threads = np.asarray(weights), checked_threads(threads)
        float32 = weights.dtype == np.float32 and fmt.element is ElementType.BF16
        if not float32:
            check_type(fmt, weights)
        require(weights.ndim == 2, f"a weight matrix has 2 dimensions, not shape {weights.shape}")
        require(weights.size > 0, f"a weight matrix of shape {weights.shape} has no weights")
        if weights.strides[1] != weights.itemsize or weights.strides[0] < 0:
            weights = np.ascontiguousarray(weights)
        strips, tiles = fmt.grid((weights.shape[0], weights.shape[1]))
        metadata = weight_bytes(strips * tiles * fmt.metadata_bytes)
        counts = np.empty(strips, np.int64)

        def run(starts: NDArray | None, values: NDArray | None) -> int:
            return library().tw_pack(
                *(_ELEMENTS[fmt.element], fmt.sparse, float32, address(weights)),
                *(weights.strides[0], *weights.shape, strips, tiles),
                *(address(metadata), address(counts)),
                None if starts is None else address(starts),
                None if values is None else address(values),
                threads,
            )

        bad = run(None, None)
        if bad >= 0:
            _refuse_not_finite(weights, bad)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        values = weight_bytes(int(starts[-1]) * fmt.element.bytes)
        run(starts, values)
        shape = (weights.shape[0], weights.shape[1])
        return cls.around(fmt, shape, metadata, values.view(DTYPES[fmt.element]))

    @classmethod
    def around(
        cls, fmt: WeightFormat, shape: tuple[int, int], metadata: NDArray[np.uint8], values: NDArray
    ) -> Self:
        """A matrix in the memory of these arrays, checked and not copied.

        ``library.SLACK`` readable bytes must follow the values.
        """
        matrix = cls.__new__(cls)
        matrix._set(fmt, shape, metadata, values)
        return matrix

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.packed,)  # pickles and deep copies are packed weights

    @property
    def c_weights(self) -> CWeights:
        """The weights as the library sees them; valid while this matrix is alive."""
        return self.product.weights.contents

    @property
    def size(self) -> int:
        return self.packed.size

    def unpack(self) -> NDArray:
        return unpack(self.packed)


def multiply_all(
    matrices: Sequence[Multiplier],
    activations: Sequence[NDArray],
    *,
    threads: int | None = None,
    path: Path | None = None,
    order: Order | None = None,
) -> list[NDArray]:
    """Compute independent GEMMs side by side, such as those of the heads of a layer.

    The strips of all matrices form one list, which the threads divide by bytes.
    """
    path, threads = checked_path(path), checked_threads(threads)
    require(len(matrices) > 0, "no matrices to multiply")
    prepared = [m.prepare(x) for m, x in zip(matrices, activations, strict=True)]
    products = (CProduct * len(matrices))(*(one.product for one in prepared))
    order = order or matrices[0].default_order(len(activations[0]), path)
    steps = np.concatenate([np.diff(m.costs) for m in matrices])
    bounds = balance(np.concatenate([[0], np.cumsum(steps)]), threads)
    call = CCall(
        *(addressof(products), len(matrices), address(bounds), threads, path, ORDERS[order])
    )
    library().tw_multiply(addressof(call))
    return [one.y for one in prepared]


def check_type(fmt: WeightFormat, weights: NDArray) -> None:
    dtype = DTYPES[fmt.element]
    kinds = f"{dtype} or float32" if fmt.element is ElementType.BF16 else str(dtype)
    require(
        weights.dtype == dtype, f"{fmt.element.value} weights are {kinds} here, not {weights.dtype}"
    )


def _refuse_not_finite(weights: NDArray, strip: int) -> None:
    """Name the first bad weight of a strip that the packer has found to have one."""
    top = strip * STRIP_OUTPUTS
    rows = weights[top : top + STRIP_OUTPUTS]
    if weights.dtype == np.float32:
        with np.errstate(invalid="ignore"):
            # Beyond the middle between the largest bf16 and what would follow it, it overflows.
            bad = np.argwhere(~(np.abs(rows) < np.float32(3.3961775292304957e38)))
        row, column = (int(k) for k in bad[0])
        value = rows[row, column]
        raise ValueError(f"weight {value} at row {top + row}, column {column} is no finite bf16")
    check_weights(WeightFormat(), weights)
