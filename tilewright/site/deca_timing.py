"""Draws what every part of a DECA does in each cycle of a few tiles, from a run of its Verilog.

    python -m tilewright.site.deca_timing docs/deca-timing.svg

The run is ``tilewright simulate deca.stream`` on ``deca_tepl``; nothing in the drawing is computed
by a model.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tilewright.base.files import write_atomic
from tilewright.golden.deca.memory import MemoryParams
from tilewright.golden.deca.tile_timing import Tile, tiles_in_order
from tilewright.golden.params.deca import DecaTeplParams
from tilewright.studies.runs.deca_rates import StreamRun, measure_streams
from tilewright.verify.deca.workload import StreamCase, make_tiles

TILES = 6
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2")
LANES = (
    ("wait", "TEPL queue, command"),
    ("lines", "lines on their way"),
    ("work", "window logic, pipeline"),
    ("rows", "rows to tile register"),
    ("product", "matrix unit"),
)
LEFT, TOP, LANE, CYCLE = 180, 34, 40, 6


@dataclass(frozen=True)
class Span:
    """Cycles ``start`` to ``end`` (not included) of a tile in one lane of the drawing."""

    lane: str
    tile: int
    start: int
    end: int


def spans_of(run: StreamRun, tiles: list[Tile]) -> Iterator[Span]:
    """The events of each tile in a run."""
    asked: dict[int, list[int]] = {n: [] for n in range(len(tiles))}
    wanted = [[first + k for first, count in tile.lines for k in range(count)] for tile in tiles]
    for cycle, line, loader in run.requests:
        owner = next((n for n, lines in enumerate(wanted) if line in lines), None)
        if loader >= 0 and owner is not None:
            wanted[owner].remove(line)
            asked[owner].append(cycle)
    near = run.case.memory.l2_latency
    matrix = run.case.core.matrix_cycles
    for n in range(len(tiles)):
        first, last = min(asked[n]), max(asked[n]) + near
        rows, end = run.times["first_row"][n], run.times["last_row"][n] + 1
        product = run.times["product_ends"][n]
        yield Span("wait", n, run.times["started"][n], first)
        yield Span("lines", n, first, last + 1)
        yield Span("work", n, last + 1, rows)
        yield Span("rows", n, rows, end)
        yield Span("product", n, product - matrix, product)


def draw(spans: list[Span]) -> str:
    """The spans as an SVG: a lane for each part, two tiles side by side where they overlap."""
    end = max(span.end for span in spans) + 4
    width, height = LEFT + CYCLE * end + 10, TOP + LANE * len(LANES) + 30
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        "<title>Cycles of the first tiles after the TEPL unit, from a run of the Verilog</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for cycle in range(0, end, 10):
        x = LEFT + CYCLE * cycle
        out.append(f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{height - 30}" stroke="#ddd"/>')
        if cycle % 20 == 0:
            out.append(f'<text x="{x}" y="{height - 12}" text-anchor="middle">{cycle}</text>')
    for number, (lane, title) in enumerate(LANES):
        y = TOP + LANE * number
        out.append(f'<text x="8" y="{y + 24}">{title}</text>')
        rows: list[int] = []  # where the last span of each line of bars ends
        for span in (span for span in spans if span.lane == lane):
            row = next((k for k, free in enumerate(rows) if free <= span.start), len(rows))
            rows[row : row + 1] = [span.end]
            tall = (LANE - 8) / 4
            x, wide = LEFT + CYCLE * span.start, CYCLE * max(span.end - span.start, 0.5)
            out.append(
                f'<rect x="{x}" y="{y + 4 + tall * (row % 4):g}" width="{wide:g}"'
                f' height="{tall - 1:g}" fill="{COLOURS[span.tile % len(COLOURS)]}">'
                f"<title>tile {span.tile}: cycles {span.start} to {span.end - 1}</title></rect>"
            )
    for n in range(TILES):
        x = LEFT + 70 * n
        out.append(f'<rect x="{x}" y="10" width="12" height="12" fill="{COLOURS[n]}"/>')
        out.append(f'<text x="{x + 16}" y="20">tile {n}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def main(path: str) -> None:
    """Run the stream and write the drawing."""
    near = MemoryParams(latency=0)
    case = StreamCase(scheme="bf8", density=0.2, tiles=TILES + 4, degree=0, memory=near)
    (run,) = measure_streams("deca_tepl", [case])
    tiles = tiles_in_order(DecaTeplParams(), make_tiles(case), case.base, case.alignment)
    spans = [span for span in spans_of(run, tiles) if span.tile < TILES]
    write_atomic(Path(path), draw(spans))


if __name__ == "__main__":
    main(sys.argv[1])
