"""The DECA processing element (PE): formats, cycles, area, power, coverage, and the paper's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.base.table import Column, Styled, Table, code, verdict
from tilewright.claims import Claim, load_claims
from tilewright.golden.deca import compress, expected_cycles, resolve_scheme
from tilewright.golden.params.deca import DecaParams, ScaleKind, TileConfig
from tilewright.site.hardware import by_group
from tilewright.site.html import Markup
from tilewright.site.plots import Series, curves
from tilewright.studies.deca_energy import FULL_ACTIVITY
from tilewright.studies.measured import load_measured
from tilewright.studies.pe.energy import load_energy
from tilewright.synth.energy import COMPONENTS
from tilewright.synth.record import load_records
from tilewright.synth.technology import load_technology
from tilewright.verify.coverage import Coverage
from tilewright.verify.deca.workload import Squash

PRESETS = {preset: DecaParams.preset(preset) for preset in DecaParams.PRESETS}
# Modules of the PE by the paper's division of area and power; everything else is its "rest".
PAPER_PARTS = {"buffers": r"tout\d|loader\d\.(load_unit|\w+_queue)", "lut": r"pipeline\.lut"}
TEPL_PARTS = {  # of `deca_tepl`
    "loaders": r"pe\.loader\d",
    "pipeline": r"pe\.pipeline",
    "tile outputs": r"pe\.tout\d",
    "prefetcher": r"pe\.prefetcher",
    "TEPL unit": r"tepl\b",
    "registers": r"pe\.registers",
}
PAPER_PES = 56  # one for each core of the paper's processor; its power is of all of them
BOUNDS = ("least", "total")
SEED = 3
SHAPE = (256, 1024)  # of the matrix whose tiles are weighed
BF16_BYTES = 2
OTHER_SCHEMES = ("mxfp8_e4m3", "mxfp6_e3m2", "nf4", "int4", "int8_tile")


@dataclass(frozen=True)
class TileSize:
    """Bytes of a tile of a scheme: by the formula, of a compressed matrix, and in the paper."""

    scheme: str
    density: float
    config: TileConfig
    compressed: float
    paper: float | None

    @property
    def code_bytes(self) -> float:
        """Expected bytes of the codes."""
        return self.config.elements * self.density * self.config.code_bits / 8

    @property
    def formula(self) -> float:
        """Expected bytes of the whole tile."""
        return self.config.mask_bytes + self.config.scale_bytes + self.code_bytes


def tile_sizes() -> list[TileSize]:
    """Every scheme and density of the paper, and some more schemes."""
    stated = load_claims("deca")["deca.bytes_per_tile"].numbers
    cases: dict[str, float | None] = {**stated, **dict.fromkeys(OTHER_SCHEMES)}
    weights = np.random.default_rng(SEED).normal(size=SHAPE).astype(np.float32)
    found = []
    for key, paper in cases.items():
        name, _, percent = (key, "", "") if paper is None else key.partition("_")
        density = float(percent) / 100 if percent else None
        matrix = compress(weights, resolve_scheme(name), density)
        size = matrix.tiles.size / len(matrix.tiles)
        found.append(TileSize(name, density or 1.0, matrix.scheme.config, size, paper))
    return found


def formats() -> Table:
    """:func:`tile_sizes` as a table."""
    columns: dict[str, Column] = {
        "Scheme": lambda s: code(s.scheme),
        "Density, %": lambda s: 100 * s.density,
        "Code, bits": lambda s: s.config.code_bits,
        "Bitmask, B": lambda s: s.config.mask_bytes,
        "Scales, B": lambda s: s.config.scale_bytes,
        "Codes, B": "code_bytes",
        "Tile by formula, B": "formula",
        "Tile compressed now, B": "compressed",
        "Paper, B": "paper",
        "Smaller than bf16, x": lambda s: BF16_BYTES * s.config.elements / s.formula,
    }
    return Table.of(tile_sizes(), columns)


def cycle_rows() -> list[dict[str, Any]]:
    """Every measured case, with today's formula and the paper's cycles."""
    record, claims = load_measured("deca_cycles"), load_claims("deca")
    assert record is not None
    rows = [{"block": spec, **row} for spec, cases in record["blocks"].items() for row in cases]
    for row in rows:
        params, config = PRESETS[row["block"].partition(":")[2]], _config(row)
        row["recorded_formula"] = row["formula"]
        row["formula"] = float(expected_cycles(params, config, row["density"]))
        row["paper"] = paper_cycles(claims, params, config, row["density"])
    return rows


def _config(row: Mapping[str, Any]) -> TileConfig:
    return TileConfig(
        code_bits=row["code_bits"],
        sparse=row["density"] < 1,
        scale=ScaleKind(row["scale"]),
        group=row["group"],
        int8=row["int8"],
    )


def paper_cycles(
    claims: Mapping[str, Claim], params: DecaParams, config: TileConfig, density: float
) -> float | None:
    """The paper's cycles per tile, where it states them.

    It does so for bf16 tiles: by density for 8-bit codes, by the width of a code for dense tiles.
    """
    if config.int8:
        return None
    if config.code_bits == 8:
        claim = claims.get(f"deca.cycles_per_tile.w{params.lanes}l{params.luts}")
        return None if claim is None else claim.numbers.get(f"{100 * density:g}")
    if density == 1 and params == PRESETS["paper"]:
        return claims["deca.cycles_per_tile.dense"].numbers.get(str(config.code_bits))
    return None


def cycles() -> Table:
    """Cycles of a tile: measured on the RTL, by the cycle model, by the formula, in the paper."""
    columns: dict[str, Column] = {
        "Block": lambda r: code(r["block"]),
        "Code, bits": "code_bits",
        "Scales": "scale",
        "Tile": lambda r: "int8" if r["int8"] else "bf16",
        "Density, %": lambda r: 100 * r["density"],
        "Tiles": "tiles",
        "RTL": "measured",
        "Model": "model",
        "Formula": "formula",
        "Paper": "paper",
        "RTL against paper, %": lambda r: (
            r["paper"] and round(100 * (r["measured"] / r["paper"] - 1), 2)
        ),
    }
    return Table.of(cycle_rows(), columns)


def cycles_by_density() -> Markup:
    """Cycles of tiles with 8-bit codes: lines are the formula, markers measured on the RTL."""
    config = TileConfig(code_bits=8, sparse=True)
    lines: dict[str, Series] = {}
    points: dict[str, Series] = {}
    rows = [row for row in cycle_rows() if row["code_bits"] == 8 and not row["int8"]]
    for preset, params in PRESETS.items():
        name = f"{preset}: W={params.lanes}, L={params.luts}"
        lines[name] = [(d, float(expected_cycles(params, config, d / 100))) for d in range(101)]
        points[name] = [
            (100 * row["density"], row["measured"])
            for row in rows
            if row["block"] == f"deca:{preset}"
        ]
    title = "Cycles of a tile with 8-bit codes: formula (lines), RTL (markers)"
    return curves(
        title, lines, points, x_label="density, %", y_label="cycles/tile", logarithmic=True
    )


def area_by_paper_part(record: Mapping[str, Any]) -> dict[str, float] | None:
    """The area of a record as the paper divides it; None where it has no areas of parts."""
    parts = record["area_by_part"]
    return by_group(parts, PAPER_PARTS) if parts else None


def area() -> Table:
    """The paper's size in asap7, by goal, as the paper divides its area."""
    claims = load_claims("deca")
    total, shares = claims["deca.area.per_pe"].number, claims["deca.area.share"].numbers
    rows: list[tuple[Any, ...]] = []
    for record in load_records().values():
        is_paper = record["block"] == "deca" and record["parameters"] == DecaParams().as_dict()
        areas = area_by_paper_part(record)
        if areas and is_paper and record["technology"] == "asap7":
            ours = sum(areas.values())
            rows += [
                (record["goal"], part, a, 100 * a / ours, total * shares[part] / 100, shares[part])
                for part, a in areas.items()
            ]
            rows.append((record["goal"], "all", ours, 100.0, total, 100.0))
    return Table(("Goal", "Part", "Ours, µm²", "Ours, %", "Paper, µm²", "Paper, %"), rows)


