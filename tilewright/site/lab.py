"""The labs: language models on servers and accelerators whose settings a reader changes.

The page holds the performance model's answer at every point of a grid, computed while the site is
built; nothing is interpolated. ``docs/_static/lab.js`` shows the point that is chosen.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import isinf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.base.table import Styled, Table
from tilewright.golden.params.deca import DecaParams
from tilewright.golden.params.resolve import resolve_as
from tilewright.sim.llm import LlmResult
from tilewright.sim.roofsurface import TILE_FMA, Surface, kernel
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.serving import Question
from tilewright.sim.sweep import sweep
from tilewright.sim.target import resolve_target, silicon_mm2
from tilewright.sim.xeon import ROWS_PER_TILE, SYSTEMS
from tilewright.site.html import Markup
from tilewright.studies.sweeps.frontiers import load_frontier

SERVER = "spr-hbm"
DECAS = ((8, 4), (16, 8), (32, 8), (64, 64))  # lanes and look-up tables
UNITS = ("gemm", "vector", "convert", "load", "store")  # of an accelerator
COLUMNS = ("ms", "products", "joules", "gigabytes", "bound")  # of a grid; then shares of units
OTHER_PARTS = ("small kernels", "attention", "cache")  # of a step; the rest are products
LABELS = {  # of the controls: name and unit
    "engine": ("Decompression", ""),
    "machine": ("Accelerator", ""),
    "model": ("Model", ""),
    "format": ("Weight format", ""),
    "density": ("Weights that are not zero", " %"),
    "bandwidth": ("Memory bandwidth", " GB/s"),
    "context": ("Context", " tokens"),
    "batch": ("Batch", ""),
}
LISTS = ("engine", "machine", "model", "format")  # chosen from a list, the others by a slider


class Machine(NamedTuple):
    """An accelerator, or a server whose weights are decompressed by an engine."""

    title: str
    system: str
    engine: str | None = None
    block: str | None = None

    @property
    def params(self) -> DecaParams | None:
        """The parameters of the DECA, where there is one."""
        return None if self.block is None else resolve_as(DecaParams, self.block)

    @property
    def options(self) -> str:
        """Options of the command line."""
        named = (("--on", self.system), ("--engine", self.engine), ("--block", self.block))
        return " ".join(f"{option} {value}" for option, value in named if value is not None)

    @property
    def area(self) -> float | None:
        """Square millimetres of an accelerator, or of a server's DECAs."""
        if self.engine is None:
            return silicon_mm2(resolve_target(self.system))
        if self.block is None:
            return None
        areas = {design.spec: design.area for design in load_frontier("deca", "asap7") or []}
        return SYSTEMS[self.system].cores * areas[self.block] / 1e6


@dataclass(frozen=True, kw_only=True)
class Lab:
    """A grid of questions, and the point at which its page starts.

    The first axis names ``machines``, which are the rows of the page's table; the last one varies
    fastest.
    """

    name: str  # with which the ids of its elements begin
    machines: Mapping[str, Machine]
    axes: Mapping[str, tuple[str, ...]]
    start: Mapping[str, str]
    units: tuple[str, ...] = ()  # whose shares of a step the page draws
    area: str  # heading of the table's last column

    def question(self, point: Mapping[str, str]) -> Question:
        """Return the question that a point of the grid answers."""
        machine = self.machines[point[next(iter(self.axes))]]
        format_and_density = (point["format"], point["density"]) if "format" in point else None
        return Question(
            system=machine.system,
            engine=machine.engine,
            block=machine.params,
            model=point["model"],
            scheme=format_and_density and _scheme(*format_and_density),
            settings={"bandwidth": f"{point['bandwidth']}GB/s"},
            context=int(point["context"]),
            batch=int(point["batch"]),
        )

    @property
    def schemes(self) -> list[str]:
        """Formats with densities, where the lab has them."""
        return [_scheme(*p) for p in product(self.axes["format"], self.axes["density"])]

    def answers(self) -> list[LlmResult]:
        """Return the model's answer at every point."""
        return _answers(self.name)

    def bounds(self) -> list[str]:
        """Return everything that bounds some point."""
        return sorted({found.bound for found in self.answers()})

    def grid(self) -> NDArray[np.float32]:
        """Return a row of ``COLUMNS`` and shares for each point; bounds are places in a list."""
        bounds = self.bounds()
        return np.array([self._row(found, bounds) for found in self.answers()], "<f4")

    def _row(self, found: LlmResult, bounds: list[str]) -> tuple[float, ...]:
        others = sum(found.ms_by_part.get(part, 0) for part in OTHER_PARTS)
        memory = found.memory_bytes
        return (
            found.latency_ms,
            found.latency_ms - others,
            found.joules_per_token,
            (memory.weights + memory.cache) / 1e9,
            bounds.index(found.bound),
            *(found.utilisation[unit] for unit in self.units),
        )


