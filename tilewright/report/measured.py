"""Records of what benches measured: ``tilewright/studies/records/*.json``."""

from typing import Any

from tilewright.report.html import Markup, code, note, paragraph
from tilewright.studies.measured import MEASURED, load_measured

__all__ = ["MEASURED", "load_measured", "measured_source", "missing"]


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
