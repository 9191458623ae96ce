"""Functional coverage of an accelerator: what its programs met on the emitted Verilog."""

from tilewright.report.html import Markup, code, paragraph, section, table, verdict
from tilewright.report.measured import load_measured, measured_source, missing
from tilewright.report.page import Context
from tilewright.verify.coverage import Coverage

__all__ = ["coverage_section"]

RECORD = "machine_coverage"
COMMAND = "tilewright simulate machine.coverage --update-record"
TITLE = "Functional coverage"


def coverage_section(context: Context, system: str) -> Markup:
    """The crosses of instructions and of errors, and how much of each was seen."""
    record = load_measured(RECORD, context.measured)
    if record is None:
        return section(TITLE, missing("coverage", COMMAND))
    block, entry = next(
        (name, found)
        for name, found in record["blocks"].items()
        if name.partition(":")[0] == system
    )
    crosses = [Coverage.from_dict(cross) for cross in entry["crosses"]]
    axes = [
        (axis, ", ".join(values)) for cross in crosses[:1] for axis, values in cross.axes.items()
    ]
    rows = [
        (
            " x ".join(cross.axes),
            len(cross.hits),
            len(cross.hits) - len(cross.holes),
            sum(cross.hits),
            verdict(not cross.holes, f"{len(cross.holes)} holes" if cross.holes else "no hole"),
        )
        for cross in crosses
    ]
    return section(
        TITLE,
        paragraph(
            "An instruction counts for a combination when its program, on the emitted Verilog of",
            code(block),
            "and on a memory of that latency, left golden's memory, events and counters, and"
            " without stalls took golden's cycles. An error counts when the program stopped with"
            " it at golden's instruction. Size: one row or group, or several.",
        ),
        table(("Axis", "Values"), [*axes, ("error", ", ".join(crosses[1].axes["error"]))]),
        table(("Cross", "Combinations", "Covered", "Times", "Result"), rows),
        measured_source(RECORD, record),
    )
