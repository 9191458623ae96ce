"""Area, delay and registers of every recorded block in both technologies."""

from dataclasses import dataclass
from typing import Any

from tilewright.golden.params.describe import family
from tilewright.golden.params.resolve import BLOCKS
from tilewright.report.html import (
    Markup,
    code,
    figure,
    join,
    link,
    paragraph,
    section,
    table,
    verdict,
)
from tilewright.report.page import Context, Page
from tilewright.report.plots import dot_rows, scatter

TITLE = "Blocks"
POSITION = 30

REFERENCE = "float_mul:bf16"  # what the others are compared with
TITLES = {  # of families; the others are capitalised
    "arith": "Arithmetic",
    "stream": "Streams",
    "deca": "DECA",
    "pe": "Processing elements",
    "vector": "Vector units",
}
UNITS = {"um2": "µm²"}


@dataclass(frozen=True)
class Variant:
    """One block as synthesised towards one goal, in every technology it has a record for."""

    spec: str
    block: str
    goal: str
    metrics: dict[str, dict[str, dict[str, Any]]]  # technology -> metric -> value, unit, better
    stale: set[str]  # technologies whose record is of an earlier RTL

    def value(self, technology: str, metric: str) -> float | None:
        """The value of a metric in a technology; None if there is no record."""
        entry = self.metrics.get(technology, {}).get(metric)
        return None if entry is None else entry["value"]

    @property
    def name(self) -> str:
        """The block as the command line writes it, with its goal where that is not area."""
        return self.spec if self.goal == "area" else f"{self.spec} ({self.goal})"

    @property
    def is_default(self) -> bool:
        """Whether this is the first preset of the block, synthesised towards the default goal."""
        first = next(iter(BLOCKS[self.block].PRESETS))
        return self.goal == "area" and self.spec in (self.block, f"{self.block}:{first}")


def build(context: Context) -> Page:
    records, stale = context.synthesised, context.stale
    variants = _variants(records, stale)
    technologies = sorted({record["technology"] for record in records.values()})
    families = _by_family(variants)
    sections = [
        section(_title(name), _metrics_table(members, technologies))
        for name, members in families.items()
    ]
    body = join(
        [
            _explanation(),
            *sections,
            section("Area against delay", *(_area_delay(families, t) for t in technologies)),
            _ratios(variants),
            _sources(records, stale),
        ]
    )
    return Page(
        summary=f"Area, delay and registers of {len(variants)} variants of blocks"
        f" in {len(technologies)} technologies."
        if variants
        else "There is no synthesis record yet.",
        body=body,
        data={"records": records, "stale": stale},
        problems=_problems(records, stale),
    )


def _variants(records: dict[str, dict[str, Any]], stale: dict[str, str]) -> list[Variant]:
    variants: dict[tuple[str, str], Variant] = {}
    for name, record in records.items():
        spec, goal = record["spec"], record["goal"]
        variant = variants.setdefault((spec, goal), Variant(spec, record["block"], goal, {}, set()))
        variant.metrics[record["technology"]] = record["metrics"]
        if name in stale:
            variant.stale.add(record["technology"])
    return list(variants.values())


def _problems(records: dict[str, dict[str, Any]], stale: dict[str, str]) -> list[str]:
    match list(stale.items()):
        case []:
            return []
        case [(name, command)]:
            return [f"{name} no longer describes its block; to renew it: {command}"]
        case several:
            return [
                f"{len(several)} of {len(records)} records no longer describe their blocks;"
                " to renew them: tilewright synth --all --stale --update-records"
            ]


def _by_family(variants: list[Variant]) -> dict[str, list[Variant]]:
    """The variants by family, arithmetic and streams first, the smallest variant first in each."""
    order = ["arith", "stream"]
    families = sorted(
        {family(BLOCKS[variant.block]) for variant in variants},
        key=lambda name: (order.index(name) if name in order else len(order), name),
    )
    return {
        name: sorted(
            (variant for variant in variants if family(BLOCKS[variant.block]) == name),
            key=lambda variant: min(m["area"]["value"] for m in variant.metrics.values()),
        )
        for name in families
    }


def _title(family_name: str) -> str:
    return TITLES.get(family_name, family_name.capitalize())