def _scheme(kind: str, density: str) -> str:
    return kind if density == "100" else f"{kind}_{density}%"


_ENGINES = {
    "software": Machine("software", SERVER, "software"),
    **{
        f"deca-{lanes}-{luts}": Machine(
            f"DECA, W={lanes}, L={luts}", SERVER, "deca", f"deca,lanes={lanes},luts={luts}"
        )
        for lanes, luts in DECAS
    },
    "optimal": Machine("optimal, at no cost", SERVER, "optimal"),
}
SERVERS = Lab(
    name="lab",
    machines=_ENGINES,
    axes={
        "engine": tuple(_ENGINES),
        "model": ("llama-3.2-3b", "llama-3.1-8b", "qwen2.5-32b", "llama-2-70b"),
        "format": ("bf16", "bf8", "mxfp4"),
        "density": ("100", "50", "20", "5"),  # %
        "bandwidth": ("260", "425", "850", "1700"),  # GB/s
        "context": ("128", "1024", "8192", "32768"),
        "batch": ("1", "2", "4", "8", "16", "32", "64", "128", "256"),
    },
    start={  # where software and every DECA differ
        **{"engine": "deca-32-8", "model": "llama-2-70b", "format": "bf8", "density": "20"},
        **{"bandwidth": "850", "context": "1024", "batch": "1"},
    },
    area="DECAs, mm²",
)
_ACCELERATORS = {"anda": Machine("Anda", "anda"), "harmonia": Machine("Harmonia", "harmonia")}
ACCELERATORS = Lab(
    name="accelerators",
    machines=_ACCELERATORS,
    axes={  # every point is a program that the compiler writes and counts
        "machine": tuple(_ACCELERATORS),
        "model": ("smollm2-135m", "llama-3.2-1b", "llama-3.1-8b"),
        "bandwidth": ("64", "256"),
        "context": ("128", "1024", "4096"),
        "batch": ("1", "2", "4", "8"),
    },
    start={  # where the memory bounds Harmonia, and the array Anda
        **{"machine": "harmonia", "model": "llama-3.2-1b"},
        **{"bandwidth": "64", "context": "1024", "batch": "1"},
    },
    units=UNITS,
    area="area, mm²",
)
LABS = {lab.name: lab for lab in (SERVERS, ACCELERATORS)}


@cache
def _answers(name: str) -> list[LlmResult]:
    lab = LABS[name]
    swept: dict[str, Sequence[int | str]] = {"model": lab.axes["model"]}
    if "format" in lab.axes:
        swept["scheme"] = lab.schemes
    swept["bandwidth"] = [f"{value}GB/s" for value in lab.axes["bandwidth"]]
    swept |= {axis: [int(value) for value in lab.axes[axis]] for axis in ("context", "batch")}
    asked = (
        Question(model="", system=machine.system, engine=machine.engine, block=machine.params)
        for machine in lab.machines.values()
    )
    answers = (found for question in asked for found in sweep(question, swept))
    return [found for found in answers if isinstance(found, LlmResult)]