def tepl_parts() -> Table:
    """The area of DECA with the TEPL unit inside, by part."""
    record = load_records()["deca_tepl.asap7.fastest"]
    areas = by_group(record["area_by_part"], TEPL_PARTS)
    whole = sum(areas.values())
    rows = [(part, area, 100 * area / whole) for part, area in areas.items()]
    return Table(("Part", "Area, µm²", "Share, %"), rows)


def _energy() -> dict[str, Any]:
    record = load_energy("deca", load_technology("asap7"))
    assert record is not None
    return record


def power() -> Table:
    """Power of every run of the energy record, and its lower bound."""
    columns: dict[str, Column] = {
        "Tiles": lambda item: item[0],
        "Cycles/tile": lambda item: item[1].get("cycles_per_tile"),
        "pJ/tile": lambda item: item[1].get("pj_per_tile"),
        "fJ/weight": lambda item: item[1].get("fj_per_weight"),
    }
    for part in (*COMPONENTS, "total", "least"):
        title = {"total": "All", "least": "Lower bound"}.get(part, part.capitalize())
        columns[f"{title}, mW"] = _power(part)
    return Table.of(_energy()["runs"].items(), columns)


def _power(part: str) -> Callable[[tuple[str, dict[str, Any]]], float]:
    return lambda item: item[1]["power"][part]


