"""Two records of the same kind side by side: which metric moved, and is that good or bad."""

from dataclasses import dataclass
from typing import Any

__all__ = ["Change", "compare_records"]


@dataclass(frozen=True)
class Change:
    metric: str
    unit: str
    old: float
    new: float
    verdict: str  # "better", "worse" or "same"

    @property
    def percent(self) -> float | None:
        """Relative change; None from zero."""
        return 100 * (self.new - self.old) / self.old if self.old else None


def compare_records(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """One change for every metric; a metric that only one of them has is refused."""
    before, after = old["metrics"], new["metrics"]
    for name in [*before, *after]:
        for which, metrics in (("old", before), ("new", after)):
            if name not in metrics:
                raise ValueError(f"metric {name!r} is missing in the {which} record")
        if (before[name]["unit"], before[name]["better"]) != (
            after[name]["unit"],
            after[name]["better"],
        ):
            raise ValueError(f"metric {name!r} has another unit or direction in the new record")
    return [
        Change(
            name, entry["unit"], entry["value"], after[name]["value"], _verdict(entry, after[name])
        )
        for name, entry in before.items()
    ]


def _verdict(old: dict[str, Any], new: dict[str, Any]) -> str:
    if new["value"] == old["value"]:
        return "same"
    return "better" if (new["value"] < old["value"]) == (old["better"] == "lower") else "worse"
