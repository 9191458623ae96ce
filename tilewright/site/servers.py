"""Whole models by the performance model: systems, batches, contexts, schemes and bounds."""

from collections.abc import Iterator
from functools import cache

import numpy as np

from tilewright.base.table import Column, Table, code
from tilewright.claims.deca import ablation_gain
from tilewright.golden.params.deca import DecaParams
from tilewright.sim import accelerator as acc
from tilewright.sim.llm import answer, compare_systems
from tilewright.sim.models import resolve_model
from tilewright.sim.roofsurface import Kernel, Surface, kernel
from tilewright.sim.scheme import PAPER_SCHEMES, WeightScheme, resolve_weight_scheme
from tilewright.sim.system import Server
from tilewright.sim.whole_models import MeasuredModel, measured_models
from tilewright.sim.workload import Gemm, linear
from tilewright.sim.xeon import SYSTEMS, gemm, tile_cost
from tilewright.site.html import Markup
from tilewright.site.plots import Series, bars, curves
from tilewright.site.surfaces import region_diagram

MODEL = "llama-2-70b"  # on servers; the accelerators take smaller ones
SMALL = "llama-3.2-3b"
BATCHES = (1, 2, 4, 8, 16, 32, 64)
CONTEXTS = (128, 512, 2048, 8192, 32768)
# Accelerators as published and for few users, and the largest batches of two models.
DECODERS = ("anda", "anda:decode", "harmonia", "harmonia:decode")
HBM2 = {"bandwidth": "256GB/s"}
USERS = {"smollm2-135m": 64, "llama-2-7b": 16}
HBM, DDR = SYSTEMS["spr-hbm"], SYSTEMS["spr-ddr"]
KINDS = {  # engine and scheme
    "bf16, software": ("software", "bf16"),
    "mxfp4, software": ("software", "mxfp4"),
    "mxfp4, DECA": ("deca", "mxfp4"),
    "bf8_30%, DECA": ("deca", "bf8_30%"),
}
# The surface of a server, the rows of a product, and the figure of DECA's paper.
REGIONS = {
    "HBM": (Surface.of_cores(HBM), 16, "5a"),
    "DDR": (Surface.of_cores(DDR), 16, "5b"),
    "HBM, four times the vector units": (Surface.of_cores(HBM).scaled(vector=4), 16, "5c"),
    "HBM, 64 rows": (Surface.of_cores(HBM), 64, "18"),
}
SIZES = {"W=8, L=4": (8, 4), "W=32, L=8": (32, 8), "W=64, L=64": (64, 64)}  # its Section 8.2
STEPS = ("base", "+ reads L2", "+ own prefetcher", "+ TOut registers", "+ TEPL")
LENGTHS = {"M = 4": 4, "M = 6": 6, "M = 8": 8, "M = 11": 11}
PREFILLED = ("opt-1.3b", "opt-6.7b", "opt-30b", "llama-7b", "llama-13b", "llama-2-70b")


def _layer(rows: int) -> Gemm:
    return Gemm(name="fc", module="other", rows=rows, inner=8192, outer=30720)


def _schemes() -> list[WeightScheme]:
    return [resolve_weight_scheme(name) for name in PAPER_SCHEMES]


def systems() -> Table:
    """One token of MODEL on every system: batch 1, 1024 tokens of context."""
    columns: dict[str, Column] = {
        "System": lambda r: code(r.system),
        "Engine": "engine",
        "Scheme": "scheme",
        "ms": "latency_ms",
        "Tokens/s": "tokens_per_second",
        "Kind": "kind",
        "Bound by": "bound",
        "Memory, GB": lambda r: (r.memory_bytes.weights + r.memory_bytes.cache) / 1e9,
        "Fits": lambda r: r.memory_bytes.fits,
    }
    return Table.of(compare_systems(MODEL, "mxfp4", 1, 1024, "decode"), columns)


def batches() -> dict[str, Series]:
    """Milliseconds of a step of MODEL by batch, at a context of 192."""
    model = resolve_model(MODEL)
    return {
        name: [
            (n, answer(model, "spr-hbm", engine=e, scheme=s, batch=n, context=192).latency_ms)
            for n in BATCHES
        ]
        for name, (e, s) in KINDS.items()
    }