def _explanation() -> Markup:
    return paragraph(
        "Delay is the longest path of the mapped netlist: the path through the block where it has"
        " no registers, otherwise the shortest clock period. Neither area nor delay includes wires."
        " How far the cell tables are from the libraries they were made from is on the page",
        link("technology.html", "Technologies"),
    )


def _metrics_table(variants: list[Variant], technologies: list[str]) -> Markup:
    columns = [(t, m) for t in technologies for m in ("area", "delay", "cells")]
    unit_of = {
        (t, m): u.metrics[t][m]["unit"] for u in variants for t, m in columns if t in u.metrics
    }
    return table(
        (
            "Block",
            "Register bits",
            *(f"{_with_unit(m, unit_of[t, m])}, {t}" for t, m in columns if (t, m) in unit_of),
        ),
        [
            (
                Markup(f"{code(variant.name)} {verdict(False, 'stale')}")
                if variant.stale
                else code(variant.name),
                _registers(variant),
                *(variant.value(t, m) for t, m in columns if (t, m) in unit_of),
            )
            for variant in variants
        ],
    )


def _registers(variant: Variant) -> int | str:
    """Technologies may differ: constant and doubled registers are found by different mappings."""
    found = sorted({m["register_bits"]["value"] for m in variant.metrics.values()})
    return found[0] if len(found) == 1 else " / ".join(map(str, found))


def _with_unit(metric: str, unit: str) -> str:
    name = metric.capitalize()
    return name if metric == unit else f"{name}, {UNITS.get(unit, unit)}"


def _area_delay(families: dict[str, list[Variant]], technology: str) -> Markup:
    """Blocks that are wires alone (no area or no delay) have no place on logarithmic axes."""
    points = {
        _title(name): [
            (variant.name, area, delay)
            # Where words would cover each other the first come are served.
            for variant in sorted(variants, key=lambda variant: not variant.is_default)
            if (area := variant.value(technology, "area"))
            and (delay := variant.value(technology, "delay"))
        ]
        for name, variants in families.items()
    }
    drawing = scatter(
        f"area-delay-{technology}",
        {title: found for title, found in points.items() if found},
        x_label="area, µm²",
        y_label="delay, ps",
    )
    return figure(
        drawing,
        f"Every preset in {technology}, named where there is room. Both axes are logarithmic.",
    )


def _ratios(variants: list[Variant]) -> Markup:
    """Area and delay relative to the reference: how far the technologies agree on a design."""
    reference = next((u for u in variants if u.name == REFERENCE), None)
    if reference is None:
        return Markup("")
    technologies = sorted(reference.metrics)
    figures = []
    for metric in ("area", "delay"):
        shown = [
            variant
            for variant in variants
            if variant.is_default and all(variant.value(t, metric) for t in technologies)
        ]
        shown.sort(key=lambda variant: variant.metrics[technologies[0]][metric]["value"])
        relative = {
            t: [
                u.metrics[t][metric]["value"] / reference.metrics[t][metric]["value"] for u in shown
            ]
            for t in technologies
        }
        label = f"{metric}, relative to {REFERENCE}"
        figures.append(
            figure(
                dot_rows(f"{metric}-ratio", [u.name for u in shown], relative, x_label=label),
                f"{metric.capitalize()} of each block's default preset divided by that of"
                f" {REFERENCE} in the same technology. Where the markers lie together, the"
                " technologies agree.",
            )
        )
    return section(f"Relative to {REFERENCE}", *figures)


def _sources(records: dict[str, dict[str, Any]], stale: dict[str, str]) -> Markup:
    if not records:
        return paragraph("There is no record in", code("synth/records"))
    return section(
        "Where these numbers come from",
        paragraph(
            "The numbers are those of committed records,",
            Markup(f"{code('synth/records/synthesis.*.json')}, made by"),
            Markup(f"{code('tilewright synth --update-records')}."),
            "A record is fresh if the block, elaborated again while this page was built, gives the"
            " recorded RTLIL byte for byte, and flow, cell table and tools are the same.",
        ),
        table(
            ("Record", "State", "Tools", "Command to renew it"),
            [
                (
                    code(name),
                    verdict(name not in stale, "stale" if name in stale else "fresh"),
                    ", ".join(f"{tool} {v}" for tool, v in record["tools"].items()),
                    stale.get(name) and code(stale[name]),
                )
                for name, record in records.items()
            ],
        ),
    )
