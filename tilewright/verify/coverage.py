"""Functional coverage: how often each combination of some properties has been seen."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, Self


class Coverage:
    """Hits of every combination (bin) of the values of some axes."""

    def __init__(self, axes: Mapping[str, Sequence[str]], hits: Sequence[int] | None = None):
        self.axes = {name: tuple(values) for name, values in axes.items()}
        self.hits = list(hits or [0] * prod(map(len, self.axes.values())))
        self._index = {
            name: {value: k for k, value in enumerate(values)} for name, values in self.axes.items()
        }

    def hit(self, **values: str) -> None:
        """Count one occurrence; ``values`` name a value of every axis."""
        self.hits[self._number(values)] += 1

    def __getitem__(self, values: Mapping[str, str]) -> int:
        """Hits of one bin."""
        return self.hits[self._number(values)]

    def _number(self, values: Mapping[str, str]) -> int:
        if values.keys() != self.axes.keys():
            raise ValueError(f"a bin has {', '.join(self.axes)}, not {', '.join(values)}")
        number = 0
        for name, index in self._index.items():
            if values[name] not in index:
                raise ValueError(f"{name} {values[name]!r} is none of {', '.join(index)}")
            number = number * len(index) + index[values[name]]
        return number

    def bins(self) -> Iterator[dict[str, str]]:
        """Every bin, the last axis fastest, as the hits are ordered."""
        for values in product(*self.axes.values()):
            yield dict(zip(self.axes, values, strict=True))

    @property
    def holes(self) -> list[dict[str, str]]:
        """The bins that have never been hit."""
        return [found for found, hits in zip(self.bins(), self.hits, strict=True) if not hits]

    @property
    def summary(self) -> str:
        covered = sum(hits > 0 for hits in self.hits)
        return f"{covered:,} of {len(self.hits):,} combinations of {', '.join(self.axes)}"

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON data from which :meth:`from_dict` makes the same."""
        return {"axes": {name: list(values) for name, values in self.axes.items()}} | {
            "hits": self.hits
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(data["axes"], data["hits"])