def by_batch() -> Markup:
    """:func:`batches` as curves."""
    found = batches()
    title = f"Next token of {MODEL} on spr-hbm by batch (figure 17 and table 6 of DECA's paper)"
    return curves(title, found, found, x_label="batch", y_label="time, ms")


def contexts() -> dict[str, Series]:
    """Milliseconds of a token of SMALL by context, batch 1."""
    small = resolve_model(SMALL)
    return {
        name: [(c, answer(small, name, context=c).latency_ms) for c in CONTEXTS]
        for name in ("spr-hbm", "anda", "harmonia", "fp-fp")
    }


def by_context() -> Markup:
    """:func:`contexts` as curves."""
    found = contexts()
    title = f"Next token of {SMALL} by context, batch 1"
    return curves(
        title, found, found, x_label="context, tokens", y_label="time, ms", logarithmic=True
    )


@cache
def users(name: str) -> dict[str, Series]:
    """Tokens a second of all users together at a context of 512, by their number.

    A limit is that of the formula for the preset that is meant for few: the longer of the bytes at
    256 GB/s and the products.
    """
    model, found = resolve_model(name), dict[str, Series]()
    for block in DECODERS:
        answers = [
            (n, answer(model, block=block, settings=HBM2, batch=n, context=512))
            for n in BATCHES
            if n <= USERS[name]
        ]
        found[block] = [(n, a.tokens_per_second) for n, a in answers]
        if block.endswith(":decode"):
            found[f"limit of {block}"] = [
                (n, 1e3 * n / a.formula_ms) for n, a in answers if a.formula_ms is not None
            ]
    return found


def by_users() -> list[Markup]:
    """:func:`users` of each model, limits without markers."""
    drawn = []
    for name in USERS:
        found = users(name)
        programs = {block: found[block] for block in DECODERS}
        title = f"Tokens a second of {name} by users, context 512"
        drawn.append(
            curves(title, found, programs, x_label="users", y_label="tokens/s", logarithmic=True)
        )
    return drawn


def energy_by_context() -> Markup:
    """Energy of a token of SMALL on the accelerators."""
    small = resolve_model(SMALL)
    found: dict[str, Series] = {
        name: [(c, 1e3 * answer(small, name, context=c).joules_per_token) for c in CONTEXTS]
        for name in ("anda", "harmonia")
    }
    title = f"Energy of a token of {SMALL} by context, batch 1"
    return curves(
        title, found, found, x_label="context, tokens", y_label="energy, mJ", logarithmic=True
    )


@cache
def speedups(system: str) -> dict[str, list[float]]:
    """Speed over uncompressed bf16 in every scheme, by engine; one row."""
    machine, layer = SYSTEMS[system], _layer(1)
    base = gemm(machine, "software", resolve_weight_scheme("bf16"), layer).seconds
    return {
        engine: [base / gemm(machine, engine, s, layer).seconds for s in _schemes()]
        for engine in ("software", "more-avx", "wider-avx", "deca", "optimal")
    }


def speedups_by_scheme(system: str) -> Markup:
    """:func:`speedups` as markers."""
    title = f"Speed by scheme on {system}, one row (figures 11, 12 and 14 of DECA's paper)"
    label = "speed over uncompressed bf16, x"
    return bars(title, list(PAPER_SCHEMES), speedups(system), x_label=label, logarithmic=True)


def by_cores() -> Markup:
    """The mean rate over all schemes by the number of cores, four rows."""
    found: dict[str, Series] = {
        engine: [(n, _mean_rate(DDR, engine, n)) for n in range(8, 57, 8)]
        for engine in ("software", "deca")
    }
    title = "Mean rate over all schemes by cores, spr-ddr, four rows (figure 13 of DECA's paper)"
    return curves(title, found, found, x_label="cores", y_label="TFMA/s")


def measured() -> Table:
    """Steps of a model that were measured, and what is predicted for them."""
    columns: dict[str, Column] = {
        "Model": "model",
        "Batch": "batch",
        "Measured, ms": lambda row: round(row.measured_ms, 1),
        "Predicted, ms": lambda row: _predicted(row, row.ours_ms),
        "Roofline, ms": lambda row: _predicted(row, row.roofline_ms),
    }
    return Table.of(measured_models(), columns)


