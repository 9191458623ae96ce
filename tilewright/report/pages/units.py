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

TITLE = "Units"
POSITION = 30

REFERENCE = "float_mul:bf16"  # what the others are compared with
FAMILIES = {"arith": "Arithmetic", "stream": "Streams"}  # others appear under their own name
UNITS = {"um2": "µm²"}


@dataclass(frozen=True)
class Unit:
    """One block as synthesised towards one goal, in every technology it has a record for."""

    spec: str
    block: str
    goal: str
    metrics: dict[str, dict[str, dict[str, Any]]]  # technology -> metric -> value, unit, better
    stale: set[str]  # technologies whose record is of an earlier RTL

    def value(self, technology: str, metric: str) -> float | None:
        entry = self.metrics.get(technology, {}).get(metric)
        return None if entry is None else entry["value"]

    @property
    def name(self) -> str:
        return self.spec if self.goal == "area" else f"{self.spec} ({self.goal})"

    @property
    def is_default(self) -> bool:
        """Whether this is the block as it comes: first preset, default goal."""
        first = next(iter(BLOCKS[self.block].PRESETS))
        return self.goal == "area" and self.spec in (self.block, f"{self.block}:{first}")


def build(context: Context) -> Page:
    records, stale = context.synthesised, context.stale
    units = _units(records, stale)
    technologies = sorted({record["technology"] for record in records.values()})
    families = _by_family(units)
    sections = [
        section(_title(name), _metrics_table(members, technologies))
        for name, members in families.items()
    ]
    body = join(
        [
            _explanation(),
            *sections,
            section("Area against delay", *(_area_delay(families, t) for t in technologies)),
            _ratios(units),
            _sources(records, stale),
        ]
    )
    return Page(
        summary=f"{len(units)} blocks in {len(technologies)} technologies: area, delay, registers."
        if units
        else "No synthesis record yet.",
        body=body,
        data={"records": records, "stale": stale},
        problems=_problems(records, stale),
    )


def _units(records: dict[str, dict[str, Any]], stale: dict[str, str]) -> list[Unit]:
    units: dict[tuple[str, str], Unit] = {}
    for name, record in records.items():
        spec, goal = record["spec"], record["goal"]
        unit = units.setdefault((spec, goal), Unit(spec, record["block"], goal, {}, set()))
        unit.metrics[record["technology"]] = record["metrics"]
        if name in stale:
            unit.stale.add(record["technology"])
    return list(units.values())


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


def _by_family(units: list[Unit]) -> dict[str, list[Unit]]:
    """Families in the order above, the smallest unit first in each."""
    order = list(FAMILIES)
    families = sorted(
        {family(BLOCKS[unit.block]) for unit in units},
        key=lambda name: (order.index(name) if name in order else len(order), name),
    )
    return {
        name: sorted(
            (unit for unit in units if family(BLOCKS[unit.block]) == name),
            key=lambda unit: min(m["area"]["value"] for m in unit.metrics.values()),
        )
        for name in families
    }


def _title(family_name: str) -> str:
    return FAMILIES.get(family_name, family_name.capitalize())


def _explanation() -> Markup:
    return paragraph(
        "Delay is the longest path of the mapped netlist: through the block where it has no"
        " registers, otherwise the least clock period. No wires are counted, neither in area nor in"
        " delay. What the cell tables are worth:",
        link("technology.html", "Technologies"),
    )


def _metrics_table(units: list[Unit], technologies: list[str]) -> Markup:
    columns = [(t, m) for t in technologies for m in ("area", "delay", "cells")]
    unit_of = {(t, m): u.metrics[t][m]["unit"] for u in units for t, m in columns if t in u.metrics}
    return table(
        (
            "Block",
            "Registers, bits",
            *(f"{t} {_with_unit(m, unit_of[t, m])}" for t, m in columns if (t, m) in unit_of),
        ),
        [
            (
                Markup(f"{code(unit.name)} {verdict(False, 'stale')}")
                if unit.stale
                else code(unit.name),
                _registers(unit),
                *(unit.value(t, m) for t, m in columns if (t, m) in unit_of),
            )
            for unit in units
        ],
    )


def _registers(unit: Unit) -> int | str:
    """Technologies may differ: constant and doubled registers are found by different mappings."""
    found = sorted({m["register_bits"]["value"] for m in unit.metrics.values()})
    return found[0] if len(found) == 1 else " / ".join(map(str, found))


def _with_unit(metric: str, unit: str) -> str:
    return metric if metric == unit else f"{metric}, {UNITS.get(unit, unit)}"


def _area_delay(families: dict[str, list[Unit]], technology: str) -> Markup:
    """Blocks that are wires alone (no area or no delay) have no place on logarithmic axes."""
    points = {
        _title(name): [
            (unit.name, area, delay)
            # Where words would cover each other the first come are served.
            for unit in sorted(units, key=lambda unit: not unit.is_default)
            if (area := unit.value(technology, "area"))
            and (delay := unit.value(technology, "delay"))
        ]
        for name, units in families.items()
    }
    drawing = scatter(
        f"area-delay-{technology}",
        {title: found for title, found in points.items() if found},
        x_label="area, µm²",
        y_label="delay, ps",
    )
    return figure(
        drawing, f"{technology}, every preset; names where there is room. Both axes logarithmic."
    )


def _ratios(units: list[Unit]) -> Markup:
    """Area and delay as multiples of the reference's: how alike technologies judge a design."""
    reference = next((u for u in units if u.name == REFERENCE), None)
    if reference is None:
        return Markup("")
    technologies = sorted(reference.metrics)
    figures = []
    for metric in ("area", "delay"):
        shown = [
            unit
            for unit in units
            if unit.is_default and all(unit.value(t, metric) for t in technologies)
        ]
        shown.sort(key=lambda unit: unit.metrics[technologies[0]][metric]["value"])
        relative = {
            t: [
                u.metrics[t][metric]["value"] / reference.metrics[t][metric]["value"] for u in shown
            ]
            for t in technologies
        }
        label = f"{metric} as a multiple of {REFERENCE}'s"
        figures.append(
            figure(
                dot_rows(f"{metric}-ratio", [u.name for u in shown], relative, x_label=label),
                f"{metric.capitalize()} of each block's default preset divided by that of"
                f" {REFERENCE} in the same technology: where the markers lie together, both"
                " technologies judge alike.",
            )
        )
    return section(f"Relative to {REFERENCE}", *figures)


def _sources(records: dict[str, dict[str, Any]], stale: dict[str, str]) -> Markup:
    if not records:
        return paragraph("No record in", code("synth/records"))
    return section(
        "Where these numbers come from",
        paragraph(
            "Committed records, made by",
            code("tilewright synth --update-records"),
            "and called fresh if the block, built again while this page was made, is to the byte of"
            " its RTLIL the one recorded, with the same cell table and tools.",
        ),
        table(
            ("Record in synth/records", "State", "Made with", "To renew it"),
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
