"""The processing elements (PEs) that Anda and Harmonia are compared with, and the comparison."""

from collections.abc import Sequence
from dataclasses import asdict

from tilewright.base.errors import CommandError
from tilewright.claims import claims_of_study
from tilewright.report.design import design_page
from tilewright.report.html import Markup, code, figure, join, note, paragraph, section, table
from tilewright.report.page import Context, Page
from tilewright.report.plots import bars
from tilewright.studies.pe.compare import Comparison, Conclusion, Survival, compare
from tilewright.synth.technology import TECHNOLOGIES, load_technology

TITLE = "Processing elements"
POSITION = 20
EFFICIENCIES = {"area_efficiency": "TOPS/mm²", "energy_efficiency": "TOPS/W"}


def build(context: Context) -> Page:
    try:
        result = compare([load_technology(name) for name in TECHNOLOGIES])
    except CommandError as error:
        sections = [section("Comparison", paragraph(str(error)))]
        data = {}
    else:
        comparisons, survival = result.comparisons, result.survival
        assert survival is not None  # there are several technologies
        sections = [
            _side_by_side(comparisons),
            _claims(comparisons),
            _survival("What survives the change of node", list(TECHNOLOGIES), survival),
            *(
                _survival(f"What survives wires in {name}", [name, f"{name} placed"], outcome)
                for name, outcome in result.wires_by_technology.items()
            ),
        ]
        data = {"comparison": asdict(result)}
    return design_page(
        context,
        "Area, delay and energy of the PEs of Anda, Harmonia, DECA and earlier designs on one"
        " workload.",
        ("pe",),
        *sections,
        claims=claims_of_study("pe"),
        reference="pe_fp_fp",
        data=data,
    )


def _side_by_side(comparisons: Sequence[Comparison]) -> Markup:
    names = [pe.name for pe in comparisons[0].pes]
    plots = []
    for quantity, unit in EFFICIENCIES.items():
        groups = {c.technology: [getattr(pe, f"{quantity}_x") for pe in c.pes] for c in comparisons}
        label = f"{unit}, relative to {names[0]}"
        plots.append(
            figure(
                bars(f"pes-{quantity}", names, groups, x_label=label),
                f"{unit} divided by that of {names[0]} in the same technology.",
            )
        )
    head = (
        *("PE", "MAC/cycle", "Area, µm²", "Delay, ps", "fJ/MAC", "TOPS/mm²", "TOPS/W"),
        *("Area, x", "Power, x", "TOPS/mm², x", "TOPS/W, x"),
        *("Die placed, µm²", "Delay placed, ps", "fJ/MAC placed"),
    )
    tables = []
    for c in comparisons:
        rows = [
            (
                *(pe.name, pe.macs_per_cycle, pe.area_um2, pe.delay_ps, pe.energy_fj_per_mac),
                *(pe.tops_per_mm2, pe.tops_per_watt, pe.area_x, pe.power_x),
                *(pe.area_efficiency_x, pe.energy_efficiency_x),
                *(
                    "" if value is None else value
                    for value in (pe.die_um2, pe.placed_delay_ps, pe.placed_fj_per_mac)
                ),
            )
            for pe in c.pes
        ]
        tables += [
            paragraph(
                f"In {c.technology} at {c.clock_mhz} MHz, on tensors of a real model; columns in x"
                f" are relative to {names[0]}:"
            ),
            table(head, rows),
        ]
        if c.decompression is not None:
            d = c.decompression
            tables.append(
                paragraph(
                    "The lanes of DECA are compared without its queues, tables and loaders. With"
                    f" them, {d.spec} takes {d.area_um2 / d.lanes:.0f} µm² per lane and"
                    f" {d.area_um2_per_weight:.0f} µm² per 4-bit weight decompressed in a cycle."
                )
            )
    return section(
        "Side by side",
        *plots,
        *tables,
        note(
            "Source:",
            code("synth/records/energy.*.json"),
            "made by",
            code("tilewright compare pe --update-records"),
        ),
    )


def _claims(comparisons: Sequence[Comparison]) -> Markup:
    head = ["Statement of a paper", "Paper"]
    for c in comparisons:
        head += [f"Ours, {c.technology}", f"Deviation, {c.technology}, %"]
    rows = []
    for claims in zip(*(c.claims for c in comparisons), strict=True):
        row = [claims[0].name, claims[0].shown]
        for claim in claims:
            row += [f"{claim.measured:.2f}", f"{claim.deviation_percent:+.0f}"]
        rows.append(row)
    return section("Beside the papers", table(head, rows))


def _survival(title: str, names: list[str], survival: Survival) -> Markup:
    parts = [
        paragraph(
            "A statement holds in a column if the records point the same way as the paper:"
            " below its bound, or on its side of 1. It survives if it holds in every column;"
            " placed means by dies and energies after placement, an estimate before routing, of"
            " the PEs whose placement is on record."
        ),
    ]
    if survival.claims:
        rows = [(c.statement, *_verdicts(c, names), c.outcome) for c in survival.claims]
        parts.append(table(("Statement of a paper", *names, "Outcome"), rows))
    for quantity, unit in EFFICIENCIES.items():
        orders = getattr(survival, quantity)
        changed = [c for c in orders if c.outcome == "changes"]
        parts.append(
            paragraph(
                f"Ordered by {unit}, {len(orders) - len(changed)} of {len(orders)} pairs of PEs are"
                " in the same order in every column."
            )
        )
        if changed:
            rows = [(c.statement, *_verdicts(c, names)) for c in changed]
            parts.append(table(("Order that changes", *names), rows))
    return section(title, join(parts))


def _verdicts(conclusion: Conclusion, names: list[str]) -> list[str]:
    holds = conclusion.holds_by_technology
    return ["holds" if holds[name] else "does not hold" for name in names]
