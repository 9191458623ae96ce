"""Cycles per tile: measured on the RTL, by the cycle model, by the formula, and in the paper."""

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.claims import Claim
from tilewright.golden.deca import expected_cycles
from tilewright.golden.params.deca import DecaParams, ScaleKind, TileConfig
from tilewright.report.claims import claims_source
from tilewright.report.deca import PRESETS
from tilewright.report.html import Markup, code, figure, join, paragraph, section, table
from tilewright.report.measured import load_measured, measured_source, missing
from tilewright.report.page import Context
from tilewright.report.plots import Series, curves

__all__ = [
    "COMMAND",
    "cycle_failures",
    "cycle_problems",
    "cycle_rows",
    "cycles_section",
    "paper_cycles",
]

RECORD = "deca_cycles"
COMMAND = "tilewright simulate deca.cycles --cases 10000 --update-record"

Rows = Sequence[Mapping[str, Any]]


def cycle_rows(context: Context, claims: Mapping[str, Claim]) -> list[dict[str, Any]]:
    """Every case of the record, or the paper's cases where there is no record."""
    record = load_measured(RECORD, context.measured)
    if record is None:
        rows = [_unmeasured(preset, case) for preset in PRESETS for case in _paper_cases(claims)]
    else:
        rows = [{"block": spec, **row} for spec, table in record["blocks"].items() for row in table]
    for row in rows:
        params, config = PRESETS[row["block"].partition(":")[2]], _config(row)
        row["recorded_formula"] = row.get("formula")
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


def _paper_cases(claims: Mapping[str, Claim]) -> list[tuple[int, float]]:
    """Bits of a code and density of every case that the paper states."""
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


def _case(row: Mapping[str, Any]) -> str:
    scaled = "" if row["scale"] == "none" else f", {row['scale']} scales"
    tile = ", int8 tile" if row["int8"] else ""
    codes = f"{row['code_bits']}-bit codes{scaled}{tile}, density {row['density']:.0%}"
    return f"{row['block']}, {codes}"


def cycle_failures(rows: Rows) -> list[str]:
    """The cases whose measured cycles are not those of the cycle model."""
    return [
        f"{_case(row)}: measured {row['measured']}, the model says {row['model']}"
        for row in rows
        if row["measured"] != row["model"]
    ]


def cycle_problems(context: Context, rows: Rows) -> list[str]:
    """A record that is missing, or that was made with another formula."""
    problems = [
        f"the record {RECORD} has another formula for {_case(row)}; to renew it: {COMMAND}"
        for row in rows
        if row["recorded_formula"] not in (None, row["formula"])
    ]
    if load_measured(RECORD, context.measured) is None:
        problems.append(f"no record of cycles; to make it: {COMMAND}")
    return problems


def cycles_section(context: Context, rows: Rows, claims: Mapping[str, Claim]) -> Markup:
    """A table for each size of the PE, and cycles over density as a drawing."""
    record = load_measured(RECORD, context.measured)
    tables = [
        join([paragraph(code(spec)), _table([r for r in rows if r["block"] == spec])])
        for spec in dict.fromkeys(row["block"] for row in rows)
    ]
    source = (
        missing("measured cycles", COMMAND) if record is None else measured_source(RECORD, record)
    )
    stated = [c for name, c in claims.items() if name.startswith("deca.cycles_per_tile")]
    return section(
        "Cycles per tile",
        paragraph(
            "When its data has arrived, a tile takes the sum over its vector operations of"
            " max(1, ceil(window / Lq)) cycles. The columns give cycles/tile. RTL: from the end of"
            " one tile to the end of the next on the emitted Verilog, mean over the tiles. Model:"
            " the same by the golden cycle model for the same tiles; the two must be equal for"
            " every tile. Formula: the expectation for randomly placed nonzeros, computed while"
            " this page was built. Paper: by the paper's formula."
        ),
        *tables,
        source,
        claims_source(*stated),
        _density_plot(rows),
    )


def _table(rows: Rows) -> Markup:
    return table(
        (
            *("Code, bits", "Scales", "Tile", "Density, %", "Tiles", "RTL, cycles/tile"),
            *("Model, cycles/tile", "Formula, cycles/tile", "Paper, cycles/tile"),
            "RTL against paper, %",
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


def _density_plot(rows: Rows) -> Markup:
    config = TileConfig(code_bits=8, sparse=True)
    lines: dict[str, Series] = {}
    points: dict[str, Series] = {}
    for preset, params in PRESETS.items():
        name = f"{preset}: W={params.lanes}, L={params.luts}"
        lines[name] = [(d, float(expected_cycles(params, config, d / 100))) for d in range(101)]
        points[name] = [
            (100 * row["density"], row["measured"])
            for row in rows
            if row["block"] == f"deca:{preset}" and _is_drawn(row)
        ]
    drawing = curves(
        "deca-density",
        lines,
        points,
        x_label="density, %",
        y_label="cycles/tile",
        logarithmic=True,
    )
    return figure(
        drawing,
        "Tiles with 8-bit codes. Lines are the formula, markers the cycles measured on the RTL.",
    )


def _is_drawn(row: Mapping[str, Any]) -> bool:
    return row["code_bits"] == 8 and not row["int8"] and row["measured"] is not None
