"""Anda: bit-plane compressor, bit-serial processing units and the accelerator around them."""

from typing import Any

from synth.scaling import area_factor
from synth.system import load_system
from synth.technology import TECHNOLOGIES, load_technology
from tilewright.report.claims import claims_source, load_claims
from tilewright.report.design import design_page
from tilewright.report.drawings.anda import draw
from tilewright.report.html import Markup, code, figure, join, note, paragraph, section, table
from tilewright.report.page import Context, Page

TITLE = "Anda"
POSITION = 60

# The paper's parts and the modules of ours that do their work.
PARTS = {
    "mxu": ("matrix", "matrix_feeder"),
    "compressor": ("collector",),
    "vector": ("vector", "vector_feeder"),
    "activation_buffer": ("activations",),
    "weight_buffer": ("weights",),
    "others": ("controller", "registers", "dma", ""),
}
UM2_PER_MM2 = 1e6
PAPER_NODE = 16  # nm


def build(context: Context) -> Page:
    areas = {
        name: by_paper_part(record)
        for name in TECHNOLOGIES
        if (record := load_system("anda", load_technology(name))) is not None
    }
    return design_page(
        context,
        "Variable-length block floating point in bit planes: blocks, cycles, area.",
        ("anda", "anda_vector", "anda_system"),
        figure(draw().svg(), "The accelerator with its default sizes. Blue: storage."),
        _system(areas),
        paper="anda",
        data={"system_area_mm2": areas},
    )


def by_paper_part(record: dict[str, Any]) -> dict[str, float]:
    """mm2 of each of the paper's parts; every module of ours is in one of them."""
    modules = {name: a["logic"] + a["memory"] for name, a in record["parts"].items()}
    areas = {part: sum(modules.pop(n) for n in names) for part, names in PARTS.items()}
    if modules:
        raise ValueError(f"no part of the paper for {', '.join(modules)}")
    return {part: area / UM2_PER_MM2 for part, area in areas.items()}


def _system(areas: dict[str, dict[str, float]]) -> Markup:
    claim = load_claims("anda")["anda.area"]
    columns = {f"paper, {PAPER_NODE} nm": claim.value, **areas}
    rows = []
    for part in PARTS:
        row: list[Any] = [part.replace("_", " ")]
        for values in columns.values():
            row += [round(values[part], 4), round(100 * values[part] / sum(values.values()), 1)]
        rows.append(row)
    total: list[Any] = ["all"]
    for values in columns.values():
        total += [round(sum(values.values()), 4), 100.0]
    whole = sum(claim.value.values())
    scaled: list[Any] = ["paper's all at this node", round(whole, 4), ""]
    for name in areas:
        factor = area_factor(PAPER_NODE, load_technology(name).node)
        scaled += [round(whole * factor, 4), ""]
    header = ["Part", *(h for name in columns for h in (f"{name}: mm2", "%"))]
    command = code("tilewright synth anda --system --update-records")
    return section(
        "Area of the accelerator",
        paragraph(
            "Every module mapped by itself for the least area, memories by the technology's model;"
            " nothing is placed. Shares compare across nodes, areas do not; the last row is the"
            " paper's total by the factors of",
            code("synth/scaling.py"),
        ),
        table(header, [*rows, total, scaled]),
        join(
            [
                note("Source:", code("synth/records/system"), "made by", command),
                claims_source("anda", claim),
            ]
        ),
    )