def _predicted(row: MeasuredModel, ms: float) -> str:
    return f"{ms:.1f} ({row.percent(ms):+.0f}%)"


def _mean_rate(machine: Server, engine: str, cores: int) -> float:
    rates = [
        512 * 4 * cores * machine.clock / tile_cost(machine, engine, s, 4, cores=cores).cycles
        for s in _schemes()
    ]
    return float(np.mean(rates)) / 1e12


def roofline(system: str) -> Markup:
    """Rates of software and DECA under the roofline, sixteen rows."""
    machine, layer = SYSTEMS[system], _layer(16)
    names = ("bf16", "mxfp4", *(s for s in PAPER_SCHEMES if s.startswith("bf8")))
    intensity = np.geomspace(3, 200, 60)  # multiply-adds per byte
    roof = Surface.of_cores(machine).roofline(intensity / (512 * 16), 16) / 1e12
    points: dict[str, Series] = {
        series: [
            (512 * 16 / scheme.tile_bytes, gemm(machine, engine, scheme, layer).tera_fma)
            for scheme in map(resolve_weight_scheme, names)
        ]
        for series, engine in (("software", "software"), ("DECA", "deca"))
    }
    lines: dict[str, Series] = {
        "roofline": list(zip(intensity.tolist(), roof.tolist(), strict=True)),
        **{name: sorted(points[name]) for name in ("software", "DECA")},
    }
    title = f"Schemes under the roofline of {system}, sixteen rows (figure 3 of DECA's paper)"
    return curves(
        title,
        lines,
        points,
        x_label="multiply-adds per byte of weights",
        y_label="TFMA/s",
        logarithmic=True,
    )


def _points(rows: int, params: DecaParams | None = None) -> list[Kernel]:
    return [kernel(scheme, rows, params) for scheme in _schemes()]


def bounds(name: str) -> dict[str, str]:
    """Return the bound of each scheme in a diagram of :func:`regions` or :func:`sizes`."""
    surface, points, _ = _diagram(name)
    return {point.name: surface.bound(point) for point in points}


def _diagram(name: str) -> tuple[Surface, list[Kernel], str]:
    if name in SIZES:
        lanes, luts = SIZES[name]
        return Surface.of_deca(HBM), _points(16, DecaParams(lanes=lanes, luts=luts)), "15"
    surface, rows, figure = REGIONS[name]
    return surface, _points(rows), figure


def _drawn(title: str, name: str) -> Markup:
    surface, points, figure = _diagram(name)
    found = [(point, surface.bound(point)) for point in points]
    return region_diagram(title.format(name, figure), surface.borders, found)


def regions() -> Iterator[Markup]:
    """Which unit bounds which scheme, decompressed by software."""
    for name in REGIONS:
        yield _drawn("Bounds of software: {} (figure {} of DECA's paper)", name)


def sizes() -> Iterator[Markup]:
    """Which unit bounds which scheme with a DECA of some sizes."""
    for name in SIZES:
        yield _drawn("Bounds with a DECA of {} (figure {} of its paper)", name)


def integration() -> Markup:
    """How much each step of joining a DECA to its core gains."""
    gains = {
        scheme: [1.0, *np.cumprod([ablation_gain(scheme, k) for k in range(1, 5)]).tolist()]
        for scheme in ("bf8", "bf8_50%", "bf8_20%", "bf8_5%")
    }
    title = "Ways to join a DECA to its core, HBM, four rows (figure 16 of DECA's paper)"
    return bars(title, list(STEPS), gains, x_label="speed over the base, x", logarithmic=True)


def anda_lengths() -> Markup:
    """Speed of Anda over fp16 elements by mantissa length."""
    base = acc.baseline("fp-fp")
    gains: dict[str, list[float]] = {label: [] for label in LENGTHS}
    for name in PREFILLED:
        products = linear(resolve_model(name), 2048)
        before = sum(t.cycles for t in acc.run(base, products))
        for label, length in LENGTHS.items():
            machine = acc.anda(dict.fromkeys(("qkv", "o", "u", "d"), length))
            gains[label].append(before / sum(t.cycles for t in acc.run(machine, products)))
    title = "Anda by mantissa length: projections of a prefill of 2048 tokens, equal peak rate"
    return bars(
        title, list(PREFILLED), gains, x_label="speed over fp16 elements, x", logarithmic=True
    )
