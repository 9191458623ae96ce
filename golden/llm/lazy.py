"""Layers that are made when they are asked for, so that one is in memory at a time."""

from collections.abc import Callable, Sequence
from typing import overload

from tilewright.golden.llm.model import Layer

__all__ = ["LazyLayers"]


class LazyLayers(Sequence[Layer]):
    """``count`` layers, each made by ``make(number)`` whenever it is asked for; none is kept."""

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
