"""The processing elements (PEs) that Anda and Harmonia are compared with, and the comparison."""

from tilewright.base.errors import CommandError
from tilewright.report.design import design_page
from tilewright.report.html import Markup, code, figure, join, note, paragraph, section, table
from tilewright.report.page import Context, Page
from tilewright.report.plots import bars
from tilewright.sim.claims import claims_of_study
from tilewright.studies.pe.compare import (
    Comparison,
    Survival,
    compare,
    surviving_claims,
    surviving_orders,
)
from tilewright.synth.technology import TECHNOLOGIES, load_technology

TITLE = "Processing elements"
POSITION = 20
EFFICIENCIES = {"area_efficiency": "TOPS/mm²", "energy_efficiency": "TOPS/W"}


def build(context: Context) -> Page:
    try:
        comparisons = [compare(load_technology(name)) for name in TECHNOLOGIES]
    except CommandError as error:
        sections = [section("Comparison", paragraph(str(error)))]
        data = {}
    else:
        sections = [_side_by_side(comparisons), _claims(comparisons), _survival(comparisons)]
        data = {"comparison": {c.technology: c.as_dict() for c in comparisons}}
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


def _side_by_side(comparisons: list[Comparison]) -> Markup:
    names = [e.name for e in comparisons[0].elements]
    plots = []
    for place, unit in zip((2, 3), EFFICIENCIES.values(), strict=True):
        groups = {c.technology: [c.normalised(e)[place] for e in c.elements] for c in comparisons}
        label = f"{unit}, relative to {names[0]}"
        plots.append(
            figure(
                bars(f"pes-{place}", names, groups, x_label=label),
                f"{unit} divided by that of {names[0]} in the same technology.",
            )
        )
    head = (
        *("PE", "MAC/cycle", "Area, µm²", "Delay, ps", "fJ/MAC", "TOPS/mm²", "TOPS/W"),
        *("Area, x", "Power, x", "TOPS/mm², x", "TOPS/W, x"),
    )
    tables = []
    for c in comparisons:
        rows = [
            (
                *(e.name, e.macs_per_cycle, e.area, e.delay, e.energy),
                *(e.tops_per_mm2, e.tops_per_watt, *c.normalised(e)),
            )
            for e in c.elements
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
                    f" them, {d.spec} takes {d.area / d.lanes:.0f} µm² per lane and"
                    f" {d.area_per_weight:.0f} µm² per 4-bit weight decompressed in a cycle."
                )
            )
    return section(
        "Side by side",
        *plots,
        *tables,
        note(
            "Source:",
            code("synth/records/energy"),
            "made by",
            code("tilewright compare pe --update-records"),
        ),
    )


def _claims(comparisons: list[Comparison]) -> Markup:
    head = ["Statement of a paper", "Paper"]
    for c in comparisons:
        head += [f"Ours, {c.technology}", f"Deviation, {c.technology}, %"]
    rows = []
    for claims in zip(*(c.claims for c in comparisons), strict=True):
        row = [claims[0].name, claims[0].shown]
        for claim in claims:
            row += [f"{claim.here:.2f}", f"{claim.deviation:+.0f}"]
        rows.append(row)
    return section("Beside the papers", table(head, rows))


def _survival(comparisons: list[Comparison]) -> Markup:
    names = [c.technology for c in comparisons]
    parts = [
        paragraph(
            "A statement holds in a technology if the records point the same way as the paper:"
            " below its bound, or on its side of 1. It survives if it holds in every technology."
        ),
        table(
            ("Statement of a paper", *names, "Outcome"),
            [(s.statement, *_verdicts(s, names), s.outcome) for s in surviving_claims(comparisons)],
        ),
    ]
    for quantity, unit in EFFICIENCIES.items():
        orders = surviving_orders(comparisons, quantity)
        changed = [s for s in orders if s.outcome == "changes"]
        parts.append(
            paragraph(
                f"Ordered by {unit}, {len(orders) - len(changed)} of {len(orders)} pairs of PEs are"
                " in the same order in every technology."
            )
        )
        if changed:
            rows = [(s.statement, *_verdicts(s, names)) for s in changed]
            parts.append(table(("Order that changes", *names), rows))
    return section("What survives the change of node", join(parts))


def _verdicts(survival: Survival, names: list[str]) -> list[str]:
    return ["holds" if survival.verdicts[name] else "does not hold" for name in names]
