"""Which orders of blocks survive wires: A before B without them, and placed too?"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

__all__ = ["PlacedOrder", "orders_with_wires"]

QUANTITIES = {"delay": "delay_before", "energy": "energy_before"}  # placed -> before


@dataclass(frozen=True)
class PlacedOrder:
    """Two blocks of which the first has less of a quantity before placement."""

    quantity: str  # delay or energy
    technology: str
    less: str
    more: str
    ratio_before: float  # of less over more
    ratio_placed: float

    @property
    def survives(self) -> bool:
        return self.ratio_placed < 1


def orders_with_wires(records: Iterable[dict[str, Any]]) -> list[PlacedOrder]:
    """Return the order of every two PEs (records with energy) of one technology and goal."""
    pes = [record for record in records if "energy" in record["metrics"]]
    found = []
    for one, other in combinations(pes, 2):
        if any(one[key] != other[key] for key in ("technology", "goal")):
            continue
        for quantity, before in QUANTITIES.items():
            less, more = sorted((one, other), key=lambda r: r["metrics"][before]["value"])
            ratios = (
                less["metrics"][name]["value"] / more["metrics"][name]["value"]
                for name in (before, quantity)
            )
            found.append(
                PlacedOrder(quantity, one["technology"], less["spec"], more["spec"], *ratios)
            )
    return found