def page_data(lab: Lab) -> dict[str, Any]:
    """Return the page's data on a lab, as JSON data."""
    data = {
        "axes": lab.axes,
        "start": lab.start,
        "labels": {name: unit for name, (_, unit) in LABELS.items()},
        "bounds": lab.bounds(),
        "columns": [*COLUMNS, *lab.units],
        "units": lab.units,
        "grid": base64.b64encode(lab.grid().tobytes()).decode(),
        "capacity": lab.answers()[0].memory_bytes.capacity / 1e9,
        "machines": [
            {"title": machine.title, "options": machine.options, "area": machine.area}
            for machine in lab.machines.values()
        ],
    }
    return data | ({"roof": _roof(lab)} if lab is SERVERS else {})


def _roof(lab: Lab) -> dict[str, Any]:
    """Return the Roof-Surface: operations a second, and intensities of one pass of 16 rows."""
    server = SYSTEMS[SERVER]
    schemes = [resolve_weight_scheme(name) for name in lab.schemes]

    def of_engine(machine: Machine) -> dict[str, Any]:
        surface = (Surface.of_deca if machine.block else Surface.of_cores)(server)
        points = [kernel(scheme, 1, machine.params) for scheme in schemes]
        free = machine.engine == "optimal"  # no vector operations; nor has plain bf16 any
        return {
            "vector": surface.vector,
            "per_vector": [None if free or isinf(p.vector) else p.vector for p in points],
        }

    return {
        "engines": [of_engine(machine) for machine in lab.machines.values()],
        "matrix": server.matrix_rate,
        "schemes": lab.schemes,
        "per_byte": [kernel(scheme).memory for scheme in schemes],
        "rows": ROWS_PER_TILE,
        "fma": TILE_FMA,
    }


def _control(lab: Lab, name: str, values: Sequence[str]) -> str:
    # Disabled until the script has started: without it a control would change nothing.
    words, _ = LABELS[name]
    here = f"{lab.name}-{name}"
    if name in LISTS:
        machines = lab.machines if name == next(iter(lab.axes)) else {}
        titles = [machines[v].title if machines else v for v in values]
        options = "".join(f'<option value="{k}">{title}</option>' for k, title in enumerate(titles))
        return f'<label>{words} <select id="{here}" disabled>{options}</select></label>'
    return (
        f'<label>{words}: <output id="{here}-value"></output>'
        f'<input type="range" id="{here}" min="0" max="{len(values) - 1}" disabled></label>'
    )


def _plot(lab: Lab, name: str, title: str) -> str:
    inside = f'<div id="{lab.name}-{name}"></div>'
    return f'<figure class="drawing narrow"><figcaption>{title}</figcaption>{inside}</figure>'


def page(lab: Lab) -> Markup:
    """Return controls, figures, three drawings and a table, which the page's script fills."""

    def cell(name: str, words: str = "") -> Styled:
        return Styled(words, f'<span id="{lab.name}-{name}">{{}}</span>')

    rows = [
        [cell(f"row-{k}", machine.title), *(cell(f"{k}-{column}") for column in range(5))]
        for k, machine in enumerate(lab.machines.values())
    ]
    first, *_ = lab.axes
    head = (LABELS[first][0], "ms a step", "tokens/s", "J/token", "bound by", lab.area)
    data = json.dumps(page_data(lab)).replace("<", "\\u003c")  # "<" would end the element early
    middle = (
        _plot(lab, "units", "Share of a step in which each unit works")
        if lab.units
        else _plot(lab, "roof", "Roof-Surface of the products with weights, from above")
    )
    controls = "".join(_control(lab, name, values) for name, values in lab.axes.items())
    return Markup(
        f'<div class="lab" id="{lab.name}">'
        "<noscript>This page needs JavaScript; tilewright llm prints the same figures.</noscript>"
        f'<div class="lab-controls">{controls}</div>'
        f'<p class="lab-figures" id="{lab.name}-figures" aria-live="polite"></p>'
        f'<div class="wide"><code class="lab-command" id="{lab.name}-command"></code></div>'
        '<div class="lab-plots">'
        + _plot(lab, "rates", "Rate by batch")
        + middle
        + _plot(lab, "time", "Time of a step")
        + f"</div>{Table(head, rows)._repr_html_()}"
        f'<script type="application/json">{data}</script></div>'
    )
