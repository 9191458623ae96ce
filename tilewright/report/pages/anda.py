"""Anda: bit-plane compressor, bit-serial processing units and the accelerator around them."""

from tilewright.report.design import design_page
from tilewright.report.drawings.anda import draw
from tilewright.report.html import figure
from tilewright.report.page import Context, Page

TITLE = "Anda"
POSITION = 60


def build(context: Context) -> Page:
    return design_page(
        context,
        "Variable-length block floating point in bit planes: blocks, cycles, area.",
        ("anda", "anda_vector", "anda_system"),
        figure(draw().svg(), "The accelerator with its default sizes. Blue: storage."),
        paper="anda",
    )
