"""Bytes of a compressed tile: by the formula, of a matrix compressed now, and in the paper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.claims import Claim
from tilewright.golden.deca import compress, resolve_scheme
from tilewright.report.claims import claims_source
from tilewright.report.html import Markup, code, note, paragraph, section, table

__all__ = ["formats_section", "tile_sizes"]

SEED = 3
SHAPE = (256, 1024)  # of the matrix whose tiles are weighed
BF16_BYTES = 2
OTHER_SCHEMES = ("mxfp8_e4m3", "mxfp6_e3m2", "nf4", "int4", "int8_tile")


@dataclass(frozen=True)
class _Case:
    """A scheme at a density, and the key of the paper's figure where it has one."""

    scheme: str
    density: float | None
    key: str | None


def _cases(claim: Claim) -> list[_Case]:
    stated = []
    for key in claim.numbers:
        name, _, percent = key.partition("_")
        stated.append(_Case(name, float(percent) / 100 if percent else None, key))
    return [*stated, *(_Case(name, None, None) for name in OTHER_SCHEMES)]


def tile_sizes(claims: Mapping[str, Claim]) -> list[dict[str, Any]]:
    """One row for each scheme and density; sizes in bytes."""
    claim = claims["deca.bytes_per_tile"]
    weights = np.random.default_rng(SEED).normal(size=SHAPE).astype(np.float32)
    rows = []
    for case in _cases(claim):
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


def formats_section(rows: Sequence[Mapping[str, Any]], claims: Mapping[str, Claim]) -> Markup:
    """:func:`tile_sizes` as a table."""
    return section(
        "Formats and bytes per tile",
        paragraph(
            "A compressed tile consists of a bitmask, scales and codes. One column gives their sum"
            " by the formula; the next gives the mean over the tiles of a random"
            f" {SHAPE[0]} x {SHAPE[1]} matrix that was pruned and compressed while this page was"
            " built. The two differ in the last digits because the data of a tile is a whole number"
            " of bytes. An int8 tile has twice as many elements as a bf16 tile."
        ),
        table(
            (
                *("Scheme", "Density, %", "Code, bits", "Bitmask, B", "Scales, B", "Codes, B"),
                *("Tile by formula, B", "Tile compressed now, B", "Paper, B"),
                "Smaller than bf16, x",
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
                    BF16_BYTES * r["elements"] / r["formula"],
                )
                for r in rows
            ],
        ),
        note("Source:", code("golden/deca"), f"run while this page was built, seed {SEED}."),
        claims_source(claims["deca.bytes_per_tile"]),
    )
