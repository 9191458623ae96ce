"""Harmonia: PEs for block floating point on both sides, converters, attention."""

from tilewright.claims import facts, load_claims
from tilewright.report.design import design_page
from tilewright.report.drawings.harmonia import draw
from tilewright.report.html import figure
from tilewright.report.page import Context, Page
from tilewright.report.system_area import area_section, recorded_areas
from tilewright.report.system_clock import clock_section

TITLE = "Harmonia"
POSITION = 14

# Parts of the accelerator and their modules; the paper gives the area of all of them only.
PARTS = {
    "array_and_operands": ("array", "feeder", "results"),
    "conversion": ("conversion",),
    "vector": ("vector",),
    "activation_buffer": ("activations",),
    "fp16_buffer": ("halves",),
    "others": ("controller", "fetcher", "registers", "loader", "storer", "watchdog", ""),
}
PAPER_NODE = 28  # nm


def build(context: Context) -> Page:
    areas = recorded_areas("harmonia", PARTS)
    return design_page(
        context,
        "Block floating point in linear layers and attention: blocks, cycles, area.",
        ("harmonia", "harmonia_machine"),
        figure(draw().svg(), "The accelerator with its default sizes; storage is blue."),
        area_section("harmonia", areas, load_claims("harmonia")["harmonia.area"], PAPER_NODE),
        clock_section("harmonia", "300MHz"),
        claims=facts("harmonia"),
        data={"system_area_mm2": areas},
    )
