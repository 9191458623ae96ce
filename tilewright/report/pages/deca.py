"""The DECA processing element: formats, cycles, area, power, coverage, beside the paper's."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

from tilewright.golden.deca import (
    compress,
    decode_tiles,
    expected_cycles,
    resolve_scheme,
    tile_cycles,
)
from tilewright.golden.params.deca import DECA_BLOCKS, TILE_BYTES, DecaParams, ScaleKind, TileConfig
from tilewright.report.claims import claims_source
from tilewright.report.deca_power import power_section
from tilewright.report.deca_run import run_tiles
from tilewright.report.drawings.deca import draw
from tilewright.report.hardware import (
    area_by_group,
    design_records,
    figures_table,
    longest_paths,
    parts_table,
    records_wanted,
)
from tilewright.report.html import (
    Markup,
    code,
    figure,
    join,
    note,
    paragraph,
    section,
    table,
    verdict,
)
from tilewright.report.measured import load_measured, measured_source, missing
from tilewright.report.page import Context, Page
from tilewright.report.plots import Series, curves
from tilewright.sim.claims import Claim, load_claims
from tilewright.studies.pe.energy import load_energy
from tilewright.synth.technology import load_technology
from tilewright.verify.coverage import Coverage
from tilewright.verify.deca.memory import Memory, Store
from tilewright.verify.deca.workload import (
    Squash,
    TileJob,
    in_regions,
    random_table,
    random_tiles,
    tile_jobs,
)

TITLE = "DECA"
POSITION = 10

SEED = 3
CYCLES, COVERAGE = "deca_cycles", "deca_coverage"  # records of benches
CYCLES_COMMAND = "tilewright simulate deca.cycles --cases 10000 --update-record"
COVERAGE_COMMAND = "tilewright simulate deca.coverage --update-record"
SHAPE = (256, 1024)  # of the matrix whose tiles are weighed
PRESETS = {preset: DecaParams.preset(preset) for preset in DecaParams.PRESETS}
LIVE_PRESET = "small"  # what a plain Python simulator can do in seconds
LIVE_CONFIGS = (
    TileConfig(code_bits=8, sparse=True),
    TileConfig(code_bits=4, sparse=True, scale=ScaleKind.E8M0),
)
LIVE_TILES = 5  # of each configuration
# Parts of the element as the paper sums their area; everything else is its "rest".
PAPER_PARTS = {
    "buffers": r"tout\d|loader\d\.(load_unit|\w+_queue)",
    "lut": r"pipeline\.lut",
}


def build(context: Context) -> Page:
    claims = load_claims("deca")
    sizes = _sizes(claims)
    cycles = _cycles(context, claims)
    live = _live()
    records = design_records(context, [cls.block for cls in DECA_BLOCKS])
    energy = load_energy("deca", load_technology("asap7"))
    coverage = load_measured(COVERAGE, context.measured)
    body = join(
        [
            figure(
                draw().svg(),
                "The processing element with its default sizes. Blue: storage. The TEPL unit"
                " belongs to the core.",
            ),
            _structures(claims),
            _formats(sizes, claims),
            _cycle_sections(context, cycles, claims),
            _live_section(live),
            _hardware(context, records, claims),
            power_section(energy, claims, PAPER_PARTS),
            _coverage(coverage),
        ]
    )
    return Page(
        summary=_summary(cycles),
        body=body,
        data={
            "bytes_per_tile": sizes,
            "cycles_per_tile": cycles,
            "live": live,
            "synthesis": records,
            "energy": energy,
            "coverage": coverage,
        },
        failures=[
            *(
                f"{row['block']}, {_case(row)}: measured {row['measured']}, the model says"
                f" {row['model']}"
                for row in cycles
                if row["measured"] != row["model"]
            ),
            *(f"{row['what']}: {row['mismatch']}" for row in live["checks"] if row["mismatch"]),
        ],
        problems=_problems(context, cycles, coverage),
    )


def _summary(cycles: list[dict[str, Any]]) -> str:
    measured = sum(row["tiles"] or 0 for row in cycles)
    return "The DECA processing element: formats, cycles per tile, area, coverage" + (
        f"; {measured:,} tiles measured." if measured else "."
    )


def _problems(
    context: Context, cycles: list[dict[str, Any]], coverage: dict[str, Any] | None
) -> list[str]:
    problems = [
        f"the record {CYCLES} has another formula for {row['block']}, {_case(row)};"
        f" to renew it: {CYCLES_COMMAND}"
        for row in cycles
        if row["recorded_formula"] not in (None, row["formula"])
    ]
    if load_measured(CYCLES, context.measured) is None:
        problems.append(f"no record of cycles; to make it: {CYCLES_COMMAND}")
    if coverage is None:
        problems.append(f"no record of coverage; to make it: {COVERAGE_COMMAND}")
    return problems


# Structures.


def _structures(claims: dict[str, Claim]) -> Markup:
    p, paper = PRESETS["paper"], claims["deca.table3.bytes"]
    line = p.line_bytes
    bytes_of = {
        "SQQ": ("SRAM", p.sqq_lines * line, p.loaders, "sqq"),
        "bitmask queue": ("registers", p.mask_queue_lines * line, p.loaders, "bitmask_queue"),
        "scale queue": ("registers", p.scale_queue_lines * line, p.loaders, "scale_queue"),
        "TOut": ("SRAM", TILE_BYTES, p.loaders, "tout"),
        "big lookup table": ("SRAM, four parts", 512, p.luts, "big_lut"),
    }
    return section(
        "Structures",
        table(
            ("Structure", "Kind", "Bytes of one", "Of these", "Paper, bytes"),
            [
                (name, kind, size, count, paper.numbers[key])
                for name, (kind, size, count, key) in bytes_of.items()
            ],
        ),
        paragraph(
            "A tile has",
            f"{TILE_BYTES:,}",
            "bytes, so that is what one TOut holds; the next tile follows the reader row by row.",
        ),
        note("Source: computed from", code("golden/params/deca.py"), "in this run."),
        claims_source(paper),
    )


# Formats.


@dataclass(frozen=True)
class _Case:
    """A scheme at a density, and the key of the paper's figure where it has one."""

    scheme: str
    density: float | None
    key: str | None


