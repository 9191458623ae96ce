"""Netlists against their RTL: which are proved equivalent, and which pass their bench instead."""

from collections import Counter
from typing import Any

from tilewright.report.html import Markup, code, join, note, paragraph, section, table
from tilewright.report.page import Context, Page
from tilewright.synth.equivalence import Verdict

TITLE = "Netlists"
POSITION = 38

COMMAND = "tilewright synth --all --prove --update-records"
GOOD = (Verdict.PROVED, Verdict.PROVED_FROM_GATES, Verdict.BENCHED)
MEANING = {
    Verdict.PROVED: "equivalent to the RTL as Yosys reads it",
    Verdict.PROVED_FROM_GATES: "equivalent to the generic gates that Yosys makes of the RTL",
    Verdict.BENCHED: "no proof within the time limit; the bench of the block passes on the netlist",
}


def build(context: Context) -> Page:
    records = context.synthesised
    known = {name: record["proof"] for name, record in records.items() if "proof" in record}
    counts = Counter(Verdict(entry["verdict"]) for entry in known.values())
    missing = len(records) - len(known)
    problem = f"{missing} of {len(records)} netlists have no verdict; to get one: {COMMAND}"
    return Page(
        summary=f"{sum(counts[v] for v in GOOD[:2])} of {len(records)} netlists are proved"
        f" equivalent to their RTL; {counts[Verdict.BENCHED]} pass their bench instead.",
        body=join([_counts(counts), _all(records, known)]),
        data=known,
        failures=[
            f"{name}: {entry['verdict']}"
            for name, entry in known.items()
            if Verdict(entry["verdict"]) not in GOOD
        ],
        problems=[problem] if missing else [],
    )


def _counts(counts: Counter[Verdict]) -> Markup:
    return section(
        "What is known",
        paragraph(
            "Netlist and RTL are cut at registers and memories, which keep their names. Outputs and"
            " next states are then compared for all inputs and all states. The assumptions are in"
            " docs/synthesis.md."
        ),
        table(
            ("Verdict", "Netlists", "Meaning"),
            [(verdict.value, counts[verdict], MEANING[verdict]) for verdict in GOOD],
        ),
        note("Source:", code("synth/records/synthesis.*.json"), "made by", code(COMMAND)),
    )


def _all(records: dict[str, dict[str, Any]], known: dict[str, dict[str, Any]]) -> Markup:
    rows = [
        (
            code(records[name]["spec"]),
            records[name]["technology"],
            records[name]["goal"],
            entry["verdict"],
            entry["outputs"],
            entry["registers"],
            entry["detail"],
        )
        for name, entry in known.items()
    ]
    head = ("Block", "Technology", "Goal", "Verdict", "Bits compared", "Register bits", "Detail")
    return section("Every netlist", table(head, rows))
