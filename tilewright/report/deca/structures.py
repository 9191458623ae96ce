"""The storage of a DECA PE, beside the sizes of the paper's Table 3."""

from collections.abc import Mapping

from tilewright.claims import Claim
from tilewright.golden.params.deca import LUT_ENTRIES, TILE_BYTES
from tilewright.report.claims import claims_source
from tilewright.report.deca import PRESETS
from tilewright.report.html import Markup, code, note, paragraph, section, table

__all__ = ["structures_section"]

LUT_BYTES = LUT_ENTRIES * 2  # bf16 entries


def structures_section(claims: Mapping[str, Claim]) -> Markup:
    """Kind, size and number of every queue, output buffer and lookup table."""
    p, paper = PRESETS["paper"], claims["deca.table3.bytes"]
    line = p.line_bytes
    structures = {
        "SQQ": ("SRAM", p.sqq_lines * line, p.loaders, "sqq"),
        "bitmask queue": ("registers", p.mask_queue_lines * line, p.loaders, "bitmask_queue"),
        "scale queue": ("registers", p.scale_queue_lines * line, p.loaders, "scale_queue"),
        "TOut": ("SRAM", TILE_BYTES, p.loaders, "tout"),
        "big lookup table": ("SRAM, four parts", LUT_BYTES, p.luts, "big_lut"),
    }
    return section(
        "Structures",
        table(
            ("Structure", "Kind", "Size of one, B", "Number of them", "Paper, B"),
            [
                (name, kind, size, count, paper.numbers[key])
                for name, (kind, size, count, key) in structures.items()
            ],
        ),
        paragraph(
            f"A tile has {TILE_BYTES:,} bytes, so one TOut holds one tile. The next tile is written"
            " row by row behind the core, which reads the tile before it."
        ),
        note("Source: computed from", code("golden/params/deca.py"), "while this page was built."),
        claims_source(paper),
    )
