"""Tables and figures of synthesis: blocks, families of designs, accelerators, cell libraries."""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.base.records import load_table
from tilewright.base.table import Column, Table, code
from tilewright.claims import find_claim
from tilewright.golden.params.describe import family
from tilewright.golden.params.resolve import BLOCKS, resolve
from tilewright.site.html import Markup
from tilewright.site.plots import frontier, scatter
from tilewright.studies.sweeps.frontiers import FRONTIERS, load_frontier, pareto
from tilewright.synth import technology as tables
from tilewright.synth.equivalence import Verdict
from tilewright.synth.record import RECORDS, load_records
from tilewright.synth.system import area_factor, load_system
from tilewright.synth.technology import TECHNOLOGIES, load_technology
from tilewright.synth.whole_timing import load_clock

TITLES = {  # of families; the others are capitalised
    "arith": "Arithmetic",
    "stream": "Streams",
    "deca": "DECA",
    "pe": "Processing elements",
    "vector": "Vector units",
}
METRICS = {"area": "area, µm²", "delay": "delay, ps"}
UM2_PER_MM2 = 1e6
PS_PER_GHZ = 1000.0  # a period in ps is this divided by the clock in GHz

# The paper's area, and its node in nm.
PAPER_AREAS = {"anda": ("anda.area", 16), "harmonia": ("harmonia.area", 28)}
# The papers' parts of an accelerator, and the modules of ours that do their work. Harmonia's paper
# gives the area of all of them only.
OTHERS = ("controller", "fetcher", "registers", "loader", "storer", "watchdog", "")
ACCELERATOR_PARTS = {
    "anda": {
        "mxu": ("matrix", "matrix_feeder"),
        "compressor": ("collector",),
        "vector": ("vector", "vector_feeder", "vector_writer"),
        "activation_buffer": ("activations",),
        "weight_buffer": ("weights",),
        "others": OTHERS,
    },
    "harmonia": {
        "array_and_operands": ("array", "feeder", "results"),
        "conversion": ("conversion",),
        "vector": ("vector",),
        "activation_buffer": ("activations",),
        "fp16_buffer": ("halves",),
        "others": OTHERS,
    },
}


@dataclass(frozen=True)
class Variant:
    """One block as synthesised towards one goal, in every technology it has a record for."""

    spec: str
    block: str
    goal: str
    metrics: dict[str, dict[str, float]]  # technology -> metric -> value

    @property
    def name(self) -> str:
        """The block as the command line writes it, with its goal where that is not area."""
        return self.spec if self.goal == "area" else f"{self.spec} ({self.goal})"

    @property
    def family(self) -> str:
        """The title of its family."""
        name = family(BLOCKS[self.block])
        return TITLES.get(name, name.capitalize())

    @property
    def is_default(self) -> bool:
        """Whether this is the first preset of the block, synthesised towards the default goal."""
        first = next(iter(BLOCKS[self.block].PRESETS))
        return self.goal == "area" and self.spec in (self.block, f"{self.block}:{first}")

    def value(self, technology: str, metric: str) -> float | None:
        """The value of a metric in a technology; None if there is no record."""
        return self.metrics.get(technology, {}).get(metric)


