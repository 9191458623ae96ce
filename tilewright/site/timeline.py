"""Draws what every unit of an accelerator does in some cycles of a program.

    python -m tilewright.site.timeline docs/harmonia-timeline.svg

The program is that of a decoded token of SmolLM2 on Harmonia, as ``tilewright compile`` writes it,
and the cycles are those of one of its layers; instructions begin and end as in the cycle model,
which benches check against the RTL, cycle for cycle.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tilewright.base.files import write_atomic
from tilewright.compiler.count import timeline
from tilewright.compiler.image import Lines
from tilewright.compiler.machine import machine_of
from tilewright.compiler.plan import Plan
from tilewright.compiler.program import step_program
from tilewright.compiler.sizes import Step
from tilewright.golden.machine.clock import Work
from tilewright.golden.machine.moves import LATENCY
from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.golden.params.machine import UnitOfWork
from tilewright.sim.models import resolve_model

MODEL, TOKENS = "smollm2-135m", 256
COLOURS = {
    "LOAD": "#4c78a8",
    "STORE": "#72b7b2",
    "GEMM": "#f58518",
    "VECTOR": "#54a24b",
    "CONVERT": "#b279a2",
}
TOP, LANE, PIXELS = 14, 30, 900


def decoder_layer() -> tuple[list[Work], range]:
    """The work of all units for three layers of a decoded token, and the cycles of the second."""
    machine = machine_of(HarmoniaParams())
    plan = Plan(machine=machine, shape=resolve_model(MODEL), context=TOKENS)
    program = step_program(Lines(plan), Step.prompt(TOKENS - 1, 1), latency=LATENCY, layers=3)
    work = timeline(machine, program, LATENCY)
    first = next(w.number for w in work if w.number in program.body)
    begins = [w.begin for w in work if w.number == first]
    return work, range(begins[1], begins[2])


class Bar(NamedTuple):
    """Cycles ``begin`` to ``end`` (not included) of something in a lane."""

    begin: int
    end: int
    colour: str
    words: str


def draw(work: Sequence[Work], cycles: range, title: str) -> str:
    """The work of these cycles as an SVG, a lane for every unit that has any."""
    lanes: dict[UnitOfWork, list[Bar]] = {unit: [] for unit in UnitOfWork}
    for w in work:
        if w.begin < cycles.stop and w.end > cycles.start:
            name = w.instruction.opcode.name
            words = f"instruction {w.number}, {name.lower()}"
            lanes[w.unit].append(Bar(w.begin, w.end, COLOURS.get(name, "#999"), words))
    return draw_bars({u.name.lower(): bars for u, bars in lanes.items() if bars}, cycles, title)


def draw_bars(
    lanes: Mapping[str, Sequence[Bar]], cycles: range, title: str, *, left: int = 90, rows: int = 1
) -> str:
    """Lanes of bars as an SVG; in a lane up to ``rows`` bars are below each other at a time."""
    scale, lane = PIXELS / len(cycles), LANE + 10 * (rows > 1)
    tall, gap = (lane - 10) / rows, int(rows > 1)
    width, height = left + PIXELS + 20, TOP + lane * len(lanes) + 30
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        f"<title>{title}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    step = max(1, len(cycles) // 6)
    for cycle in range(cycles.start, cycles.stop + 1, step):
        x = left + (cycle - cycles.start) * scale
        out.append(f'<line x1="{x:g}" y1="{TOP}" x2="{x:g}" y2="{height - 30}" stroke="#ddd"/>')
        out.append(f'<text x="{x:g}" y="{height - 12}" text-anchor="middle">{cycle:,}</text>')
    for number, (name, bars) in enumerate(lanes.items()):
        y = TOP + lane * number
        out.append(f'<text x="8" y="{y + lane // 2 + 4}">{name}</text>')
        free = [0] * rows  # the cycle in which each row ends
        for bar in bars:
            row = next((k for k in range(rows) if free[k] <= bar.begin), 0)
            free[row] = bar.end
            begin, end = max(bar.begin, cycles.start), min(bar.end, cycles.stop)
            out.append(
                f'<rect x="{left + (begin - cycles.start) * scale:.1f}" y="{y + 5 + tall * row:g}"'
                f' width="{max(0.5, (end - begin) * scale):.1f}" height="{tall - gap:g}"'
                f' fill="{bar.colour}" stroke="white" stroke-width="0.4">'
                f"<title>{bar.words}: cycles {bar.begin} to {bar.end - 1}</title></rect>"
            )
    return "\n".join([*out, "</svg>"]) + "\n"


def main(path: str) -> None:
    """Write the drawing."""
    title = f"Units of Harmonia in a layer of SmolLM2, a token decoded at {TOKENS}"
    write_atomic(Path(path), draw(*decoder_layer(), title))


if __name__ == "__main__":
    main(sys.argv[1])