def power_by_group(
    record: Mapping[str, Any], groups: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """Power of each group of parts at full activity, in mW, and its lower bound."""
    parts = record["runs"][FULL_ACTIVITY]["power_by_part"]
    sums = {
        bound: by_group({name: p[bound] for name, p in parts.items()}, groups) for bound in BOUNDS
    }
    return {group: {bound: sums[bound][group] for bound in BOUNDS} for group in sums["total"]}


def power_by_paper_part() -> Table:
    """Full activity as the paper divides its power."""
    claims = load_claims("deca")
    theirs = 1e3 * claims["deca.power.total_56"].number / PAPER_PES
    shares = claims["deca.power.share"].numbers
    ours = power_by_group(_energy(), PAPER_PARTS)
    ours["all"] = {bound: sum(part[bound] for part in ours.values()) for bound in BOUNDS}
    shares = {**shares, "all": 100.0}
    rows = [
        (
            part,
            *(x for b in BOUNDS for x in (found[b], 100 * found[b] / ours["all"][b])),
            theirs * shares[part] / 100,
            shares[part],
        )
        for part, found in ours.items()
    ]
    head = ("Lower bound, mW", "Lower bound, %", "Ours, mW", "Ours, %", "Paper, mW", "Paper, %")
    return Table(("Part", *head), rows)


def coverage() -> Table:
    """Combinations of tiles that the bench has observed on the emitted Verilog."""
    columns: dict[str, Column] = {
        "Block": lambda item: code(item[0]),
        "Combinations": lambda item: len(item[1].hits),
        "Covered": lambda item: len(item[1].hits) - len(item[1].holes),
        "Tiles": lambda item: sum(item[1].hits),
        "Tiles squashed": lambda item: _squashed(item[1]),
        "Result": lambda item: _holes(item[1]),
    }
    record = load_measured("deca_coverage")
    assert record is not None
    found = {name: Coverage.from_dict(entry) for name, entry in record["blocks"].items()}
    return Table.of(found.items(), columns)


def _holes(found: Coverage) -> Styled:
    holes = len(found.holes)
    return verdict(not holes, f"{holes} holes" if holes else "no hole")


def _squashed(found: Coverage) -> int:
    """The number of tiles that a squash ended."""
    counted = zip(found.bins(), found.hits, strict=True)
    return sum(hits for cell, hits in counted if cell["squash"] != Squash.NONE)
