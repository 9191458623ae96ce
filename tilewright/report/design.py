"""A page about one design, from what the project knows about its blocks.

A design with more to tell adds its own sections; see ``pages/deca.py``.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from tilewright.claims import Claim
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.describe import BlockDescription, describe, family
from tilewright.golden.params.resolve import BLOCKS
from tilewright.report.claims import claims_section
from tilewright.report.hardware import (
    design_records,
    figures_table,
    longest_paths,
    records_wanted,
    relative_table,
)
from tilewright.report.html import Markup, code, join, note, paragraph, section, table
from tilewright.report.page import Context, Page

__all__ = ["blocks_of", "design_page"]


def blocks_of(families: Sequence[str]) -> list[type[BlockParams]]:
    """The blocks whose parameters live in these modules of ``tilewright.golden.params``."""
    return [cls for cls in BLOCKS.values() if family(cls) in families]


def design_page(
    context: Context,
    summary: str,
    families: Sequence[str],
    *sections: Markup,
    claims: Iterable[Claim] = (),
    reference: str | None = None,
    data: dict[str, Any] | None = None,
) -> Page:
    """Put together a page of ``sections``, the blocks, their synthesis and ``claims`` of papers.

    The areas and delays of the blocks are also shown relative to those of ``reference``.
    """
    classes = blocks_of(families)
    blocks = [describe(cls()) for cls in classes]
    records = design_records(context, [cls.block for cls in classes])
    stated = {claim.id: claim for claim in claims}
    # Through JSON and back: a page's data are plain JSON, which has no tuples.
    described = json.loads(json.dumps([asdict(block) for block in blocks]))
    shown: dict[str, Any] = {"blocks": described, "synthesis": records}
    shown |= data or {}
    if stated:
        shown["claims"] = {name: c.value for name, c in stated.items()}
    return Page(
        summary=summary,
        body=join(
            [
                *sections,
                _blocks(blocks),
                _synthesis(context, classes, records, reference),
                claims_section(stated.values()),
            ]
        ),
        data=shown,
    )


def _blocks(blocks: Sequence[BlockDescription]) -> Markup:
    if not blocks:
        return Markup("")
    rows = []
    for block in blocks:
        timing = block.timing
        rows.append(
            (
                code(block.block),
                block.summary,
                ", ".join(preset.name for preset in block.presets),
                timing.latency_cycles,
                timing.interval_cycles,
                timing.note,
            )
        )
    return section(
        "Blocks",
        paragraph(
            "Latency and interval are those of the first preset; the tests measure both on the RTL."
            " A dash means that they depend on the data, as the last column says. For the details"
            " of a block:",
            code("tilewright list BLOCK"),
        ),
        table(
            (
                *("Block", "Summary", "Presets", "Latency, cycles", "Interval, cycles"),
                "Timing that depends on the data",
            ),
            rows,
        ),
        note("Source: computed from", code("golden/params"), "while this page was built."),
    )


def _synthesis(
    context: Context,
    classes: Sequence[type[BlockParams]],
    records: dict[str, dict[str, Any]],
    reference: str | None,
) -> Markup:
    """Show every record, and the commands for the default presets that have none."""
    if not classes:
        return Markup("")
    firsts = [f"{cls.block}:{next(iter(cls.PRESETS))}" for cls in classes]
    found = [figures_table(context, records), longest_paths(records)] if records else []
    if reference is not None:
        found.append(relative_table(records, reference))
    return section("Area and longest path", *found, records_wanted(records, firsts))
