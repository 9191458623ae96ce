"""A layout as a coarse picture: which part of the block fills each tile, and the longest path."""

from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import escape

from tilewright.synth.place.place import PlacedBlock

__all__ = ["picture_of", "picture_svg"]

TILES = 48  # across the longer side
_LETTERS = "abcdefghijklmnopqrstuvwxyz"  # parts; the last stands for all that are left
MEMORY, EMPTY = "M", "."
_WIDTH = 480
_COLOURS = (
    *("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f"),
    *("#bab0ac", "#86bcb6", "#d37295", "#a0cbe8"),
)


def picture_of(placed: PlacedBlock) -> dict[str, Any]:
    """Tiles from the top row down, a letter each; ``parts`` say what a letter stands for."""
    layout, plan = placed.layout, placed.layout.floorplan
    side = max(plan.width, plan.height) / TILES
    columns, rows = (max(1, round(length / side)) for length in (plan.width, plan.height))
    names = dict(
        zip(
            (instance.name for instance in placed.synthesis.netlist.instances),
            placed.synthesis.part_of,
            strict=True,
        )
    )
    areas: dict[str, float] = {}
    tiles: dict[tuple[int, int], dict[str, float]] = {}
    for k, instance in enumerate(layout.netlist.instances):
        if k in plan.macros:
            continue
        part = names.get(instance.name, "repair buffers") or "top"
        areas[part] = areas.get(part, 0.0) + instance.cell.area
        column = min(int(layout.x[k] / plan.width * columns), columns - 1)
        row = min(int(layout.y[k] / plan.height * rows), rows - 1)
        tile = tiles.setdefault((column, row), {})
        tile[part] = tile.get(part, 0.0) + instance.cell.area
    largest = sorted(areas, key=lambda part: -areas[part])[: len(_COLOURS) - 1]
    letter = {part: _LETTERS[n] for n, part in enumerate(largest)}
    rest = _LETTERS[len(_COLOURS) - 1]
    grid = [[EMPTY] * columns for _ in range(rows)]
    for (column, row), tile in tiles.items():
        grid[rows - 1 - row][column] = letter.get(max(tile, key=lambda part: tile[part]), rest)
    for box in plan.macros.values():
        for row in range(rows):
            for column in range(columns):
                x, y = (column + 0.5) / columns * plan.width, (row + 0.5) / rows * plan.height
                if box.x <= x <= box.x + box.width and box.y <= y <= box.y + box.height:
                    grid[rows - 1 - row][column] = MEMORY
    path = [step.point for step in layout.timing.path if step.point is not None]
    path += [layout.timing.end] if layout.timing.end is not None else []
    points = [
        [round(float(layout.x[p]) / plan.width, 3), round(float(layout.y[p]) / plan.height, 3)]
        for p in path
    ]
    parts = {letter[part]: part for part in largest}
    if len(areas) > len(largest):
        parts[rest] = "others"
    return {"tiles": ["".join(line) for line in grid], "parts_by_letter": parts, "path": points}


def picture_svg(picture: dict[str, Any], title: str) -> str:
    """Draw a picture: tiles in the colours of their parts, the longest path as a line."""
    width = _WIDTH
    tiles = picture["tiles"]
    side = width / len(tiles[0])
    height = side * len(tiles)
    legend = list(picture["parts_by_letter"].items())
    colours = {letter: _COLOURS[n % len(_COLOURS)] for n, (letter, _) in enumerate(legend)}
    colours |= {MEMORY: "#444444"}
    rows = 18 * (len(legend) + 1)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + rows:.0f}"'
        f' role="img" aria-label="{escape(title)}">',
        f'<rect width="{width}" height="{height:.1f}" fill="none" stroke="currentColor"/>',
    ]
    for row, line in enumerate(tiles):
        for start, length, tile in _runs(line):
            if tile != EMPTY:
                lines.append(
                    f'<rect x="{start * side:.1f}" y="{row * side:.1f}" width="{length * side:.1f}"'
                    f' height="{side:.1f}" fill="{colours[tile]}"/>'
                )
    if picture["path"]:
        points = " ".join(f"{x * width:.1f},{(1 - y) * height:.1f}" for x, y in picture["path"])
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="2"/>'
        )
    for n, (letter, part) in enumerate(legend):
        y = height + 18 * (n + 1)
        lines.append(
            f'<rect x="0" y="{y - 10:.0f}" width="12" height="12" fill="{colours[letter]}"/>'
        )
        lines.append(
            f'<text x="18" y="{y:.0f}" font-size="12" fill="currentColor">{escape(part)}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def _runs(line: str) -> Iterator[tuple[int, int, str]]:
    start = 0
    for k in range(1, len(line) + 1):
        if k == len(line) or line[k] != line[start]:
            yield start, k - start, line[start]
            start = k
