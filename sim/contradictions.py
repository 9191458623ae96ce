"""Figures of the papers that do not follow from other figures of the same paper.

The entries stand in ``contradictions.toml``: a figure as it is printed, and arithmetic on what is
printed elsewhere. Nothing of this project enters: the paper alone is enough to check each of them.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.golden.params.block import require
from tilewright.golden.params.names import unknown
from tilewright.sim.claims import papers
from tilewright.sim.evaluations.expression import value_of

__all__ = ["Contradiction", "contradictions"]

FILE = Path(__file__).with_name("contradictions.toml")


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """A printed figure, and what other printed figures give for it."""

    paper: str
    subject: str
    where: str  # the figure's place in the paper
    printed: str  # with all its digits
    unit: str
    source: str  # what the arithmetic takes, and where it is printed
    arithmetic: str
    taken: str  # which of the two this project uses

    def __post_init__(self) -> None:
        require(self.paper in papers(), unknown("paper", self.paper, papers()))
        require(
            self.is_beyond_rounding,
            f"{self.subject}: {self.computed:g} prints as {self.printed}: no contradiction",
        )

    @property
    def computed(self) -> float:
        """What the arithmetic gives."""
        return float(value_of(self.arithmetic))

    @property
    def rounding(self) -> float:
        """Half a unit of the last digit that is printed."""
        exponent = Decimal(self.printed).as_tuple().exponent
        assert isinstance(exponent, int)
        return 0.5 * 10.0**exponent

    @property
    def is_beyond_rounding(self) -> bool:
        """Whether the two differ by more than the digits that were left out."""
        return abs(self.computed - float(self.printed)) > self.rounding * (1 + 1e-9)

    @property
    def deviation(self) -> float | None:
        """Of the computed figure from the printed one, as a share; none where that is 0."""
        printed = float(self.printed)
        return self.computed / printed - 1 if printed else None

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            **{"paper": self.paper, "subject": self.subject, "where": self.where},
            **{"printed": float(self.printed), "computed": self.computed, "unit": self.unit},
            **{"from": self.source, "arithmetic": self.arithmetic, "taken": self.taken},
        }


@cache
def _all() -> tuple[Contradiction, ...]:
    entries = tomllib.loads(FILE.read_text(encoding="utf-8"))["contradiction"]
    return tuple(Contradiction(source=entry.pop("from"), **entry) for entry in entries)


def contradictions(wanted: Iterable[str] | None = None) -> list[Contradiction]:
    """Those of some papers, or of all, in the order of the file."""
    names = list(wanted or papers())
    for name in names:
        if name not in papers():
            raise ValueError(unknown("paper", name, papers()))
    return [one for one in _all() if one.paper in names]
