"""Routing demand of a layout: length of wire in every tile over the tracks that pass it.

A net's wire is spread evenly over the box around its pins (P. Spindler, F. M. Johannes, DATE 2007).
Tracks are those of all signal layers, of which supply and vias leave less.
"""

from dataclasses import dataclass

import numpy as np

from tilewright.synth.place.layout import Layout
from tilewright.synth.place.wiring import Floats

__all__ = ["Congestion", "congestion_of"]

TILES = 24  # across the longer side


@dataclass(frozen=True)
class Congestion:
    """Shares of the tracks that wires need."""

    mean: float
    worst: float  # tile
    tiles: Floats


def congestion_of(layout: Layout) -> Congestion:
    """Of every net; the clock's wires are not among them."""
    plan, wiring = layout.floorplan, layout.wiring
    side = max(plan.width, plan.height) / TILES
    columns = max(1, int(np.ceil(plan.width / side - 1e-9)))
    rows = max(1, int(np.ceil(plan.height / side - 1e-9)))
    demand = np.zeros((rows, columns))
    left, bottom = side * np.arange(columns), side * np.arange(rows)
    for k, net in enumerate(wiring.nets):
        points = wiring.points[wiring.start[k] : wiring.start[k + 1]]
        spans = []
        for values, edges in ((layout.x[points], left), (layout.y[points], bottom)):
            low, high = float(values.min()), float(values.max())
            low, high = (
                (low - side / 20, high + side / 20) if high - low < side / 10 else (low, high)
            )
            inside = np.minimum(edges + side, high) - np.maximum(edges, low)
            spans.append(np.maximum(inside, 0.0) / (high - low))
        demand += layout.wires.length[net] * np.outer(spans[1], spans[0])
    share = demand / (layout.rules.tracks_per_um * side * side)
    return Congestion(float(share.mean()), float(share.max()), share)
