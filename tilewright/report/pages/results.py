"""Whole models: what the performance model says about systems, batches, contexts and designs."""

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from tilewright.claims.deca import ablation_gain
from tilewright.golden.params.deca import DecaParams
from tilewright.report.html import Markup, code, figure, join, note, paragraph, section, table
from tilewright.report.page import Context, Page
from tilewright.report.plots import curves, dot_rows
from tilewright.report.surfaces import region_diagram, surface_drawing
from tilewright.sim import accelerator as acc
from tilewright.sim.llm import answer, compare_systems
from tilewright.sim.models import resolve_model
from tilewright.sim.roofsurface import Kernel, Surface, kernel
from tilewright.sim.scheme import PAPER_SCHEMES, WeightScheme, resolve_weight_scheme
from tilewright.sim.system import Server
from tilewright.sim.workload import Gemm, linear
from tilewright.sim.xeon import SYSTEMS, gemm, tile_cost

TITLE = "Results"
POSITION = 6

MODEL = "llama-2-70b"  # of the sections about servers; the accelerators take smaller ones
SMALL = "llama-3.2-3b"
BATCHES = (1, 2, 4, 8, 16, 32, 64)
CONTEXTS = (128, 512, 2048, 8192, 32768)
HBM, DDR = SYSTEMS["spr-hbm"], SYSTEMS["spr-ddr"]
# The three sizes of the DECA paper's Section 8.2.
SIZES = {"W=8, L=4": (8, 4), "W=32, L=8": (32, 8), "W=64, L=64": (64, 64)}
STEPS = ("base", "+ reads L2", "+ own prefetcher", "+ TOut registers", "+ TEPL")


def build(context: Context) -> Page:
    parts = [_systems, _growth, _speedups, _rooflines, _regions, _sizes, _integration, _anda]
    built = [part() for part in context.track("results", parts, lambda part: part.__name__[1:])]
    data = {key: value for _, found in built for key, value in found.items()}
    first = data["systems"]
    deca = next(r for r in first if (r["system"], r["engine"]) == ("spr-hbm", "deca"))
    return Page(
        summary=f"{MODEL} with DECA and HBM: {deca['tokens_per_second']:.1f} tokens a second;"
        " how time, energy and memory grow, and what bounds them.",
        body=join(markup for markup, _ in built),
        data=json.loads(json.dumps(data)),
    )


def _schemes() -> list[WeightScheme]:
    return [resolve_weight_scheme(name) for name in PAPER_SCHEMES]


def _source(*commands: str) -> Markup:
    by_hand = Markup(", ".join(code(command) for command in commands))
    return note("Computed while this page was built; by hand:", by_hand)


def _systems() -> tuple[Markup, dict[str, Any]]:
    rows = compare_systems(MODEL, "mxfp4", 1, 1024, "decode")
    body = section(
        f"One token of {MODEL} on every system",
        paragraph("Batch 1, 1024 tokens of context; the Xeons with MXFP4 weights, or plain bf16."),
        table(
            ("System", "Engine", "Scheme", "ms", "Tokens/s", "Bound by", "Memory, GB", "Fits"),
            [
                (
                    code(r.system),
                    r.engine or "",
                    r.scheme,
                    r.latency_ms,
                    r.tokens_per_second,
                    r.bound,
                    (r.memory_bytes.weights + r.memory_bytes.cache) / 1e9,
                    "yes" if r.memory_bytes.fits else "no",
                )
                for r in rows
            ],
        ),
        _source(f"tilewright compare llm {MODEL}"),
    )
    return body, {"systems": [asdict(r) for r in rows]}