def _format_cases(claim: Claim) -> list[_Case]:
    stated = []
    for key in claim.numbers:
        name, _, percent = key.partition("_")
        stated.append(_Case(name, float(percent) / 100 if percent else None, key))
    others = ("mxfp8_e4m3", "mxfp6_e3m2", "nf4", "int4", "int8_tile")
    return [*stated, *(_Case(name, None, None) for name in others)]


def _sizes(claims: dict[str, Claim]) -> list[dict[str, Any]]:
    """Bytes of a tile: by the formula, of a matrix compressed now, and in the paper."""
    claim = claims["deca.bytes_per_tile"]
    weights = np.random.default_rng(SEED).normal(size=SHAPE).astype(np.float32)
    rows = []
    for case in _format_cases(claim):
        matrix = compress(weights, resolve_scheme(case.scheme), case.density)
        config = matrix.scheme.config
        density = 1.0 if case.density is None else case.density
        codes = config.elements * density * config.code_bits / 8
        rows.append(
            {
                "scheme": case.scheme,
                "density": density,
                "code_bits": config.code_bits,
                "mask_bytes": config.mask_bytes,
                "scale_bytes": config.scale_bytes,
                "code_bytes": codes,
                "formula": config.mask_bytes + config.scale_bytes + codes,
                "compressed": matrix.tiles.size / len(matrix.tiles),
                "paper": None if case.key is None else claim.numbers[case.key],
                "elements": config.elements,
            }
        )
    return rows


