"""Random tiles through the RTL while the page is built: their bits and their cycles."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

from tilewright.golden.deca import decode_tiles, tile_cycles
from tilewright.golden.params.deca import ScaleKind, TileConfig
from tilewright.report.deca import PRESETS
from tilewright.report.deca.run import run_tiles
from tilewright.report.html import Markup, code, note, paragraph, section, table, verdict
from tilewright.verify.deca.memory import Memory, Store
from tilewright.verify.deca.workload import (
    TileJob,
    in_regions,
    random_table,
    random_tiles,
    tile_jobs,
)

__all__ = ["live_failures", "live_section", "run_live"]

SEED = 3
PRESET = "small"  # what a plain Python simulator can do in seconds
CONFIGS = (
    TileConfig(code_bits=8, sparse=True),
    TileConfig(code_bits=4, sparse=True, scale=ScaleKind.E8M0),
)
TILES = 5  # of each configuration


def run_live() -> dict[str, Any]:
    """Decompress the tiles of every configuration and check them."""
    params, rng, random = PRESETS[PRESET], np.random.default_rng(SEED), Random(SEED)
    store = Store(params, random, base=1 << (params.address_bits - 1))
    lut = random_table(rng, min(config.code_bits for config in CONFIGS))
    batches = []
    for config in CONFIGS:
        tiles = random_tiles(rng, config, TILES, 0.5, clustered=0)
        jobs = tile_jobs(tiles, lut, in_regions(tiles, store))
        cycles = tile_cycles(params, config, decode_tiles(tiles).mask).total
        batches.append([replace(job, cycles=int(n)) for job, n in zip(jobs, cycles, strict=True)])
    total = run_tiles(params, Memory(params, store.line, random), batches)
    checks = [check_tiles(config, jobs) for config, jobs in zip(CONFIGS, batches, strict=True)]
    return {"block": f"deca:{PRESET}", "seed": SEED, "cycles": total, "checks": checks}


def check_tiles(config: TileConfig, jobs: Sequence[TileJob]) -> dict[str, Any]:
    """Rows and cycles of tiles that have been run, against golden model and cycle model."""
    scaled = "" if config.scale is ScaleKind.NONE else f", {config.scale.value} scales"
    ends = [job.done_at or 0 for job in jobs]
    # The first tile of each loader waits for its data.
    measured = [b - a for a, b in pairwise(ends)][1:]
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


def live_failures(live: Mapping[str, Any]) -> list[str]:
    """The configurations whose tiles differ from the models, with the first difference."""
    return [f"{row['what']}: {row['mismatch']}" for row in live["checks"] if row["mismatch"]]


def live_section(live: Mapping[str, Any]) -> Markup:
    """What :func:`run_live` found, as a table."""
    return section(
        "Live check",
        paragraph(
            "Random tiles went through the RTL of",
            code(live["block"]),
            "in Amaranth's simulator. Every row was compared with the golden model, and the cycles"
            " from tile to tile with the cycle model. The test suite does the same, and much more,"
            " on the emitted Verilog of every size.",
        ),
        table(
            (
                *("Configuration", "Tiles", "RTL, cycles of each tile after the second"),
                *("Model, cycles", "Result"),
            ),
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
