"""Sliders over a grid of answers: a part of a page that works without a network.

Each slider moves along the values of one axis; nothing is interpolated, every figure shown was
computed when the page was built. Without scripts the page shows the first point of the grid.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.report.html import Markup, element, join, table

__all__ = ["slider_section"]

WIDTH, HEIGHT, LEFT, BOTTOM = 640, 240, 64, 28  # of the drawing

SCRIPT = """
(function () {
  const grid = JSON.parse(document.getElementById("grid").textContent);
  const names = Object.keys(grid.axes);
  const sizes = names.map(function (name) { return grid.axes[name].length; });
  const at = function (chosen, series) {
    let place = 0;
    names.forEach(function (name, k) { place = place * sizes[k] + chosen[k]; });
    return grid.points[series][place];
  };
  const inputs = names.map(function (name) { return document.getElementById("axis-" + name); });
  const show = function () {
    const chosen = inputs.map(function (input) { return Number(input.value); });
    names.forEach(function (name, k) {
      document.getElementById("value-" + name).textContent = grid.axes[name][chosen[k]];
    });
    const along = names.indexOf(grid.along);
    let top = 0;
    const lines = grid.series.map(function (series, s) {
      const point = at(chosen, s);
      grid.columns.forEach(function (column, c) {
        document.getElementById("cell-" + s + "-" + c).textContent = point[c];
      });
      return grid.axes[grid.along].map(function (value, k) {
        const there = chosen.slice();
        there[along] = k;
        const height = at(there, s)[grid.drawn];
        top = Math.max(top, height);
        return height;
      });
    });
    const x = function (k) {
      return grid.left + k * (grid.width - grid.left - 8) / (sizes[along] - 1);
    };
    const y = function (height) {
      return grid.height - grid.bottom - height / top * (grid.height - grid.bottom - 12);
    };
    lines.forEach(function (heights, s) {
      const line = document.getElementById("line-" + s);
      line.setAttribute("points", heights.map(function (height, k) {
        return x(k).toFixed(1) + "," + y(height).toFixed(1);
      }).join(" "));
      const dot = document.getElementById("dot-" + s);
      dot.setAttribute("cx", x(chosen[along]));
      dot.setAttribute("cy", y(heights[chosen[along]]));
    });
    document.getElementById("top").textContent = top.toPrecision(3);
  };
  inputs.forEach(function (input) {
    input.disabled = false;
    input.addEventListener("input", show);
  });
  show();
})();
"""


def slider_section(
    axes: Mapping[str, Sequence[int | str]],
    series: Sequence[str],
    columns: Sequence[str],
    points: Sequence[Sequence[Sequence[Any]]],
    *,
    along: str,
    drawn: int,
) -> Markup:
    """Return sliders for ``axes``, a row of ``columns`` for each of ``series``, and curves.

    ``points`` has for each series one row for each point, the last axis varying fastest. Curves
    are of the column ``drawn`` against the axis ``along``.
    """
    grid = {
        "axes": {name: list(values) for name, values in axes.items()},
        "series": list(series),
        "columns": list(columns),
        "points": points,
        "along": along,
        "drawn": drawn,
        **{"width": WIDTH, "height": HEIGHT, "left": LEFT, "bottom": BOTTOM},
    }
    rows = [
        [
            name,
            *(element("span", points[s][0][c], id=f"cell-{s}-{c}") for c in range(len(columns))),
        ]
        for s, name in enumerate(series)
    ]
    # "<" would end the element early.
    data = Markup(json.dumps(grid).replace("<", "\\u003c"))
    return join(
        [
            *(_slider(name, values) for name, values in axes.items()),
            table(["", *columns], rows),
            _drawing(series, columns[drawn], along, list(axes[along])),
            Markup(f'<script type="application/json" id="grid">{data}</script>'),
            Markup(f"<script>{SCRIPT}</script>"),
        ]
    )


def _slider(name: str, values: Sequence[int | str]) -> Markup:
    most = len(values) - 1
    words = element("span", values[0], id=f"value-{name}")
    # Disabled until the script has started: without it a slider would move and change nothing.
    box = Markup(
        f'<input type="range" id="axis-{name}" min="0" max="{most}" step="1" value="0" disabled>'
    )
    return element("p", element("label", join([f"{name}: ", words, box])))


def _drawing(series: Sequence[str], column: str, along: str, values: Sequence[int | str]) -> Markup:
    """Curves that the script fills in, in the colours of the page."""
    floor = HEIGHT - BOTTOM
    parts = [
        f'<line x1="{LEFT}" y1="{floor}" x2="{WIDTH - 8}" y2="{floor}" stroke="var(--line)"/>',
        f'<text x="{LEFT - 6}" y="18" text-anchor="end" id="top" fill="currentColor"></text>',
        f'<text x="{LEFT - 6}" y="{floor}" text-anchor="end" fill="currentColor">0</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 8}" fill="currentColor">{values[0]}</text>',
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 8}" text-anchor="end" fill="currentColor">'
        f"{along} {values[-1]}</text>",
    ]
    for s, name in enumerate(series):
        colour = f"var(--series-{s})"
        parts += [
            f'<polyline id="line-{s}" points="" fill="none" stroke="{colour}" stroke-width="2"/>',
            f'<circle id="dot-{s}" r="4" cx="{LEFT}" cy="{floor}" fill="{colour}"/>',
            f'<text x="{LEFT + 8}" y="{18 + 16 * s}" fill="{colour}">{name}, {column}</text>',
        ]
    inside = "".join(parts)
    return Markup(
        f'<div class="wide"><svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" font-size="12"'
        f' role="img" aria-label="{column} against {along}">{inside}</svg></div>'
    )
