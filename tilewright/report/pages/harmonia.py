"""Harmonia: elements for block floating point on both sides, converters, attention."""

from tilewright.report.design import design_page
from tilewright.report.drawings.harmonia import draw
from tilewright.report.html import figure
from tilewright.report.page import Context, Page

TITLE = "Harmonia"
POSITION = 70


def build(context: Context) -> Page:
    return design_page(
        context,
        "Block floating point in linear layers and attention: blocks, cycles, area.",
        ("harmonia", "harmonia_system"),
        figure(draw().svg(), "The accelerator with its default sizes. Blue: storage."),
        paper="harmonia",
    )
