"""Power and energy of the DECA PE at the paper's clock, beside the paper's estimate."""

from collections.abc import Mapping
from typing import Any

from tilewright.claims import Claim
from tilewright.report.claims import claims_source
from tilewright.report.hardware import by_group
from tilewright.report.html import Markup, code, note, paragraph, section, table
from tilewright.studies.deca_energy.cases import FULL_ACTIVITY, IDLE
from tilewright.synth.energy import COMPONENTS

__all__ = ["PAPER_PES", "power_by_group", "power_section"]

PAPER_PES = 56  # one for each core of the paper's processor; its power is of all of them
BOUNDS = ("least", "total")


def power_by_group(
    record: dict[str, Any], groups: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """Power of each group of parts at full activity, in mW, and its lower bound."""
    parts = record["runs"][FULL_ACTIVITY]["power_by_part"]
    sums = {
        bound: by_group({name: p[bound] for name, p in parts.items()}, groups, "rest")
        for bound in BOUNDS
    }
    return {group: {bound: sums[bound][group] for bound in BOUNDS} for group in sums["total"]}


def power_section(
    record: dict[str, Any] | None, claims: Mapping[str, Claim], groups: Mapping[str, str]
) -> Markup:
    """Every run of the energy record, and full activity divided as in the paper."""
    title = "Power and energy"
    command = code("tilewright synth deca --energy --update-records")
    if record is None:
        return section(title, paragraph("There is no record yet. To make it:", command))
    runs = record["runs"]
    total, shares = claims["deca.power.total_56"], claims["deca.power.share"]
    theirs = 1e3 * total.number / PAPER_PES
    ours = power_by_group(record, groups)
    sums = {bound: sum(values[bound] for values in ours.values()) for bound in BOUNDS}
    rows = [
        (
            group,
            *(x for bound in BOUNDS for x in (values[bound], 100 * values[bound] / sums[bound])),
            theirs * shares.numbers[group] / 100,
            shares.numbers[group],
        )
        for group, values in ours.items()
    ]
    whole = ("all", *(x for bound in BOUNDS for x in (sums[bound], 100)), theirs, 100)
    return section(
        title,
        paragraph(
            f"The netlist runs at {1e3 / record['period_ps']:g} GHz and decompresses tile after"
            " tile, whose lines arrive in time; the toggles of every net are counted, and the"
            f" clock pulses that pass each of its {record['metrics']['clock_gates']:,} clock gates."
            " The last column is a lower bound: what would remain if each flip-flop were clocked"
            " only in the cycles in which it changes, by gates that cost nothing.",
        ),
        table(
            (
                *("Tiles", "Cycles/tile", "pJ/tile", "fJ/weight"),
                *(f"{name.capitalize()}, mW" for name in COMPONENTS),
                *("All, mW", "Lower bound, mW"),
            ),
            [
                (
                    name,
                    *(figures.get(k) for k in ("cycles_per_tile", "pj_per_tile", "fj_per_weight")),
                    *(figures["power"][k] for k in (*COMPONENTS, "total", "least")),
                )
                for name, figures in runs.items()
            ],
        ),
        paragraph(
            f"The run at full activity, {FULL_ACTIVITY}, is divided as the paper divides its"
            f" {total.number:g} {total.unit} for {PAPER_PES} PEs. The paper's power is an estimate"
            " with memories by CACTI and logic from the literature; it has no registers between"
            f" stages and no control. When idle, ours takes {runs[IDLE]['power']['total']:.1f} mW,"
            " nearly all of it in clock gates and in the registers behind none.",
        ),
        table(
            (
                *("Part", "Lower bound, mW", "Lower bound, %", "Ours, mW", "Ours, %"),
                *("Paper, mW", "Paper, %"),
            ),
            [*rows, whole],
        ),
        note("Source:", code("synth/records/energy.asap7.json"), "made by", command),
        claims_source(total, shares),
    )