def values(record: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of a record without their units."""
    return {name: entry["value"] for name, entry in record["metrics"].items()}


def variants(records: Iterable[Mapping[str, Any]] | None = None) -> list[Variant]:
    """Every recorded variant, the smallest first."""
    found: dict[tuple[str, str], Variant] = {}
    for record in load_records().values() if records is None else records:
        spec, goal = record["spec"], record["goal"]
        variant = found.setdefault((spec, goal), Variant(spec, record["block"], goal, {}))
        variant.metrics[record["technology"]] = values(record)
    return sorted(found.values(), key=lambda v: min(m["area"] for m in v.metrics.values()))


def families() -> list[str]:
    """Titles of the families that have records, arithmetic and streams first."""
    first = list(TITLES.values())[:2]
    names = {variant.family for variant in variants()}
    return [*first, *sorted(names - {*first})]


def blocks(family_title: str) -> Table:
    """Registers of every variant of a family; area, delay and cells in each technology."""
    columns: dict[str, Column] = {"Block": lambda v: code(v.name), "Register bits": _registers}
    for technology in TECHNOLOGIES:
        for metric, title in (*METRICS.items(), ("cells", "cells")):
            columns[f"{title.capitalize()}, {technology}"] = _metric(technology, metric)
    return Table.of((v for v in variants() if v.family == family_title), columns)


def _metric(technology: str, metric: str) -> Callable[[Variant], float | None]:
    return lambda variant: variant.value(technology, metric)


def _registers(variant: Variant) -> float | str:
    """Technologies may differ: constant and doubled registers are found by different mappings."""
    found = sorted({metrics["register_bits"] for metrics in variant.metrics.values()})
    return found[0] if len(found) == 1 else " / ".join(map(str, found))


def area_against_delay(technology: str) -> Markup:
    """Every variant, default presets named first where there is room.

    Wires alone, which have no area or no delay, have no place on logarithmic axes.
    """
    points: dict[str, list[tuple[str, float, float]]] = {}
    for variant in sorted(variants(), key=lambda v: not v.is_default):
        area, delay = (variant.value(technology, metric) for metric in METRICS)
        if area and delay:
            points.setdefault(variant.family, []).append((variant.name, area, delay))
    title = f"Area and delay of every preset in {technology}"
    return scatter(title, points, x_label=METRICS["area"], y_label=METRICS["delay"])


def longest_paths(*names: str) -> Table:
    """Figures and longest path of every record of these blocks."""
    columns: dict[str, Column] = {
        "Block": lambda r: code(r["spec"]),
        "Technology": "technology",
        "Goal": "goal",
        "Area, µm²": lambda r: values(r)["area"],
        "Memory area, µm²": lambda r: values(r)["memory_area"],
        "Register bits": lambda r: values(r)["register_bits"],
        "Memory bits": lambda r: values(r)["memory_bits"],
        "Delay, ps": lambda r: values(r)["delay"],
        "Clock, GHz": lambda r: PS_PER_GHZ / values(r)["delay"] if values(r)["delay"] else None,
        "Path starts at": lambda r: code(r["longest_path"]["start"]) if r["longest_path"] else None,
        "Path ends at": lambda r: code(r["longest_path"]["end"]) if r["longest_path"] else None,
    }
    return Table.of((r for r in load_records().values() if r["block"] in names), columns)


def by_group(parts: Mapping[str, float], groups: Mapping[str, str]) -> dict[str, float]:
    """Sum the parts whose name matches the pattern of each group; the first match counts.

    The group ``rest`` takes what no pattern matches.
    """
    sums = dict.fromkeys([*groups, "rest"], 0.0)
    for part, value in parts.items():
        group = next((name for name, pattern in groups.items() if re.match(pattern, part)), "rest")
        sums[group] += value
    return sums


def recorded_frontiers() -> list[tuple[str, str]]:
    """Names of the families of designs that were swept, with each technology."""
    return [
        (name, technology)
        for name, family_of_designs in FRONTIERS.items()
        for technology in family_of_designs.technologies
        if load_frontier(name, technology) is not None
    ]


def frontiers() -> Iterator[Markup]:
    """Area and throughput of every family of designs, in each technology."""
    for name, technology in recorded_frontiers():
        family_of_designs = FRONTIERS[name]
        designs = load_frontier(name, technology) or []
        papers = {resolve(spec) for spec in family_of_designs.papers}
        chosen = [d for d in designs if resolve(d.spec) in papers]
        yield frontier(
            f"{family_of_designs.title}, {technology}",
            [(d.area, d.throughput) for d in designs],
            [(d.area, d.throughput) for d in pareto(designs)],
            [(_settings(d.spec), d.area, d.throughput) for d in chosen],
            x_label=METRICS["area"],
            y_label=f"throughput, {family_of_designs.unit}",
        )


def frontier_designs(name: str, technology: str) -> Table:
    """The best designs of a family, and those of papers."""
    family_of_designs = FRONTIERS[name]
    designs = load_frontier(name, technology) or []
    best = pareto(designs)
    papers = {resolve(spec): claim for spec, claim in family_of_designs.papers.items()}
    named = {d: papers[resolve(d.spec)] for d in designs if resolve(d.spec) in papers}
    columns: dict[str, Column] = {
        "Design": lambda d: code(_settings(d.spec)),
        "Goal": "goal",
        "Area, µm²": "area",
        "Delay, ps": "delay",
        f"Throughput, {family_of_designs.unit}": "throughput",
        "Best": lambda d: d in best,
        "Paper": lambda d: f"{named[d].where}: {named[d].note}" if d in named else "",
    }
    shown = sorted({*best, *named}, key=lambda d: d.area)
    return Table.of(shown, columns)


def _settings(spec: str) -> str:
    """The settings of a design, without its block."""
    return ", ".join(spec.split(",")[1:])


def proofs() -> Table:
    """Netlists by what is known of their equivalence with the RTL."""
    records = load_records().values()
    counts = Counter(Verdict(r["proof"]["verdict"]) for r in records if "proof" in r)
    return Table(("Verdict", "Netlists"), [(verdict.value, n) for verdict, n in counts.items()])


def area_by_part(
    record: Mapping[str, Any], groups: Mapping[str, tuple[str, ...]]
) -> dict[str, float]:
    """The area of each part in mm2; every module of the record belongs to one part."""
    modules = {name: a["logic"] + a["memory"] for name, a in record["parts"].items()}
    areas = {part: sum(modules.pop(n, 0.0) for n in names) for part, names in groups.items()}
    if modules:
        raise ValueError(f"no part for {', '.join(modules)}")
    return {part: area / UM2_PER_MM2 for part, area in areas.items()}


def accelerator_area(block: str) -> Table:
    """Areas of the parts of an accelerator and those of its paper.

    The last row scales the paper's sum to the node of each technology.
    """
    name, node = PAPER_AREAS[block]
    claim = find_claim(name)
    theirs = claim.numbers if isinstance(claim.value, dict) else {}  # or only their sum
    whole = sum(theirs.values()) if theirs else claim.number
    areas = {
        technology: area_by_part(record, ACCELERATOR_PARTS[block])
        for technology in TECHNOLOGIES
        if (record := load_system(block, technology)) is not None
    }
    columns = {f"Paper, {node} nm": theirs, **areas}
    totals = [whole, *(sum(found.values()) for found in areas.values())]
    header = ["Part", *(h for name in columns for h in (f"{name}, mm²", f"{name}, %"))]
    rows: list[list[Any]] = []
    for part in ACCELERATOR_PARTS[block]:
        row: list[Any] = [part.replace("_", " ")]
        for found, total in zip(columns.values(), totals, strict=True):
            area = found.get(part)
            row += [None, None] if area is None else [round(area, 4), round(100 * area / total, 1)]
        rows.append(row)
    scaled = [whole * area_factor(node, load_technology(name).node) for name in areas]
    sums = {"all": (totals, 100.0), "the paper's sum, scaled to the node": ([whole, *scaled], None)}
    for title, (values_of_row, share) in sums.items():
        rows.append([title, *(x for value in values_of_row for x in (round(value, 4), share))])
    return Table(header, rows)


def clock_paths(block: str) -> Table:
    """The longest path into each part of an accelerator's netlist, in asap7."""
    record = load_clock(block, "asap7") or {"parts_ps": {}}
    rows = [(part or "the top", round(ps)) for part, ps in record["parts_ps"].items()]
    return Table(("Paths that end in", "Longest, ps"), rows)


def libraries() -> Table:
    """The cell libraries."""
    columns: dict[str, Column] = {
        "Name": lambda item: code(item[0]),
        "Library": lambda item: item[1]["title"],
        "Corner": lambda item: item[1]["corner"],
        "Cells": lambda item: len(item[1]["cell"]),
        "FO4 delay, ps": lambda item: item[1]["fo4_delay_ps"],
        "Licence": lambda item: item[1]["licence"],
    }
    folder = Path(tables.__file__).parent / "tech"
    found = {name: tomllib.loads((folder / f"{name}.toml").read_text()) for name in TECHNOLOGIES}
    return Table.of(found.items(), columns)


def deviation(technology: str) -> Table:
    """Designs by the compact cell table and by the full library that it was made from.

    For the last column the netlist is the same too, so that only the tables differ.
    """
    record = load_table(RECORDS / "technology_deviation.json")[technology]
    columns: dict[str, Column] = {
        "Design": lambda item: code(item[0]),
        "Area, compact, µm²": lambda item: item[1]["compact"]["area_um2"],
        "Area, full, µm²": lambda item: item[1]["full"]["area_um2"],
        "Area deviation, %": lambda item: _percent(item[1]["area_ratio"]),
        "Delay, compact, ps": lambda item: item[1]["compact"]["delay_ps"],
        "Delay, full, ps": lambda item: item[1]["full"]["delay_ps"],
        "Delay deviation, %": lambda item: _percent(item[1]["delay_ratio"]),
        "Same netlist, %": lambda item: _percent(item[1]["delay_ratio_same_netlist"]),
    }
    return Table.of(record["designs"].items(), columns)


def _percent(ratio: float) -> float:
    return round(100 * (ratio - 1), 1)
