"""Area and longest path of the DECA PE, beside the paper's area."""

from collections.abc import Mapping
from typing import Any

from tilewright.claims import Claim
from tilewright.report.claims import claims_source
from tilewright.report.deca import PAPER_PARTS, PRESETS
from tilewright.report.hardware import (
    area_by_group,
    figures_table,
    longest_paths,
    parts_table,
    records_wanted,
)
from tilewright.report.html import Markup, code, join, paragraph, section, table
from tilewright.report.page import Context

__all__ = ["area_section"]


def area_section(
    context: Context, records: Mapping[str, dict[str, Any]], claims: Mapping[str, Claim]
) -> Markup:
    """Every synthesis record, and the paper's division of the area where it applies."""
    clock = claims["deca.clock"]
    parts = [figures_table(context, records), longest_paths(records)] if records else []
    return section(
        "Area and longest path",
        paragraph(
            f"The paper clocks the PE at {clock.number:g} {clock.unit}, a period of"
            f" {1000 / clock.number:g} ps, in a 7 nm process; asap7 is the technology to compare"
            " with. docs/synthesis.md says what our areas and delays leave out."
        ),
        *parts,
        records_wanted(records, ["deca:paper"]),
        *(_beside_the_paper(name, record, claims) for name, record in records.items()),
        claims_source(clock, claims["deca.area.per_pe"], claims["deca.area.share"]),
    )


def _beside_the_paper(name: str, record: dict[str, Any], claims: Mapping[str, Claim]) -> Markup:
    """Only the paper's size in the paper's technology has something to be compared with."""
    areas = area_by_group(record, PAPER_PARTS, "rest")
    same = record["parameters"] == PRESETS["paper"].as_dict() and record["block"] == "deca"
    if areas is None or not same or record["technology"] != "asap7":
        return Markup("")
    total, shares = claims["deca.area.per_pe"].number, claims["deca.area.share"].numbers
    ours = sum(areas.values())
    rows = [
        (part, area, 100 * area / ours, total * shares[part] / 100, shares[part])
        for part, area in areas.items()
    ]
    return join(
        [
            paragraph(
                "The area of",
                code(name),
                "as the paper divides it, and then part by part. The paper takes its memories from"
                " CACTI and its logic from the literature, scaled to 7 nm; ours are cells and a"
                ' model of memory macros, without wires. The paper\'s "rest" has adders,'
                " multipliers and crossbar alone; ours also has every pipeline register, the"
                " alignment, the prefetcher and the control.",
            ),
            table(
                ("Part", "Ours, µm²", "Ours, %", "Paper, µm²", "Paper, %"),
                [*rows, ("all", ours, 100, total, 100)],
            ),
            parts_table(record),
        ]
    )
