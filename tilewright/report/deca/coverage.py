"""Functional coverage: which combinations of tiles the bench has seen on the emitted Verilog."""

from collections.abc import Mapping
from typing import Any

from tilewright.report.html import Markup, code, paragraph, section, table, verdict
from tilewright.report.measured import measured_source, missing
from tilewright.verify.coverage import Coverage
from tilewright.verify.deca.workload import Squash

__all__ = ["COMMAND", "RECORD", "coverage_section"]

RECORD = "deca_coverage"
COMMAND = "tilewright simulate deca.coverage --update-record"


def coverage_section(record: Mapping[str, Any] | None) -> Markup:
    """The axes of the coverage model, and how much of it each size of the PE has seen."""
    title = "Functional coverage"
    if record is None:
        return section(title, missing("coverage", COMMAND))
    rows = []
    for block, entry in record["blocks"].items():
        found = Coverage.from_dict(entry)
        holes = len(found.holes)
        rows.append(
            (
                code(block),
                len(found.hits),
                len(found.hits) - holes,
                sum(found.hits),
                _squashed(found),
                verdict(not holes, f"{holes} holes" if holes else "no hole"),
            )
        )
    axes = next(iter(record["blocks"].values()))["axes"]
    return section(
        title,
        paragraph(
            "A combination is one value of each axis. A tile counts for a combination when its"
            " rows, or its squash, were observed on the emitted Verilog and were correct."
        ),
        table(("Axis", "Values"), [(axis, ", ".join(values)) for axis, values in axes.items()]),
        table(("Block", "Combinations", "Covered", "Tiles", "Tiles squashed", "Result"), rows),
        measured_source(RECORD, record),
    )


def _squashed(coverage: Coverage) -> int:
    """The number of tiles that a squash ended."""
    counted = zip(coverage.bins(), coverage.hits, strict=True)
    return sum(hits for found, hits in counted if found["squash"] != Squash.NONE)
