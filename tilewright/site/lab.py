"""The lab: language models on a server whose settings a reader of the site changes.

The page holds the performance model's answer at every point of a grid, computed while the site is
built; nothing is interpolated. ``docs/_static/lab.js`` shows the point that is chosen.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from math import isinf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.base.table import Table
from tilewright.golden.params.deca import DecaParams
from tilewright.golden.params.resolve import resolve_as
from tilewright.sim.llm import LlmResult
from tilewright.sim.roofsurface import TILE_FMA, Surface, kernel
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.serving import Question
from tilewright.sim.sweep import sweep
from tilewright.sim.xeon import ROWS_PER_TILE, SYSTEMS
from tilewright.site.html import Markup
from tilewright.studies.sweeps.frontiers import load_frontier

SYSTEM = "spr-hbm"
SIZES = ((8, 4), (16, 8), (32, 8), (64, 64))  # lanes and look-up tables of a DECA


class Engine(NamedTuple):
    """How weights are decompressed: the engine of a server, with the size of its DECAs."""

    title: str
    name: str
    block: str | None = None

    @property
    def params(self) -> DecaParams | None:
        """The parameters of the DECA, where there is one."""
        return None if self.block is None else resolve_as(DecaParams, self.block)

    @property
    def options(self) -> str:
        """Options of the command line."""
        return f"--engine {self.name}" + (f" --block {self.block}" if self.block else "")

    def question(self, **fields: Any) -> Question:
        """Return a question about the server with this engine."""
        return Question(system=SYSTEM, engine=self.name, block=self.params, **fields)


ENGINES = {
    "software": Engine("software", "software"),
    **{
        f"deca-{lanes}-{luts}": Engine(
            f"DECA, W={lanes}, L={luts}", "deca", f"deca,lanes={lanes},luts={luts}"
        )
        for lanes, luts in SIZES
    },
    "optimal": Engine("optimal, at no cost", "optimal"),
}
AXES: dict[str, tuple[str, ...]] = {  # the last one varies fastest
    "engine": tuple(ENGINES),
    "model": ("llama-3.2-3b", "llama-3.1-8b", "qwen2.5-32b", "llama-2-70b"),
    "format": ("bf16", "bf8", "mxfp4"),
    "density": ("100", "50", "20", "5"),  # %
    "bandwidth": ("260", "425", "850", "1700"),  # GB/s
    "context": ("128", "1024", "8192", "32768"),
    "batch": ("1", "2", "4", "8", "16", "32", "64", "128", "256"),
}
LABELS = {  # of the controls: name and unit
    "engine": ("Decompression", ""),
    "model": ("Model", ""),
    "format": ("Weight format", ""),
    "density": ("Weights that are not zero", " %"),
    "bandwidth": ("Memory bandwidth", " GB/s"),
    "context": ("Context", " tokens"),
    "batch": ("Batch", ""),
}
LISTS = ("engine", "model", "format")  # chosen from a list, the others by a slider
START = {  # where software and every DECA differ
    **{"engine": "deca-32-8", "model": "llama-2-70b", "format": "bf8", "density": "20"},
    **{"bandwidth": "850", "context": "1024", "batch": "1"},
}
COLUMNS = ("ms", "ms of products", "J/token", "GB", "bound")  # of the grid
OTHER_PARTS = ("small kernels", "attention", "cache")  # of a step; the rest are products


def _scheme(kind: str, density: str) -> str:
    return kind if density == "100" else f"{kind}_{density}%"


def _schemes() -> list[str]:
    return [_scheme(*pair) for pair in product(AXES["format"], AXES["density"])]


def question(point: Mapping[str, str]) -> Question:
    """Return the question that a point of the grid answers."""
    return ENGINES[point["engine"]].question(
        model=point["model"],
        scheme=_scheme(point["format"], point["density"]),
        settings={"bandwidth": f"{point['bandwidth']}GB/s"},
        context=int(point["context"]),
        batch=int(point["batch"]),
    )


@cache
def _answers() -> list[LlmResult]:
    swept: dict[str, Sequence[int | str]] = {
        "model": AXES["model"],
        "scheme": _schemes(),
        "bandwidth": [f"{value}GB/s" for value in AXES["bandwidth"]],
        "context": [int(value) for value in AXES["context"]],
        "batch": [int(value) for value in AXES["batch"]],
    }
    asked = (engine.question(model="") for engine in ENGINES.values())
    answers = (found for question in asked for found in sweep(question, swept))
    return [found for found in answers if isinstance(found, LlmResult)]


def _bounds() -> list[str]:
    return sorted({found.bound for found in _answers()})


def _row(found: LlmResult, bounds: list[str]) -> tuple[float, ...]:
    others = sum(found.ms_by_part[part] for part in OTHER_PARTS)
    memory = found.memory_bytes
    return (
        found.latency_ms,
        found.latency_ms - others,
        found.joules_per_token,
        (memory.weights + memory.cache) / 1e9,
        bounds.index(found.bound),
    )


def grid() -> NDArray[np.float32]:
    """Return a row of ``COLUMNS`` for each point of ``AXES``; bounds are positions in a list."""
    bounds = _bounds()
    return np.array([_row(found, bounds) for found in _answers()], "<f4")


def page_data() -> dict[str, Any]:
    """Return everything that the page knows, as JSON data."""
    machine, schemes = SYSTEMS[SYSTEM], _schemes()
    areas = {design.spec: design.area for design in load_frontier("deca", "asap7") or []}

    def of_engine(engine: Engine) -> dict[str, Any]:
        surface = (Surface.of_deca if engine.block else Surface.of_cores)(machine)
        points = [kernel(resolve_weight_scheme(name), 1, engine.params) for name in schemes]
        free = engine.name == "optimal"  # no vector operations; nor has plain bf16 any
        return {
            "title": engine.title,
            "options": engine.options,
            "area": machine.cores * areas[engine.block] / 1e6 if engine.block else None,
            "vector": surface.vector,
            "per_vector": [None if free or isinf(p.vector) else p.vector for p in points],
        }

    return {
        "axes": AXES,
        "start": START,
        "units": {name: unit for name, (_, unit) in LABELS.items()},
        "bounds": _bounds(),
        "width": len(COLUMNS),
        "grid": base64.b64encode(grid().tobytes()).decode(),
        "system": SYSTEM,
        "capacity": machine.capacity / 1e9,
        "engines": [of_engine(engine) for engine in ENGINES.values()],
        # The Roof-Surface: operations a second, and intensities of one pass of 16 rows at most.
        "matrix": machine.matrix_rate,
        "schemes": schemes,
        "per_byte": [kernel(resolve_weight_scheme(name)).memory for name in schemes],
        "rows": ROWS_PER_TILE,
        "fma": TILE_FMA,
    }


def _control(name: str, values: Sequence[str]) -> str:
    # Disabled until the script has started: without it a control would change nothing.
    words, _ = LABELS[name]
    if name in LISTS:
        titles = [ENGINES[v].title if name == "engine" else v for v in values]
        options = "".join(f'<option value="{k}">{title}</option>' for k, title in enumerate(titles))
        return f'<label>{words} <select id="lab-{name}" disabled>{options}</select></label>'
    return (
        f'<label>{words}: <output id="lab-{name}-value"></output>'
        f'<input type="range" id="lab-{name}" min="0" max="{len(values) - 1}" disabled></label>'
    )


def _plot(name: str, title: str) -> str:
    inside = f'<div id="lab-{name}"></div>'
    return f'<figure class="drawing narrow"><figcaption>{title}</figcaption>{inside}</figure>'


def lab() -> Markup:
    """Return controls, figures, three drawings and a table, which the page's script fills."""
    rows = [
        [Markup(f'<span id="lab-engine-{k}">{engine.title}</span>')]
        + [Markup(f'<span id="lab-{k}-{column}"></span>') for column in range(5)]
        for k, engine in enumerate(ENGINES.values())
    ]
    head = ("Decompression", "ms a step", "tokens/s", "J/token", "bound by", "DECAs, mm²")
    data = json.dumps(page_data()).replace("<", "\\u003c")  # "<" would end the element early
    return Markup(
        '<div class="lab">'
        "<noscript>This page needs JavaScript; tilewright llm prints the same figures.</noscript>"
        f'<div class="lab-controls">{"".join(_control(*axis) for axis in AXES.items())}</div>'
        '<p class="lab-figures" id="lab-figures" aria-live="polite"></p>'
        '<div class="wide"><code id="lab-command"></code></div>'
        '<div class="lab-plots">'
        + _plot("rates", "Rate by batch")
        + _plot("roof", "Roof-Surface of the products with weights, from above")
        + _plot("time", "Time of a step")
        + f"</div>{Table(head, rows)._repr_html_()}"
        f'<script type="application/json" id="lab-data">{data}</script></div>'
    )
