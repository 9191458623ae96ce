"""The DECA processing element: formats, cycles, area, power, coverage, beside the paper's."""

from collections.abc import Sequence
from typing import Any

from tilewright.claims import load_claims
from tilewright.golden.params.deca import DECA_BLOCKS
from tilewright.report.deca import PAPER_PARTS, coverage
from tilewright.report.deca.area import area_section
from tilewright.report.deca.cycles import (
    cycle_failures,
    cycle_problems,
    cycle_rows,
    cycles_section,
)
from tilewright.report.deca.formats import formats_section, tile_sizes
from tilewright.report.deca.live import live_failures, live_section, run_live
from tilewright.report.deca.power import power_section
from tilewright.report.deca.structures import structures_section
from tilewright.report.drawings.deca import draw
from tilewright.report.hardware import design_records
from tilewright.report.html import figure, join
from tilewright.report.measured import load_measured
from tilewright.report.page import Context, Page
from tilewright.studies.pe.energy import load_energy
from tilewright.synth.technology import load_technology

TITLE = "DECA"
POSITION = 10


def build(context: Context) -> Page:
    claims = load_claims("deca")
    sizes, cycles, live = tile_sizes(claims), cycle_rows(context, claims), run_live()
    records = design_records(context, [cls.block for cls in DECA_BLOCKS])
    energy = load_energy("deca", load_technology("asap7"))
    covered = load_measured(coverage.RECORD, context.measured)
    problems = cycle_problems(context, cycles)
    if covered is None:
        problems.append(f"no record of coverage; to make it: {coverage.COMMAND}")
    return Page(
        summary=_summary(cycles),
        body=join(
            [
                figure(
                    draw().svg(),
                    "The processing element (PE) with its default sizes; storage is blue. The TEPL"
                    " unit belongs to the core.",
                ),
                structures_section(claims),
                formats_section(sizes, claims),
                cycles_section(context, cycles, claims),
                live_section(live),
                area_section(context, records, claims),
                power_section(energy, claims, PAPER_PARTS),
                coverage.coverage_section(covered),
            ]
        ),
        data={
            "bytes_per_tile": sizes,
            "cycles_per_tile": cycles,
            "live": live,
            "synthesis": records,
            "energy": energy,
            "coverage": covered,
        },
        failures=[*cycle_failures(cycles), *live_failures(live)],
        problems=problems,
    )


def _summary(cycles: Sequence[dict[str, Any]]) -> str:
    measured = sum(row["tiles"] or 0 for row in cycles)
    return "The DECA processing element: formats, cycles per tile, area, power and coverage" + (
        f"; cycles of {measured:,} tiles are measured." if measured else "."
    )
