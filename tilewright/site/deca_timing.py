"""Draws what every part of a DECA does in each cycle of a few tiles, from a run of its Verilog.

    python -m tilewright.site.deca_timing docs/deca-timing.svg

The run is ``tilewright simulate deca.stream`` on ``deca_tepl``; nothing in the drawing is computed
by a model.
"""

import sys
from pathlib import Path

from tilewright.base.files import write_atomic
from tilewright.golden.deca.memory import MemoryParams
from tilewright.golden.deca.tile_timing import Tile, tiles_in_order
from tilewright.golden.params.deca import DecaTeplParams
from tilewright.site.timeline import Bar, draw_bars
from tilewright.studies.runs.deca_rates import StreamRun, measure_streams
from tilewright.verify.deca.workload import StreamCase, make_tiles

COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2")  # of the first tiles
LANES = (
    *("TEPL queue, command", "lines on their way", "window logic, pipeline"),
    *("rows to tile register", "matrix unit"),
)
TITLE = "Cycles of the first tiles after the TEPL unit, from a run of the Verilog"


def draw(lanes: dict[str, list[Bar]]) -> str:
    """The lanes as an SVG; tiles that overlap are below each other."""
    end = max(bar.end for bars in lanes.values() for bar in bars)
    return draw_bars(lanes, range(end + 4), TITLE, left=180, rows=4)


def lanes_of(run: StreamRun, tiles: list[Tile]) -> dict[str, list[Bar]]:
    """The events of the first tiles of a run."""
    asked: dict[int, list[int]] = {n: [] for n in range(len(tiles))}
    wanted = [[first + k for first, count in tile.lines for k in range(count)] for tile in tiles]
    for cycle, line, loader in run.requests:
        owner = next((n for n, lines in enumerate(wanted) if line in lines), None)
        if loader >= 0 and owner is not None:
            wanted[owner].remove(line)
            asked[owner].append(cycle)
    near, matrix, times = run.case.memory.l2_latency, run.case.core.matrix_cycles, run.times
    lanes: dict[str, list[Bar]] = {name: [] for name in LANES}
    for n, colour in enumerate(COLOURS):
        first, last = min(asked[n]), max(asked[n]) + near + 1
        row, end = times["first_row"][n], times["product_ends"][n]
        begins = (times["started"][n], first, last, row, end - matrix)
        ends = (first, last, row, times["last_row"][n] + 1, end)
        for lane, begin, stop in zip(lanes.values(), begins, ends, strict=True):
            lane.append(Bar(begin, stop, colour, f"tile {n}"))
    return lanes


def main(path: str) -> None:
    """Run the stream and write the drawing."""
    near = MemoryParams(latency=0)
    case = StreamCase(scheme="bf8", density=0.2, tiles=len(COLOURS) + 4, degree=0, memory=near)
    (run,) = measure_streams("deca_tepl", [case])
    tiles = tiles_in_order(DecaTeplParams(), make_tiles(case), case.base, case.alignment)
    write_atomic(Path(path), draw(lanes_of(run, tiles)))


if __name__ == "__main__":
    main(sys.argv[1])
