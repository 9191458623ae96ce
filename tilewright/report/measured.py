"""Records of what studies measured on the RTL: ``tilewright/studies/records/*.json``."""

from collections.abc import Mapping
from typing import Any

from tilewright.report.html import Markup, code, note, paragraph
from tilewright.studies.measured import MEASURED, load_measured

__all__ = ["MEASURED", "load_measured", "measured_source", "missing"]


def measured_source(name: str, record: Mapping[str, Any]) -> Markup:
    """Say where the figures of a record come from."""
    return note(
        "Source:",
        code(f"tilewright/studies/records/{name}.json"),
        "made by",
        code(record["command"]),
    )


def missing(what: str, command: str) -> Markup:
    """Say, in place of figures that have not been made yet, how to make them."""
    return paragraph(f"There is no record of {what} yet. To make it:", code(command))