def _growth() -> tuple[Markup, dict[str, Any]]:
    model, small = resolve_model(MODEL), resolve_model(SMALL)
    kinds = {  # engine and scheme
        "bf16, software": ("software", "bf16"),
        "mxfp4, software": ("software", "mxfp4"),
        "mxfp4, DECA": ("deca", "mxfp4"),
        "bf8_30%, DECA": ("deca", "bf8_30%"),
    }
    batches: dict[str, list[tuple[float, float]]] = {
        name: [
            (batch, step.latency_ms)
            for batch in BATCHES
            for step in [answer(model, "spr-hbm", engine=e, scheme=s, batch=batch, context=192)]
        ]
        for name, (e, s) in kinds.items()
    }
    contexts = {
        f"{name}, {SMALL}": [(c, answer(small, name, context=c).latency_ms) for c in CONTEXTS]
        for name in ("spr-hbm", "anda", "harmonia", "fp-fp")
    }
    energies = {
        name: [(c, 1e3 * answer(small, name, context=c).joules_per_token) for c in CONTEXTS]
        for name in ("anda", "harmonia")
    }
    body = section(
        "How time and energy grow",
        figure(
            curves(
                "latency-by-batch",
                batches,
                batches,
                x_label="batch",
                y_label=f"next token of {MODEL}, ms",
            ),
            "192 tokens of context, HBM. Compare Figure 17 and Table 6 of the DECA paper.",
        ),
        figure(
            curves(
                "latency-by-context",
                contexts,
                contexts,
                x_label="tokens of context",
                y_label="next token, ms",
                logarithmic=True,
            ),
            "Batch 1. Anda and the fp16 baseline leave attention to 64 fp16 lanes.",
        ),
        figure(
            curves(
                "energy-by-context",
                energies,
                energies,
                x_label="tokens of context",
                y_label=f"energy of a token of {SMALL}, mJ",
                logarithmic=True,
            ),
            "Power of the chips as their papers state it, buffers and memory by traffic.",
        ),
        _source(f"tilewright llm {MODEL} --batch 16 --context 192"),
    )
    return body, {"batches": batches, "contexts": contexts, "energies": energies}


def _speedups() -> tuple[Markup, dict[str, Any]]:
    parts, data = [], {}
    layer = Gemm(name="fc", module="other", rows=1, inner=8192, outer=30720)
    for machine in (DDR, HBM):
        base = gemm(machine, "software", resolve_weight_scheme("bf16"), layer).seconds
        gains = {
            engine: [base / gemm(machine, engine, s, layer).seconds for s in _schemes()]
            for engine in ("software", "more-avx", "wider-avx", "deca", "optimal")
        }
        data[machine.name] = {"schemes": list(PAPER_SCHEMES), "speedups": gains}
        parts.append(
            figure(
                dot_rows(
                    f"speedups-{machine.name}",
                    list(PAPER_SCHEMES),
                    gains,
                    x_label="speed over uncompressed bf16",
                ),
                f"{machine.name}, one row. Compare Figures 11, 12 and 14 of the DECA paper.",
            )
        )
    cores = list(range(8, 57, 8))
    rates: dict[str, list[tuple[float, float]]] = {
        engine: [(n, _mean_rate(DDR, engine, n)) for n in cores] for engine in ("software", "deca")
    }
    parts.append(
        figure(
            curves("cores", rates, rates, x_label="cores", y_label="mean over schemes, TFMA/s"),
            "DDR, four rows. Compare Figure 13 of the DECA paper.",
        )
    )
    body = section("Products by scheme", *parts, _source("tilewright gemm 1 8192 30720"))
    return body, {"speedups": data, "cores": rates}


def _mean_rate(machine: Server, engine: str, cores: int) -> float:
    rates = [
        512 * 4 * cores * machine.clock / tile_cost(machine, engine, s, 4, cores=cores).cycles
        for s in _schemes()
    ]
    return float(np.mean(rates)) / 1e12


def _rooflines() -> tuple[Markup, dict[str, Any]]:
    layer = Gemm(name="fc", module="other", rows=16, inner=8192, outer=30720)
    names = ("bf16", "mxfp4", *(s for s in PAPER_SCHEMES if s.startswith("bf8")))
    parts, data = [], {}
    for machine in (DDR, HBM):
        surface = Surface.of_cores(machine)
        intensity = np.geomspace(3, 200, 60)  # multiply-adds per byte
        roof = surface.roofline(intensity / (512 * 16), 16) / 1e12
        points = {
            series: [
                (512 * 16 / scheme.tile_bytes, gemm(machine, engine, scheme, layer).tera_fma)
                for scheme in map(resolve_weight_scheme, names)
            ]
            for series, engine in (("software", "software"), ("DECA", "deca"))
        }
        lines = {"roofline": list(zip(intensity.tolist(), roof.tolist(), strict=True))}
        lines |= {name: sorted(points[name]) for name in ("software", "DECA")}
        data[machine.name] = lines
        parts.append(
            figure(
                curves(
                    f"roofline-{machine.name}",
                    lines,
                    points,
                    x_label="multiply-adds per byte of weights",
                    y_label="TFMA/s",
                    logarithmic=True,
                ),
                f"{machine.name}, sixteen rows: {', '.join(names)}, from left to right."
                " Compare Figure 3 of the DECA paper.",
            )
        )
    return section("Rooflines", *parts, _source("tilewright roofsurface")), {"rooflines": data}