def _formats(rows: list[dict[str, Any]], claims: dict[str, Claim]) -> Markup:
    return section(
        "Formats and bytes per tile",
        paragraph(
            "A tile has bitmask, scales and codes. The formula counts them; beside it the mean"
            f" over the tiles of a random {SHAPE[0]} x {SHAPE[1]} matrix, pruned and compressed"
            " while this page was built. The data of a tile is whole bytes, hence the last"
            " digits. int8 tiles have twice the elements."
        ),
        table(
            (
                *("Scheme", "Density, %", "Code bits", "Bitmask, B", "Scales, B", "Codes, B"),
                *("Tile by formula, B", "Compressed now, B", "Paper, B", "Smaller than bf16, x"),
            ),
            [
                (
                    code(r["scheme"]),
                    100 * r["density"],
                    r["code_bits"],
                    r["mask_bytes"],
                    r["scale_bytes"],
                    r["code_bytes"],
                    r["formula"],
                    r["compressed"],
                    r["paper"],
                    2 * r["elements"] / r["formula"],
                )
                for r in rows
            ],
        ),
        note(
            "Source:",
            code("golden/deca"),
            f"run while this page was built, seed {SEED}.",
        ),
        claims_source(claims["deca.bytes_per_tile"]),
    )


# Cycles.


def _cycles(context: Context, claims: dict[str, Claim]) -> list[dict[str, Any]]:
    """Every case of the record, or the paper's cases where there is no record."""
    record = load_measured(CYCLES, context.measured)
    if record is None:
        rows = [_unmeasured(preset, case) for preset in PRESETS for case in _paper_cases(claims)]
    else:
        rows = [{"block": spec, **row} for spec, table in record["blocks"].items() for row in table]
    for row in rows:
        params, config = PRESETS[row["block"].partition(":")[2]], _config(row)
        row["recorded_formula"] = row.get("formula")
        row["formula"] = float(expected_cycles(params, config, row["density"]))
        row["paper"] = _paper_cycles(claims, params, config, row["density"])
    return rows


def _config(row: dict[str, Any]) -> TileConfig:
    return TileConfig(
        code_bits=row["code_bits"],
        sparse=row["density"] < 1,
        scale=ScaleKind(row["scale"]),
        group=row["group"],
        int8=row["int8"],
    )


def _paper_cases(claims: dict[str, Claim]) -> list[tuple[int, float]]:
    """Bits of a code and density."""
    dense = [(int(bits), 1.0) for bits in claims["deca.cycles_per_tile.dense"].numbers]
    by_density = claims["deca.cycles_per_tile.w32l8"].numbers
    return [*dense, *((8, int(percent) / 100) for percent in by_density if percent != "100")]


def _unmeasured(preset: str, case: tuple[int, float]) -> dict[str, Any]:
    bits, density = case
    config = TileConfig(code_bits=bits)
    return {
        "block": f"deca:{preset}",
        "code_bits": bits,
        "scale": config.scale.value,
        "group": config.group,
        "int8": False,
        "density": density,
        "tiles": None,
        "measured": None,
        "model": None,
    }


def _paper_cycles(
    claims: dict[str, Claim], params: DecaParams, config: TileConfig, density: float
) -> float | None:
    """The paper speaks of bf16 tiles, by density for 8-bit codes and by width for dense ones."""
    if config.int8:
        return None
    found = None
    if config.code_bits == 8:
        claim = claims.get(f"deca.cycles_per_tile.w{params.lanes}l{params.luts}")
        found = claim and claim.numbers.get(f"{100 * density:g}")
    elif density == 1 and params == PRESETS["paper"]:
        found = claims["deca.cycles_per_tile.dense"].numbers.get(str(config.code_bits))
    return found


def _case(row: dict[str, Any]) -> str:
    scaled = "" if row["scale"] == "none" else f", {row['scale']} scales"
    tile = ", int8 tile" if row["int8"] else ""
    return f"{row['code_bits']}-bit codes{scaled}{tile}, density {row['density']:.0%}"


def _cycle_sections(
    context: Context, rows: list[dict[str, Any]], claims: dict[str, Claim]
) -> Markup:
    record = load_measured(CYCLES, context.measured)
    tables = [
        join([paragraph(code(spec)), _cycle_table([r for r in rows if r["block"] == spec])])
        for spec in dict.fromkeys(row["block"] for row in rows)
    ]
    source = (
        missing("measured cycles", CYCLES_COMMAND)
        if record is None
        else measured_source(CYCLES, record)
    )
    stated = [c for name, c in claims.items() if name.startswith("deca.cycles_per_tile")]
    return section(
        "Cycles per tile",
        paragraph(
            "With data there, a tile takes the sum over its vector operations of"
            " max(1, ceil(window / Lq)) cycles. RTL: cycles from the end of one tile to the end"
            " of the next on the emitted Verilog, mean over the tiles. Model: the same of the"
            " golden model for the same tiles, which must be equal tile by tile. Formula: the"
            " expectation for randomly placed nonzeros, computed now. Paper: from its formula."
        ),
        *tables,
        source,
        claims_source(*stated),
        _density_plot(rows),
    )


