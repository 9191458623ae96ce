"""Designs of the user's own and ours, from the names in ``TILEWRIGHT_DESIGNS``."""

import json
import os
from functools import cache

from tilewright.base.table import Column, Table
from tilewright.site.pes import FIGURES
from tilewright.studies.own_designs import OwnDesigns, read_designs
from tilewright.studies.pe.format_accuracy import compare_formats

DESIGNS = "TILEWRIGHT_DESIGNS"  # a list in JSON, which `tilewright report --with` sets
MODEL = "llama-3.2-1b"
ROWS = 16  # of the Roof-Surface
BOUND: dict[str, Column] = {
    "TFMA/s": "tera_fma_per_second",
    "Roofline": "roofline_tera_fma_per_second",
    "Bound": "bound",
}


@cache
def _own() -> OwnDesigns:
    return read_designs(json.loads(os.environ.get(DESIGNS, "[]")))


def pes() -> Table:
    """The PEs that were given, after some of ours."""
    return Table.of(_own().pe_rows(), FIGURES)


def formats() -> Table:
    """Errors of the formats that were given, after those of ours."""
    head = ("Format", "Bits a value", "Activations, dB", "Weights, dB", "Error of dots, %")
    return Table(head, [tuple(vars(row).values()) for row in compare_formats(_own().formats)])


def kernels() -> Table:
    """The Roof-Surface of a server by weight format."""
    return Table.of(_own().surface(ROWS).kernels, {"Scheme": "scheme", **BOUND})


def accelerators() -> Table:
    """Accelerators on the Roof-Surface."""
    return Table.of(_own().surface(ROWS).accelerators, {"Accelerator": "system", **BOUND})


def answers() -> Table:
    """A token of MODEL at a context of 1024 on all of them."""
    columns: dict[str, Column] = {
        "System": "system",
        "Engine": "engine",
        "Scheme": "scheme",
        "ms": "latency_ms",
        "Kind": "kind",
        "Formula, ms": "formula_ms",
        "Tokens/s": "tokens_per_second",
        "J/token": "joules_per_token",
        "Tokens/s/mm²": "tokens_per_second_per_mm2",
        "Bound": "bound",
    }
    return Table.of(_own().answers(MODEL), columns)
