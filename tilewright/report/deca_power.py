"""Power of the DECA element at the paper's clock, beside the paper's."""

from collections.abc import Mapping
from typing import Any

from tilewright.report.claims import claims_source
from tilewright.report.hardware import by_group
from tilewright.report.html import Markup, code, note, paragraph, section, table
from tilewright.sim.claims import Claim
from tilewright.studies.deca_energy.cases import FULL_ACTIVITY, IDLE
from tilewright.synth.energy import COMPONENTS

__all__ = ["ELEMENTS", "power_by_group", "power_section"]

ELEMENTS = 56  # of the paper's processor: its power is of all of them
BOUNDS = ("least", "total")


def power_by_group(
    record: dict[str, Any], groups: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """mW of each group of parts at full activity, the least and all of it."""
    parts = record["runs"][FULL_ACTIVITY]["power_by_part"]
    sums = {
        bound: by_group({name: p[bound] for name, p in parts.items()}, groups, "rest")
        for bound in BOUNDS
    }
    return {group: {bound: sums[bound][group] for bound in BOUNDS} for group in sums["total"]}


def power_section(
    record: dict[str, Any] | None, claims: Mapping[str, Claim], groups: Mapping[str, str]
) -> Markup:
    """Every run of the energy record, and full activity as the paper divides it."""
    title = "Power and energy"
    command = code("tilewright synth deca --energy --update-records")
    if record is None:
        return section(title, paragraph("Not recorded yet; made by", command))
    runs = record["runs"]
    total, shares = claims["deca.power.total_56"], claims["deca.power.share"]
    theirs = 1e3 * total.number / ELEMENTS
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
            f"The netlist at {1e3 / record['period_ps']:g} GHz, tile after tile, its lines there in"
            " time, toggles of every net counted. No clock is gated: every flip-flop is clocked in"
            " every cycle. The last column is what would be left if each were clocked only in"
            " cycles in which it changes; an element with gated clocks lies between.",
        ),
        table(
            (
                *("Tiles", "Cycles a tile", "pJ a tile", "fJ a weight"),
                *(f"{name.capitalize()}, mW" for name in COMPONENTS),
                *("All, mW", "Least, mW"),
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
            f"Full activity, {FULL_ACTIVITY}, as the paper divides its power of {total.number:g}"
            f" {total.unit} for {ELEMENTS} elements. The paper's is an estimate, memories by CACTI"
            " and logic from the literature; it has no registers between stages and no control."
            f" Idle, ours takes {runs[IDLE]['power']['total']:.1f} mW, nearly all of it clock.",
        ),
        table(
            ("Part", "Least, mW", "%", "Ungated, mW", "%", "Paper, mW", "%"),
            [*rows, whole],
        ),
        note("Source:", code("synth/records/energy/deca.asap7.json"), "made by", command),
        claims_source(total, shares),
    )
