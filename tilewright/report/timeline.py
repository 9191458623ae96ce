"""Draws what every unit of an accelerator does in some cycles of a program.

    python -m tilewright.report.timeline docs/harmonia-timeline.svg

The program is a head of attention of Llama-2-7B on Harmonia, a prompt of 1,024 tokens; when its
instructions begin and end says the cycle model that benches hold against the RTL, cycle for cycle.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tilewright.base.files import write_atomic
from tilewright.golden.harmonia_machine.grouped_attention import grouped_attention
from tilewright.golden.machine.clock import Work
from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.golden.params.machine import UnitOfWork
from tilewright.sim.programs import program_timeline

__all__ = ["draw", "head_of_attention"]

TOKENS = 1024
CYCLES = range(90_000, 96_000)  # of the drawing: half of the prompt is done
COLOURS = {
    "LOAD": "#4c78a8",
    "STORE": "#72b7b2",
    "GEMM": "#f58518",
    "VECTOR": "#54a24b",
    "CONVERT": "#b279a2",
}
LEFT, TOP, LANE, PIXELS = 90, 14, 30, 900


def head_of_attention() -> list[Work]:
    """The work of all units for a prompt, with the accelerator of the paper's size."""
    params = HarmoniaParams()
    nothing = np.zeros((1, TOKENS, params.channels), np.uint16)
    found = grouped_attention(params, nothing, nothing[0], nothing[0], prompt=TOKENS)
    return program_timeline(params, found.builder.program)


def draw(work: Sequence[Work], cycles: range, title: str) -> str:
    """The work of these cycles as an SVG, a lane for every unit that has any."""
    shown = [w for w in work if w.begin < cycles.stop and w.end > cycles.start]
    units = [unit for unit in UnitOfWork if any(w.unit is unit for w in shown)]
    scale = PIXELS / len(cycles)
    width, height = LEFT + PIXELS + 20, TOP + LANE * len(units) + 30
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        f"<title>{title}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    step = max(1, len(cycles) // 6)
    for cycle in range(cycles.start, cycles.stop + 1, step):
        x = LEFT + (cycle - cycles.start) * scale
        out.append(f'<line x1="{x:g}" y1="{TOP}" x2="{x:g}" y2="{height - 30}" stroke="#ddd"/>')
        out.append(f'<text x="{x:g}" y="{height - 12}" text-anchor="middle">{cycle:,}</text>')
    for number, unit in enumerate(units):
        y = TOP + LANE * number
        out.append(f'<text x="8" y="{y + 19}">{unit.name.lower()}</text>')
        for w in (w for w in shown if w.unit is unit):
            begin, end = max(w.begin, cycles.start), min(w.end, cycles.stop)
            name = w.instruction.opcode.name
            out.append(
                f'<rect x="{LEFT + (begin - cycles.start) * scale:.1f}" y="{y + 5}"'
                f' width="{max(0.5, (end - begin) * scale):.1f}" height="{LANE - 10}"'
                f' fill="{COLOURS.get(name, "#999")}" stroke="white" stroke-width="0.4">'
                f"<title>instruction {w.number}, {name.lower()}: cycles {w.begin} to {w.end - 1}"
                "</title></rect>"
            )
    return "\n".join([*out, "</svg>"]) + "\n"


def main(path: str) -> None:
    """Write the drawing."""
    title = f"Units of Harmonia in a head of attention, a prompt of {TOKENS:,} tokens"
    write_atomic(Path(path), draw(head_of_attention(), CYCLES, title))


if __name__ == "__main__":
    main(sys.argv[1])
