"""Areas and energies of synthesised units, read from the committed records as data."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["NoRecordError", "area_um2", "energy_fj"]

RECORDS = Path(__file__).parents[1] / "synth" / "records"
TECHNOLOGY = "asap7"


class NoRecordError(LookupError):
    """A result needs a record that is not there."""


@cache
def _record(folder: Path, unit: str, kind: str, goal: str = "") -> dict[str, Any]:
    path = folder / f"{unit}.{TECHNOLOGY}{goal and f'.{goal}'}.json"
    if not path.exists():
        raise NoRecordError(f"no {kind} record of {unit} in {TECHNOLOGY}{goal and f', {goal}'}")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def area_um2(unit: str, goal: str = "") -> float:
    """Cells and memories of a unit, in square micrometres; made small, or for another goal."""
    return float(_record(RECORDS, unit, "synthesis", goal)["metrics"]["area"]["value"])


def energy_fj(unit: str, mantissa: float | None = None) -> float:
    """Of a multiply-add on the data of a real model; between two measured lengths a line."""
    runs = _record(RECORDS / "energy", unit, "energy")["runs"]
    if mantissa is None:
        return float(runs["real"]["total"])
    prefix = "real m"
    known = sorted((int(n.removeprefix(prefix)), n) for n in runs if n.startswith(prefix))
    lengths = [length for length, _ in known]
    return float(np.interp(mantissa, lengths, [runs[name]["total"] for _, name in known]))
