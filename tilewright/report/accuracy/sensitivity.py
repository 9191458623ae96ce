"""Loss of perplexity over mantissa length, by module and by group size."""

from typing import Any

from tilewright.report.accuracy import WORST, percent_loss, record_source, subject_of
from tilewright.report.html import Markup, figure, paragraph, section
from tilewright.report.plots import Series, curves

__all__ = ["sensitivity_section"]


def _by(rows: list[dict[str, Any]], key: str, label: str, reference: float) -> dict[str, Series]:
    """The loss over the length, with a line for each value of ``key``."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["perplexity"] <= WORST * reference:
            place = (row["length"], percent_loss(row["perplexity"], reference))
            lines.setdefault(label.format(row[key]), []).append(place)
    return dict(lines)


def sensitivity_section(record: dict[str, Any]) -> Markup:
    """Three drawings, each beside a figure of a paper."""
    reference = record["reference"]
    drawings = (
        ("by_module", "module", "{}", "One module is converted in groups of 64, the others"
         " stay in full precision. Compare Figure 7 of the Anda paper."),
        ("by_group", "group", "groups of {}", "All four linear modules are converted at one"
         " length. Compare Figures 5 and 6 of the Anda paper."),
        ("everywhere", "group", "groups of {}", "All eight sites are converted at one length,"
         " keys and values of any age included. Compare Figure 4 of the Harmonia paper."),
    )  # fmt: skip
    shown = []
    for name, key, label, caption in drawings:
        lines = _by(record[name], key, label, reference)
        shown.append(
            figure(
                curves(
                    f"accuracy-{name.replace('_', '-')}",
                    lines,
                    lines,
                    x_label="mantissa length, bits",
                    y_label="loss of perplexity, %",
                ),
                caption,
            )
        )
    return section(
        "Mantissa length and group size",
        paragraph(
            subject_of(record, "calibration"), f"Losses beyond {WORST - 1:.0%} are not drawn."
        ),
        *shown,
        record_source("sensitivity", record),
    )
