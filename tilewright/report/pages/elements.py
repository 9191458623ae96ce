"""The processing elements that Anda and Harmonia are compared with, and the comparison."""

from tilewright.base.errors import CommandError
from tilewright.report.design import design_page
from tilewright.report.html import Markup, code, figure, join, note, paragraph, section, table
from tilewright.report.page import Context, Page
from tilewright.report.plots import bars
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
        sections, data = [section("Comparison", paragraph(str(error)))], {}
    else:
        sections = [_elements(comparisons), _claims(comparisons), _survival(comparisons)]
        data = {"comparison": {c.technology: c.as_dict() for c in comparisons}}
    return design_page(
        context,
        "Processing elements of Anda, Harmonia, DECA and of earlier designs on one workload.",
        ("pe",),
        *sections,
        paper="pe",
        reference="pe_fp_fp",
        data=data,
    )


def _elements(comparisons: list[Comparison]) -> Markup:
    names = [e.name for e in comparisons[0].elements]
    plots = []
    for place, unit in zip((2, 3), EFFICIENCIES.values(), strict=True):
        groups = {c.technology: [c.normalised(e)[place] for e in c.elements] for c in comparisons}
        label = f"{unit} as a multiple of {names[0]}'s"
        plots.append(
            figure(
                bars(f"elements-{place}", names, groups, x_label=label),
                f"{unit}, divided by that of {names[0]} in the same technology.",
            )
        )
    head = ("Element", "MAC/cycle", "Area, µm²", "Delay, ps", "fJ/MAC", "TOPS/mm²", "TOPS/W")
    head = (*head, "Area, x", "Power, x", "TOPS/mm², x", "TOPS/W, x")
    tables = []
    for c in comparisons:
        rows = [
            (
                *(e.name, e.macs_per_cycle, e.area, e.delay, e.energy),
                *(e.tops_per_mm2, e.tops_per_watt, *c.normalised(e)),
            )
            for e in c.elements
        ]
        tables += [paragraph(f"{c.technology}, {c.clock_mhz} MHz, real data:"), table(head, rows)]
        if c.decompression is not None:
            d = c.decompression
            tables.append(
                paragraph(
                    f"The lanes of DECA stand here without its queues, tables and loaders. All of"
                    f" {d.spec}: {d.area / d.lanes:.0f} µm² a lane, {d.area_per_weight:.0f} µm² per"
                    " 4-bit weight decompressed a cycle."
                )
            )
    return section(
        "Side by side",
        *plots,
        *tables,
        note(
            "Source: synth/records/energy, made by", code("tilewright compare pe --update-records")
        ),
    )


def _claims(comparisons: list[Comparison]) -> Markup:
    head = ["The paper says", "Paper"]
    for c in comparisons:
        head += [f"{c.technology}", "deviation, %"]
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
            "A statement holds if the records point the same way: below a bound, or on the paper's"
            " side of 1. It survives if it holds in every technology."
        ),
        table(
            ("The paper says", *names, "Outcome"),
            [(s.statement, *_words(s, names), s.outcome) for s in surviving_claims(comparisons)],
        ),
    ]
    for quantity, unit in EFFICIENCIES.items():
        orders = surviving_orders(comparisons, quantity)
        changed = [s for s in orders if s.outcome == "changes"]
        parts.append(
            paragraph(
                f"By {unit}, {len(orders) - len(changed)} of {len(orders)} pairs of elements are in"
                " the same order in every technology."
            )
        )
        if changed:
            rows = [(s.statement, *_words(s, names)) for s in changed]
            parts.append(table(("Order that changes", *names), rows))
    return section("What survives the change of node", join(parts))


def _words(survival: Survival, names: list[str]) -> list[str]:
    return ["holds" if survival.verdicts[name] else "does not" for name in names]
