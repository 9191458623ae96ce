"""Records of what simulations measured: ``tilewright/studies/records/*.json``."""

import json
import re
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from tilewright.base.files import write_atomic

__all__ = ["MEASURED", "load_measured", "write_measured"]

MEASURED = Path(__file__).parent / "records"


def load_measured(name: str, folder: Path = MEASURED) -> dict[str, Any] | None:
    """Return the record called ``name``, or None where it has not been made."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def write_measured(name: str, record: dict[str, Any], folder: Path = MEASURED) -> None:
    """Write ``record``, which may hold result objects (dataclasses), under ``name``."""
    text = json.dumps(record, indent=1, default=_plain)
    # Numbers side by side: a list of thousands has no place in as many lines.
    text = re.sub(r"\[[\d,\s]+\]", lambda found: " ".join(found[0].split()), text)
    write_atomic(folder / f"{name}.json", text + "\n")


def _plain(value: Any) -> dict[str, Any]:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} is not JSON data")
