"""Records of what benches measured: ``tilewright/studies/records/*.json``."""

import json
from pathlib import Path
from typing import Any

from tilewright import studies
from tilewright.report.html import Markup, code, note, paragraph

__all__ = ["MEASURED", "load_measured", "measured_source", "missing"]

MEASURED = Path(studies.__file__).parent / "records"


def load_measured(name: str, folder: Path = MEASURED) -> dict[str, Any] | None:
    """The record called ``name``, if it has been made."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def measured_source(name: str, record: dict[str, Any]) -> Markup:
    """Where the figures of a record come from."""
    return note(
        "Source:",
        code(f"tilewright/studies/records/{name}.json"),
        "made by",
        code(record["command"]),
    )


def missing(what: str, command: str) -> Markup:
    """In place of figures that nobody has made yet."""
    return paragraph(f"No record of {what} yet. To make it:", code(command))
