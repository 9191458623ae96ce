"""What wires make of the PEs in the comparison: their records of placement."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from tilewright.golden.params.resolve import resolve
from tilewright.synth.place.record import PLACED
from tilewright.synth.record import load_kind

__all__ = ["Placed", "placed_of"]


@dataclass(frozen=True)
class Placed:
    """One PE with its cells placed, an estimate before routing."""

    die_um2: float
    delay_ps: float  # after timing repair
    energy_x: float  # energy over that without placement, on the PE's usual data


def placed_of(spec: str, technology: str) -> Placed | None:
    """Return what the record of a placed PE says, None where it has none."""
    record = _records().get((resolve(spec).slug, technology))
    if record is None:
        return None
    value = {name: metric["value"] for name, metric in record["metrics"].items()}
    return Placed(value["die_area"], value["delay"], value["energy"] / value["energy_before"])


@cache
def _records() -> dict[tuple[str, str], dict[str, Any]]:
    """PEs, which have an energy, as the comparison has them: mapped for area."""
    return {
        (resolve(record["spec"]).slug, record["technology"]): record
        for record in load_kind(PLACED).values()
        if record["goal"] == "area" and "energy" in record["metrics"]
    }
