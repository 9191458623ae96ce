"""Results of the same kind in one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tilewright.base.table import Reported, Table


class _Measured(Protocol):
    """A result with figures, such as what ``synthesize``, ``llm`` or ``generate`` returns."""

    @property
    def title(self) -> str: ...

    @property
    def metrics(self) -> dict[str, float]: ...


def compare(*results: _Measured) -> Comparison:
    """Return two or more results of the same kind in one table, with ratios to the first.

    Examples
    --------
    >>> import tilewright as tw
    >>> steps = [tw.llm("llama-2-7b", name, batch=1) for name in ("spr-ddr", "spr-hbm")]
    >>> tw.compare(*steps).ratios("tokens/s")[0]
    1.0
    """
    if len(results) < 2:
        raise ValueError("compare takes two results or more")
    kinds = {type(result).__name__ for result in results}
    if len(kinds) > 1:
        raise ValueError(f"results must be of one kind, not {', '.join(sorted(kinds))}")
    return Comparison(results)


@dataclass(frozen=True)
class Comparison(Reported):
    """Results of the same kind, the first of which is the reference."""

    results: tuple[_Measured, ...]

    def ratios(self, figure: str) -> list[float]:
        """Return one figure of every result over that of the first."""
        values = [result.metrics[figure] for result in self.results]
        return [value / values[0] if values[0] else float("nan") for value in values]

    @property
    def report(self) -> Table:
        """A row for each result: every figure, and its ratio to the first row's."""
        names = [n for n in self.results[0].metrics if all(n in r.metrics for r in self.results)]
        ratios = {name: self.ratios(name) for name in names}
        rows = [
            [
                result.title,
                *(f"{result.metrics[name]:,.5g} ({ratios[name][k]:.2f}x)" for name in names),
            ]
            for k, result in enumerate(self.results)
        ]
        return Table(("", *(name.upper() for name in names)), rows)
