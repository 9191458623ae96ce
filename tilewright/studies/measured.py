"""Records of measurements in simulation: ``tilewright/studies/records/*.json``."""

import json
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from tilewright.base.records import write_record

MEASURED = Path(__file__).parent / "records"


def load_measured(name: str, folder: Path = MEASURED) -> dict[str, Any] | None:
    """Return the record called ``name``, or None where it has not been made."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def write_measured(name: str, record: dict[str, Any], folder: Path = MEASURED) -> None:
    """Write ``record``, which may hold result objects (dataclasses), under ``name``."""
    write_record(folder / f"{name}.json", json.loads(json.dumps(record, default=_plain)))


def _plain(value: Any) -> dict[str, Any]:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} is not JSON data")