def _cycle_table(rows: list[dict[str, Any]]) -> Markup:
    return table(
        (
            *("Code bits", "Scales", "Tile", "Density, %", "Tiles", "RTL", "Model", "Formula"),
            *("Paper", "RTL against paper, %"),
        ),
        [
            (
                r["code_bits"],
                r["scale"],
                "int8" if r["int8"] else "bf16",
                100 * r["density"],
                r["tiles"],
                r["measured"],
                r["model"],
                r["formula"],
                r["paper"],
                None
                if None in (r["measured"], r["paper"])
                else round(100 * (r["measured"] / r["paper"] - 1), 2),
            )
            for r in rows
        ],
    )


def _density_plot(rows: list[dict[str, Any]]) -> Markup:
    config = TileConfig(code_bits=8, sparse=True)
    lines: dict[str, Series] = {}
    points: dict[str, Series] = {}
    for preset, params in PRESETS.items():
        name = f"{preset}: W={params.lanes}, L={params.luts}"
        lines[name] = [(d, float(expected_cycles(params, config, d / 100))) for d in range(101)]
        points[name] = [
            (100 * row["density"], row["measured"])
            for row in rows
            if row["block"] == f"deca:{preset}" and _plotted(row)
        ]
    drawing = curves(
        "deca-density",
        lines,
        points,
        x_label="density, %",
        y_label="cycles per tile",
        logarithmic=True,
    )
    return figure(drawing, "8-bit codes. Lines: the formula. Markers: cycles measured on the RTL.")


def _plotted(row: dict[str, Any]) -> bool:
    return row["code_bits"] == 8 and not row["int8"] and row["measured"] is not None


# A run while the page is built.


def _live() -> dict[str, Any]:
    """A few tiles through the RTL: their bits and their cycles."""
    params, rng, random = PRESETS[LIVE_PRESET], np.random.default_rng(SEED), Random(SEED)
    store = Store(params, random, base=1 << (params.address_bits - 1))
    lut = random_table(rng, min(config.code_bits for config in LIVE_CONFIGS))
    batches = []
    for config in LIVE_CONFIGS:
        tiles = random_tiles(rng, config, LIVE_TILES, 0.5, clustered=0)
        jobs = tile_jobs(tiles, lut, in_regions(tiles, store))
        cycles = tile_cycles(params, config, decode_tiles(tiles).mask).total
        batches.append([replace(job, cycles=int(n)) for job, n in zip(jobs, cycles, strict=True)])
    total = run_tiles(params, Memory(params, store.line, random), batches)
    checks = [_check(config, jobs) for config, jobs in zip(LIVE_CONFIGS, batches, strict=True)]
    return {"block": f"deca:{LIVE_PRESET}", "seed": SEED, "cycles": total, "checks": checks}


def _check(config: TileConfig, jobs: list[TileJob]) -> dict[str, Any]:
    scaled = "" if config.scale is ScaleKind.NONE else f", {config.scale.value} scales"
    # The first tile of each loader waits for its data.
    measured = [b.done_at - a.done_at for a, b in pairwise(jobs)][1:]
    model = [job.cycles for job in jobs[2:]]
    return {
        "what": f"{config.code_bits}-bit codes{scaled}, sparse",
        "tiles": len(jobs),
        "cycles": measured,
        "model": model,
        "mismatch": _first_difference(jobs)
        or (None if measured == model else f"cycles {measured}, the model says {model}"),
    }


def _first_difference(jobs: Iterable[TileJob]) -> str | None:
    for number, job in enumerate(jobs):
        for row, wanted in enumerate(job.rows):
            got = job.got_rows.get(row)
            if got != wanted:
                return f"tile {number}, row {row}: {got or 0:#x}, not {wanted:#x}"
    return None


