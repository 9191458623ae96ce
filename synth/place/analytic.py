"""Analytical placement: quadratic wire length, pulled step by step towards an even density.

Each step solves two sparse linear systems, one for each direction, whose springs are those of the
bound-to-bound model (P. Spindler, U. Schlichtmann, F. M. Johannes, IEEE TCAD 27(8), 2008): at the
point where it is made its energy is the half-perimeter wire length. Then cells are spread evenly
over the core by halving it again and again, each half with half of the cells' area, and springs to
these places grow from step to step (M.-C. Kim, D.-J. Lee, I. L. Markov, IEEE TCAD 31(1), 2012).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tilewright.synth.place.floorplan import Box
from tilewright.synth.place.wires import Floats, Ints, Wiring

STEPS = 30
_LEAF = 6  # cells of a part that is not halved again
_CLOSE = 1e-3  # um: nearer pins pull no harder


def place_cells(
    wiring: Wiring,
    areas: Floats,
    movable: NDArray[np.bool_],
    x: Floats,
    y: Floats,
    core: Box,
    steps: int = STEPS,
    weights: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Places of all points, evenly dense over ``core``, with little wire between them.

    ``areas`` are of the points; those that are not ``movable`` stay at ``x`` and ``y``. ``weights``
    say how hard each net pulls, 1 by default.
    """
    free = np.flatnonzero(movable)
    weights = np.ones(len(wiring.nets)) if weights is None else weights
    x, y = x.copy(), y.copy()
    if not len(free):
        return x, y
    x[free] = core.x + core.width / 2
    y[free] = core.y + core.height / 2
    best, best_length = (x.copy(), y.copy()), np.inf
    anchors: tuple[Floats, Floats] | None = None
    for step in range(steps):
        pull = 0.0 if anchors is None else 0.012 * step
        rounds = 4 if anchors is None else 1  # springs of the first step know no places yet
        for _ in range(rounds):
            to_x, to_y = (None, None) if anchors is None else anchors
            x[free] = _solve(wiring, x, free, to_x, pull, weights)
            y[free] = _solve(wiring, y, free, to_y, pull, weights)
        np.clip(x, core.x, core.x + core.width, out=x, where=movable)
        np.clip(y, core.y, core.y + core.height, out=y, where=movable)
        even_x, even_y = x.copy(), y.copy()
        even_x[free], even_y[free] = _spread(x[free], y[free], areas[free], core)
        anchors = even_x[free], even_y[free]
        length = _dot(weights, wiring.half_perimeters(even_x, even_y))
        if length < best_length:
            best, best_length = (even_x, even_y), length
    return best


def _solve(
    wiring: Wiring,
    at: Floats,
    free: Ints,
    anchors: Floats | None,
    pull: float,
    of_nets: Floats,
) -> Floats:
    """Coordinates of the free points at which all springs of one direction rest."""
    ends, others, weights = _springs(wiring, at, of_nets)
    place = np.full(len(at), -1)
    place[free] = np.arange(len(free))
    i, j = place[ends], place[others]
    count = len(free)
    diagonal: Floats = np.zeros(count)
    diagonal += np.bincount(i[i >= 0], weights[i >= 0], count)
    diagonal += np.bincount(j[j >= 0], weights[j >= 0], count)
    side = np.zeros(count)
    for near, far in ((i, others), (j, ends)):
        fixed = (near >= 0) & (place[far] < 0)
        side += np.bincount(near[fixed], weights[fixed] * at[far[fixed]], count)
    both = (i >= 0) & (j >= 0)
    i, j, weights = i[both], j[both], weights[both]
    start = at[free]
    if anchors is not None:
        strength = pull / np.maximum(np.abs(anchors - start), _CLOSE)
        diagonal = diagonal + strength
        side = side + strength * anchors
    diagonal = diagonal + 1e-9 * (diagonal.max() or 1.0)  # what nothing holds stays where it is
    side = side + 1e-9 * (diagonal.max() or 1.0) * start

    def product(v: Floats) -> Floats:
        found = diagonal * v - np.bincount(i, weights * v[j], count)
        return found - np.bincount(j, weights * v[i], count)

    return _conjugate_gradient(product, diagonal, side, start)


def _springs(wiring: Wiring, at: Floats, of_nets: Floats) -> tuple[Ints, Ints, Floats]:
    """Ends and weight of every spring: from the two outermost pins of a net to all its pins."""
    values = at[wiring.points]
    order = np.lexsort((values, wiring.net_of_pin))
    points, values = wiring.points[order], values[order]
    first, last = wiring.start[:-1], wiring.start[1:] - 1
    sizes = wiring.sizes
    inner = np.ones(len(points), dtype=bool)
    inner[first] = inner[last] = False
    net = wiring.net_of_pin[inner]
    ends = np.concatenate([points[first], points[inner], points[inner]])
    others = np.concatenate([points[last], points[first[net]], points[last[net]]])
    lengths = np.concatenate(
        [
            values[last] - values[first],
            values[inner] - values[first[net]],
            values[last[net]] - values[inner],
        ]
    )
    pulls = of_nets / (sizes - 1)
    shares = np.concatenate([pulls, pulls[net], pulls[net]])
    return ends, others, shares / np.maximum(lengths, _CLOSE)


def _dot(a: Floats, b: Floats) -> float:
    """Not by BLAS, which sums in another order on another machine or with more threads."""
    return float(np.sum(a * b))


def _conjugate_gradient(
    product: Callable[[Floats], Floats], diagonal: Floats, side: Floats, start: Floats
) -> Floats:
    found = start.copy()
    residual = side - product(found)
    scaled = residual / diagonal
    direction, size = scaled.copy(), _dot(residual, scaled)
    enough = 1e-5 * size
    for _ in range(100):
        if size <= enough:
            break
        image = product(direction)
        length = size / _dot(direction, image)
        found += length * direction
        residual -= length * image
        scaled = residual / diagonal
        before, size = size, _dot(residual, scaled)
        direction = scaled + size / before * direction
    return found


def _spread(x: Floats, y: Floats, areas: Floats, core: Box) -> tuple[Floats, Floats]:
    """Keep who is left of and above whom, and fill the core evenly."""
    out_x, out_y = np.empty_like(x), np.empty_like(y)
    waiting = [(np.arange(len(x)), core)]
    while waiting:
        members, box = waiting.pop()
        wide = box.width >= box.height
        order = members[np.argsort((x if wide else y)[members], kind="stable")]
        filled = np.cumsum(areas[order])
        if len(order) <= _LEAF:
            middle = (filled - areas[order] / 2) / filled[-1]
            out_x[order] = box.x + box.width * (middle if wide else 0.5)
            out_y[order] = box.y + box.height * (0.5 if wide else middle)
            continue
        cut = int(np.searchsorted(filled, filled[-1] / 2)) + 1
        cut = min(max(cut, 1), len(order) - 1)
        share = filled[cut - 1] / filled[-1]
        if wide:
            near = Box(box.x, box.y, box.width * share, box.height)
            far = Box(box.x + near.width, box.y, box.width - near.width, box.height)
        else:
            near = Box(box.x, box.y, box.width, box.height * share)
            far = Box(box.x, box.y + near.height, box.width, box.height - near.height)
        waiting += [(order[:cut], near), (order[cut:], far)]
    return out_x, out_y
