"""The cell libraries behind the areas and delays, and how far the compact tables are from them."""

import tomllib
from pathlib import Path
from typing import Any

from tilewright.base.records import load_table
from tilewright.report.html import Markup, code, join, note, paragraph, section, table
from tilewright.report.page import Context, Page
from tilewright.synth import technology as tables

TITLE = "Technologies"
POSITION = 40

RECORD = "technology_deviation.json"
ABOUT = ("title", "corner", "licence", "supply_v", "fo4_delay_ps", "source")


def build(context: Context) -> Page:
    about = {name: _about(name) for name in tables.TECHNOLOGIES}
    deviation = load_table(context.records / RECORD)
    body = join([_libraries(about), *(_deviation(name, d) for name, d in deviation.items())])
    return Page(
        summary=f"{len(about)} open cell libraries, and the deviation of our compact tables.",
        body=body,
        data={"technologies": about, "deviation": deviation},
        problems=[
            f"no record of the deviation of {name}" for name in about if name not in deviation
        ],
    )


def _about(name: str) -> dict[str, Any]:
    text = (Path(tables.__file__).parent / "tech" / f"{name}.toml").read_text()
    whole = tomllib.loads(text)
    return {key: whole[key] for key in ABOUT} | {"cells": len(whole["cell"])}


def _libraries(about: dict[str, dict[str, Any]]) -> Markup:
    return section(
        "Cell libraries",
        table(
            ("Name", "Library", "Corner", "Cells", "FO4 delay, ps"),
            [
                (
                    code(name),
                    facts["title"],
                    facts["corner"],
                    facts["cells"],
                    facts["fo4_delay_ps"],
                )
                for name, facts in about.items()
            ],
        ),
        *(note(code(name), "licence:", facts["licence"]) for name, facts in about.items()),
        note("Source:", Markup(f"{code('synth/tech/*.toml')},"), "which name their library files."),
    )


def _percent(ratio: float) -> float:
    return round(100 * (ratio - 1), 1)


def _deviation(name: str, record: dict[str, Any]) -> Markup:
    rows = [
        (
            code(design),
            found["compact"]["area_um2"],
            found["full"]["area_um2"],
            _percent(found["area_ratio"]),
            found["compact"]["delay_ps"],
            found["full"]["delay_ps"],
            _percent(found["delay_ratio"]),
            _percent(found["delay_ratio_same_netlist"]),
        )
        for design, found in record["designs"].items()
    ]
    return section(
        f"{name}: compact table against full library",
        paragraph(
            "The same designs were synthesised with the compact table that this project carries"
            " and with the full library that it was made from. For the last column the netlist is"
            " the same too, so that only the tables differ."
        ),
        table(
            (
                *("Design", "Area, compact, µm²", "Area, full, µm²", "Area deviation, %"),
                *("Delay, compact, ps", "Delay, full, ps", "Delay deviation, %"),
                "Delay deviation, same netlist, %",
            ),
            rows,
        ),
        note(
            "Source:",
            code(f"synth/records/{RECORD}"),
            "made with",
            ", ".join(f"{tool} {version}" for tool, version in record["tools"].items()),
            "by",
            code(record["command"]),
        ),
    )
