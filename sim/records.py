"""Areas of synthesised units, read from the committed records as data."""

import json
from functools import cache
from pathlib import Path

__all__ = ["NoRecordError", "area_um2"]

RECORDS = Path(__file__).parents[1] / "synth" / "records"


class NoRecordError(LookupError):
    """A result needs a synthesis record that is not there."""


@cache
def area_um2(unit: str, technology: str = "asap7") -> float:
    """Cells and memories of a unit, in square micrometres."""
    path = RECORDS / f"{unit}.{technology}.json"
    if not path.exists():
        raise NoRecordError(f"no synthesis record of {unit} in {technology}")
    metrics = json.loads(path.read_text())["metrics"]
    return float(metrics["area"]["value"])