def _live_section(live: dict[str, Any]) -> Markup:
    return section(
        "Live check",
        paragraph(
            "Random tiles through the RTL of",
            code(live["block"]),
            "in Amaranth's simulator: every row compared with the golden model, and the cycles"
            " from tile to tile with the cycle model. The test suite does the same, and much"
            " more, with the emitted Verilog of every size.",
        ),
        table(
            ("Tiles", "Number", "Cycles of each after the second", "Model", "Result"),
            [
                (
                    r["what"],
                    r["tiles"],
                    ", ".join(map(str, r["cycles"])),
                    ", ".join(map(str, r["model"])),
                    verdict(not r["mismatch"], r["mismatch"] or "no difference"),
                )
                for r in live["checks"]
            ],
        ),
        note(f"Source: run while this page was built, seed {live['seed']}."),
    )


# Hardware.


def _hardware(
    context: Context, records: dict[str, dict[str, Any]], claims: dict[str, Claim]
) -> Markup:
    clock = claims["deca.clock"]
    parts = [figures_table(context, records), longest_paths(records)] if records else []
    return section(
        "Area and longest path",
        paragraph(
            f"The paper clocks the element at {clock.number:g} {clock.unit}, a period of"
            f" {1000 / clock.number:g} ps, at 7 nm; asap7 is the technology to compare."
            " What delay and area leave out: see Synthesis in the documentation."
        ),
        *parts,
        records_wanted(records, ["deca:paper"]),
        *(_paper_area(name, record, claims) for name, record in records.items()),
        claims_source(clock, claims["deca.area.per_pe"], claims["deca.area.share"]),
    )


def _paper_area(name: str, record: dict[str, Any], claims: dict[str, Claim]) -> Markup:
    """Only the paper's size in the paper's technology has something to be compared with."""
    areas = area_by_group(record, PAPER_PARTS, "rest")
    same = record["parameters"] == PRESETS["paper"].as_dict() and record["block"] == "deca"
    if areas is None or not same or record["technology"] != "asap7":
        return Markup("")
    total, shares = claims["deca.area.per_pe"].number, claims["deca.area.share"].numbers
    ours = sum(areas.values())
    rows = [
        (part, area, 100 * area / ours, total * shares[part] / 100, shares[part])
        for part, area in areas.items()
    ]
    return join(
        [
            paragraph(
                "Area of",
                code(name),
                "as the paper divides it, and part by part. The paper takes its memories from CACTI"
                " and its logic from the literature, scaled to 7 nm; ours are cells and a model of"
                ' memory macros, without wires. Its "rest" has adders, multipliers and crossbar'
                " alone; ours also has every pipeline register, alignment, prefetcher and control.",
            ),
            table(
                ("Part", "Ours, µm²", "Share, %", "Paper, µm²", "Share, %"),
                [*rows, ("all", ours, 100, total, 100)],
            ),
            parts_table(record),
        ]
    )


# Coverage.


def _coverage(record: dict[str, Any] | None) -> Markup:
    title = "Functional coverage"
    if record is None:
        return section(title, missing("coverage", COVERAGE_COMMAND))
    rows = []
    for block, entry in record["blocks"].items():
        found = Coverage.from_dict(entry)
        holes = len(found.holes)
        rows.append(
            (
                code(block),
                len(found.hits),
                len(found.hits) - holes,
                sum(found.hits),
                _squashed(found),
                verdict(not holes, f"{holes} holes" if holes else "no hole"),
            )
        )
    axes = next(iter(record["blocks"].values()))["axes"]
    return section(
        title,
        paragraph(
            "A combination is one value of each axis; a tile counts for one when its rows, or its"
            " squash, have been seen on the emitted Verilog and were right."
        ),
        table(("Axis", "Values"), [(axis, ", ".join(values)) for axis, values in axes.items()]),
        table(("Block", "Combinations", "Seen", "Tiles", "Of these squashed", "Result"), rows),
        measured_source(COVERAGE, record),
    )


def _squashed(coverage: Coverage) -> int:
    """Tiles that a squash ended."""
    counted = zip(coverage.bins(), coverage.hits, strict=True)
    return sum(hits for found, hits in counted if found["squash"] != Squash.NONE)
