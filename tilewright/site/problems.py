"""Records that do not agree with the models, or no longer with the design."""

from collections.abc import Sequence
from pathlib import Path

from tilewright.site.deca import cycle_rows
from tilewright.studies.measured import load_measured
from tilewright.studies.model_record import NAMES
from tilewright.studies.sweeps.frontiers import FRONTIERS, load_frontier_record
from tilewright.synth.equivalence import Verdict
from tilewright.synth.layout.record import stale_layout_records
from tilewright.synth.record import RECORDS, is_of_this_flow, load_records, stale_records

TOLERANCE = 0.05  # of predicted cycles
GOOD = (Verdict.PROVED, Verdict.PROVED_FROM_GATES, Verdict.BENCHED)
PROVE = "tilewright synth --all --prove --update-records"


def find_failures(records: Path = RECORDS) -> list[str]:
    """Cycles that were not those of the model, and netlists that differ from their RTL."""
    found = [
        f"{row['block']}, {row['code_bits']}-bit codes, density {row['density']:.0%}:"
        f" measured {row['measured']}, the model says {row['model']}"
        for row in cycle_rows()
        if row["measured"] != row["model"]
    ]
    for name in NAMES.values():
        record = load_measured(name)
        assert record is not None, name
        found += [
            f"{name}: {row['phase']} at {row['context']} tokens took {row['run']:,} cycles,"
            f" {row['predicted']:,} were predicted"
            for row in record["cycles"]["rows"]
            if abs(row["run"] / row["predicted"] - 1) > TOLERANCE
        ]
    return found + [
        f"{name}: {record['proof']['verdict']}"
        for name, record in load_records(records).items()
        if "proof" in record and Verdict(record["proof"]["verdict"]) not in GOOD
    ]


def find_problems(records: Path = RECORDS) -> list[str]:
    """Records that are missing or out of date, each with the command that renews it."""
    synthesised = load_records(records)
    stale = stale_records(records)
    found = _stale(len(synthesised), list(stale.items()))
    if missing := [name for name, record in synthesised.items() if "proof" not in record]:
        found.append(
            f"{len(missing)} of {len(synthesised)} netlists have no verdict; to get one: {PROVE}"
        )
    for name, command in stale_layout_records(records).items():
        found.append(f"{name} is old; to renew it: {command}")
    for frontier in FRONTIERS.values():
        command = f"tilewright sweep --frontier {frontier.name} --update-records"
        for technology in frontier.technologies:
            record = load_frontier_record(frontier.name, technology, records)
            if record is None:
                found.append(f"no frontier {frontier.name} in {technology}; to make it: {command}")
            elif not is_of_this_flow(record, technology):
                found.append(
                    f"frontier {frontier.name} in {technology} was made with other cells, tools or"
                    f" flow; to renew it: {command}"
                )
    return found + [
        f"the record deca_cycles has another formula for {row['block']}, {row['code_bits']}-bit"
        " codes; to renew it: tilewright simulate deca.cycles --cases 10000 --update-record"
        for row in cycle_rows()
        if row["recorded_formula"] != row["formula"]
    ]


def _stale(count: int, stale: Sequence[tuple[str, str]]) -> list[str]:
    match stale:
        case []:
            return []
        case [(name, command)]:
            return [f"{name} no longer describes its block; to renew it: {command}"]
    return [
        f"{len(stale)} of {count} records no longer describe their blocks;"
        " to renew them: tilewright synth --all --stale --update-records"
    ]
