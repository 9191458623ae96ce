"""Anda: bit-plane compressor, bit-serial processing units and the accelerator around them."""

from tilewright.claims import facts, load_claims
from tilewright.report.design import design_page
from tilewright.report.drawings.anda import draw
from tilewright.report.html import figure
from tilewright.report.page import Context, Page
from tilewright.report.system_area import area_section, recorded_areas
from tilewright.report.system_clock import clock_section

TITLE = "Anda"
POSITION = 12

# The paper's parts and the modules of ours that do their work.
PARTS = {
    "mxu": ("matrix", "matrix_feeder"),
    "compressor": ("collector",),
    "vector": ("vector", "vector_feeder", "vector_writer"),
    "activation_buffer": ("activations",),
    "weight_buffer": ("weights",),
    "others": ("controller", "fetcher", "registers", "loader", "storer", "watchdog", ""),
}
PAPER_NODE = 16  # nm


def build(context: Context) -> Page:
    areas = recorded_areas("anda", PARTS)
    return design_page(
        context,
        "Block floating point of variable length in bit planes: blocks, cycles, area.",
        ("anda", "vector", "anda_machine"),
        figure(draw().svg(), "The accelerator with its default sizes; storage is blue."),
        area_section("anda", areas, load_claims("anda")["anda.area"], PAPER_NODE),
        clock_section("anda", "285MHz"),
        claims=facts("anda"),
        data={"system_area_mm2": areas},
    )
