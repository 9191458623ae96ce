"""A decoder layer of a real model through the RTL: what the records of its runs say."""

from collections.abc import Callable
from typing import Any

from tilewright.report.html import Markup, join, paragraph, section, table
from tilewright.report.measured import load_measured, measured_source, missing

__all__ = ["layer_section"]


def layer_section() -> Markup:
    """A table for each record; a run whose results differ from golden's makes no record."""
    parts = [
        paragraph(
            "Weights and activations of one decoder layer, taken from real text, went through the"
            " emitted Verilog of the designs at the papers' sizes. The results equal those of the"
            " golden models bit for bit."
        )
    ]
    for name, (title, show) in _PARTS.items():
        record = load_measured(name)
        if record is None:
            parts.append(missing(title, _COMMANDS[name]))
        else:
            where = f"{title}: layer {record['layer']} of {record['model']} on {record['block']}."
            parts += [paragraph(where), show(record), measured_source(name, record)]
    return section("Real tensors through the RTL", join(parts))


def _deca(record: dict[str, Any]) -> Markup:
    return table(
        ("Matrix", "Shape", "Scheme", "Density", "Tiles", "Size, B", "Cycles", "Cycles/tile"),
        [
            (
                m["matrix"],
                "x".join(map(str, m["shape"][:2])),
                m["scheme"],
                m["density"],
                *(m[key] for key in ("tiles", "bytes", "cycles", "cycles_per_tile")),
            )
            for m in record["matrices"]
        ],
    )


def _steps(record: dict[str, Any]) -> Markup:
    units = ("load", "store", "gemm", "vector", "convert")
    keys = ("cycles", *units, "lines_read", "lines_written")
    return table(
        (
            *("Token", "Tokens", "Cycles", "Load, cycles", "Store, cycles", "GEMM, cycles"),
            *("Vector, cycles", "Conversion, cycles", "Lines read", "Lines written"),
        ),
        [
            (s["first"], s["tokens"], *(s["counters"].get(key, 0) for key in keys))
            for s in record["steps"]
        ],
    )


_PARTS: dict[str, tuple[str, Callable[[dict[str, Any]], Markup]]] = {
    "deca_layer": ("Weights decompressed by the DECA PE", _deca),
    "anda_layer": ("Steps on the Anda accelerator", _steps),
    "harmonia_layer": ("Steps on the Harmonia accelerator", _steps),
}

_COMMANDS = {
    "deca_layer": "tilewright simulate deca.layer",
    "anda_layer": "tilewright simulate machine.layer --block anda",
    "harmonia_layer": "tilewright simulate machine.layer --block harmonia",
}
