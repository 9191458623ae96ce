"""Two records of the same kind side by side: which metric moved, and is that good or bad."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.base.records import load_table
from tilewright.synth.record import SYNTHESIS, load_kind

__all__ = ["Change", "compare_record_files", "compare_records"]


@dataclass(frozen=True)
class Change:
    """A metric in an old and in a new record."""

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


def compare_record_files(old: Path, new: Path) -> list[tuple[str, Change]]:
    """Return each metric that differs between two files, or between the tables of two folders.

    A file is a table or one record, as ``tilewright synth -o`` writes it. Each change has the name
    of its record.
    """
    found = []
    for name, before, after in _pairs(old, new):
        try:
            changes = compare_records(before, after)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        found += [(name, change) for change in changes if change.verdict != "same"]
    return found


def _pairs(old: Path, new: Path) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    if old.is_dir() != new.is_dir():
        raise ValueError(f"{old} and {new}: compare two files or two folders")
    before, after = _read(old), _read(new)
    if not before:
        raise ValueError(f"{old} has no records")
    for name in before:
        if name not in after:
            raise ValueError(f"record {name} is missing in {new}")
        yield name or new.name, before[name], after[name]


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """Records by name; one that is a file of its own has none."""
    if path.is_dir():
        return load_kind(SYNTHESIS, path)
    try:
        content = json.loads(path.read_text())
        records = load_table(path) if "records" in content else {"": content}
        for record in records.values():
            record["metrics"]
    except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError):
        raise ValueError(f"{path} is not a synthesis record") from None
    return records


def _verdict(old: dict[str, Any], new: dict[str, Any]) -> str:
    if new["value"] == old["value"]:
        return "same"
    return "better" if (new["value"] < old["value"]) == (old["better"] == "lower") else "worse"
