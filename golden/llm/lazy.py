"""Layers and rows that are made when they are asked for, so that few are in memory at a time."""

from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.llm.model import Layer


class LazyLayers(Sequence[Layer]):
    """``count`` layers, each made by ``make(number)`` on every access and not cached."""

    def __init__(self, count: int, make: Callable[[int], Layer]):
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, number: int) -> Layer: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Layer]: ...
    def __getitem__(self, number: int | slice) -> Layer | Sequence[Layer]:
        if isinstance(number, slice):
            return [self._make(k) for k in range(self._count)[number]]
        return self._make(range(self._count)[number])


class LazyRows:
    """A matrix whose rows are read on every access and not cached.

    A slice reads its rows; everything else that numpy does with a matrix reads all of them.
    """

    dtype = np.dtype(np.float32)
    ndim = 2

    def __init__(self, shape: tuple[int, int], read: Callable[[slice], NDArray[np.float32]]):
        self.shape, self._read = shape, read

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> NDArray[np.float32]:
        if isinstance(index, slice) and index.step in (None, 1):
            return self._read(index)
        values: NDArray[np.float32] = np.asarray(self)[index]
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return self._read(slice(None)).astype(dtype or self.dtype, copy=False)

    @property
    def T(self) -> NDArray[np.float32]:  # noqa: N802  (numpy's name)
        return np.asarray(self).T