def _points(rows: int, params: DecaParams | None = None) -> list[Kernel]:
    return [kernel(scheme, rows, params) for scheme in _schemes()]


def _regions() -> tuple[Markup, dict[str, Any]]:
    cores = Surface.of_cores(HBM)
    layer = Gemm(name="fc", module="other", rows=4, inner=8192, outer=30720)
    shown = ("mxfp4", "bf8_5%", "bf16_30%", "bf16_10%")
    heights = {
        name: (
            kernel(resolve_weight_scheme(name), 4),
            gemm(HBM, "software", resolve_weight_scheme(name), layer).tera_fma,
        )
        for name in shown
    }
    diagrams = {
        "HBM": (cores, _points(16), "Figure 5a"),
        "DDR": (Surface.of_cores(DDR), _points(16), "Figure 5b"),
        "HBM, four times the vector units": (cores.scaled(vector=4), _points(16), "Figure 5c"),
        "HBM, 64 rows": (cores, _points(64), "Figure 18"),
    }
    data = {
        name: {point.name: surface.bound(point) for point in points}
        for name, (surface, points, _) in diagrams.items()
    }
    body = section(
        "The Roof-Surface",
        paragraph(
            "A kernel runs as fast as the slowest of memory, vector and matrix units lets it."
            " Software decompression on the cores; the heights are those of the core model."
        ),
        figure(
            surface_drawing("roof-surface", cores, 4, heights),
            "HBM, four rows, TFMA/s upwards. Compare Figure 4 of the DECA paper.",
        ),
        *(
            figure(
                region_diagram(f"regions-{k}", surface, points),
                f"{name}. Compare {where} of the DECA paper.",
            )
            for k, (name, (surface, points, where)) in enumerate(diagrams.items())
        ),
        _source("tilewright roofsurface --rows 16", "tilewright roofsurface --vectors 4"),
    )
    return body, {"regions": data}


def _sizes() -> tuple[Markup, dict[str, Any]]:
    surface = Surface.of_deca(HBM)
    parts, data = [], {}
    for k, (name, (lanes, luts)) in enumerate(SIZES.items()):
        points = _points(16, DecaParams(lanes=lanes, luts=luts))
        data[name] = {point.name: surface.bound(point) for point in points}
        parts.append(
            figure(
                region_diagram(f"size-{k}", surface, points),
                f"{name}. Compare Figure 15 of the DECA paper.",
            )
        )
    body = section("Sizes of a DECA", *parts, _source("tilewright roofsurface --explore"))
    return body, {"sizes": data}


def _integration() -> tuple[Markup, dict[str, Any]]:
    gains = {}
    for scheme in ("bf8", "bf8_50%", "bf8_20%", "bf8_5%"):
        steps = [ablation_gain(scheme, k) for k in range(1, 5)]
        gains[scheme] = [1.0, *np.cumprod(np.array(steps, float)).tolist()]
    body = section(
        "How a DECA is joined to its core",
        figure(
            dot_rows("integration", list(STEPS), gains, x_label="speed over the base"),
            "HBM, four rows, 8-bit codes. Compare Figure 16 of the DECA paper.",
        ),
        note("Computed by", code("tilewright.sim.deca_stream"), "while this page was built."),
    )
    return body, {"integration": gains}


def _anda() -> tuple[Markup, dict[str, Any]]:
    lengths = {"M = 4": 4, "M = 6": 6, "M = 8": 8, "M = 11": 11}
    names = ("opt-1.3b", "opt-6.7b", "opt-30b", "llama-7b", "llama-13b", "llama-2-70b")
    base = acc.baseline("fp-fp")
    gains: dict[str, list[float]] = {label: [] for label in lengths}
    for name in names:
        products = linear(resolve_model(name), 2048)
        before = sum(t.cycles for t in acc.run(base, products))
        for label, length in lengths.items():
            machine = acc.anda(dict.fromkeys(("qkv", "o", "u", "d"), length))
            gains[label].append(before / sum(t.cycles for t in acc.run(machine, products)))
    body = section(
        "Anda by mantissa length",
        figure(
            dot_rows("anda-lengths", list(names), gains, x_label="speed over fp16 elements"),
            "Projections of a prefill of 2048 tokens, equal peak throughput.",
        ),
        _source("tilewright llm opt-6.7b --system anda --phase prefill --scheme 6"),
    )
    return body, {"anda": {"models": list(names), "speedups": gains}}
