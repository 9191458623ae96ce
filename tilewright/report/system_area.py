"""The area of a whole accelerator by part, beside the area in its paper."""

from collections.abc import Mapping
from typing import Any

from tilewright.claims import Claim
from tilewright.report.claims import claims_source
from tilewright.report.html import Markup, code, join, note, paragraph, section, table
from tilewright.synth.scaling import area_factor
from tilewright.synth.system import load_system
from tilewright.synth.technology import TECHNOLOGIES, load_technology

__all__ = ["area_by_part", "area_section", "recorded_areas"]

UM2_PER_MM2 = 1e6

Parts = Mapping[str, tuple[str, ...]]  # a part, and the modules of ours that do its work


def recorded_areas(spec: str, parts: Parts) -> dict[str, dict[str, float]]:
    """The area of each part in mm2, by technology; technologies without a record are left out."""
    return {
        name: area_by_part(record, parts)
        for name in TECHNOLOGIES
        if (record := load_system(spec, name)) is not None
    }


def area_by_part(record: dict[str, Any], parts: Parts) -> dict[str, float]:
    """The area of each part in mm2; every module of the record belongs to one part."""
    modules = {name: a["logic"] + a["memory"] for name, a in record["parts"].items()}
    # A record of an earlier structure lacks modules that there are now.
    areas = {part: sum(modules.pop(n, 0.0) for n in names) for part, names in parts.items()}
    if modules:
        raise ValueError(f"no part for {', '.join(modules)}")
    return {part: area / UM2_PER_MM2 for part, area in areas.items()}


def area_section(
    spec: str, areas: Mapping[str, dict[str, float]], claim: Claim, node: int
) -> Markup:
    """Show ``areas``, as :func:`recorded_areas` gives them, beside ``claim`` at ``node`` nm.

    The value of the claim is the area of each part, or only their sum.
    """
    if not areas:
        return Markup("")
    theirs = claim.numbers if isinstance(claim.value, dict) else {}
    whole = sum(theirs.values()) if theirs else claim.number
    columns = {f"Paper, {node} nm": theirs, **areas}
    totals = [whole, *(sum(values.values()) for values in areas.values())]
    rows = []
    for part in next(iter(areas.values())):
        row: list[Any] = [part.replace("_", " ")]
        for values, total in zip(columns.values(), totals, strict=True):
            area = values.get(part)
            row += [None, None] if area is None else [round(area, 4), round(100 * area / total, 1)]
        rows.append(row)
    rows.append(["all", *(x for total in totals for x in (round(total, 4), 100.0))])
    scaled = [whole * area_factor(node, load_technology(name).node) for name in areas]
    rows.append(
        [
            "the paper's sum, scaled to the node",
            *(x for area in (whole, *scaled) for x in (round(area, 4), None)),
        ]
    )
    header = ["Part", *(h for name in columns for h in (f"{name}, mm²", f"{name}, %"))]
    command = code(f"tilewright synth {spec} --system --update-records")
    return section(
        "Area of the accelerator",
        paragraph(
            "Every module is mapped by itself for the least area, and memories are those of the"
            " technology's model; nothing is placed. Shares can be compared across nodes, areas"
            " cannot: the last row scales the paper's sum to each node with the factors of",
            Markup(f"{code('synth/scaling.py')}."),
        ),
        table(header, rows),
        join(
            [
                note("Source:", code("synth/records/system.*.json"), "made by", command),
                claims_source(claim),
            ]
        ),
    )
