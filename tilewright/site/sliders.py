"""Sliders over a grid of answers, for a page that works without a network.

Each slider moves along the values of one axis; nothing is interpolated, every figure shown was
computed when the page was built. ``docs/_static/sliders.js`` moves them; without it the page shows
the first point of the grid.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.base.table import Styled, Table
from tilewright.site.html import Markup, figure

__all__ = ["slider_section"]

WIDTH, HEIGHT, LEFT, BOTTOM = 640, 240, 64, 28  # of the drawing


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
            *(
                Styled(points[s][0][c], f'<span id="cell-{s}-{c}">{{}}</span>')
                for c in range(len(columns))
            ),
        ]
        for s, name in enumerate(series)
    ]
    # "<" would end the element early.
    data = json.dumps(grid).replace("<", "\\u003c")
    return Markup(
        "\n".join(
            [
                *(_slider(name, values) for name, values in axes.items()),
                Table(["", *columns], rows)._repr_html_(),
                _drawing(series, columns[drawn], along, list(axes[along])),
                f'<script type="application/json" id="grid">{data}</script>',
            ]
        )
    )


def _slider(name: str, values: Sequence[int | str]) -> str:
    # Disabled until the script has started: without it a slider would move and change nothing.
    return (
        f'<label>{name}: <span id="value-{name}">{values[0]}</span>'
        f' <input type="range" id="axis-{name}" min="0" max="{len(values) - 1}" step="1" value="0"'
        " disabled></label>"
    )


def _drawing(series: Sequence[str], column: str, along: str, values: Sequence[int | str]) -> str:
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
    svg = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" font-size="12" role="img">{inside}</svg>'
    return figure(svg, f"{column} by {along}")
