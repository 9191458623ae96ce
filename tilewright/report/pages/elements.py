"""The processing elements that Anda and Harmonia are compared with."""

from tilewright.report.design import design_page
from tilewright.report.page import Context, Page

TITLE = "Baseline elements"
POSITION = 65


def build(context: Context) -> Page:
    return design_page(
        context,
        "Processing elements for fp16 activations by earlier designs, in one flow with ours.",
        ("pe",),
        paper="pe",
        reference="pe_fp_fp",
    )
