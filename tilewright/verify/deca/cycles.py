"""Cycles per tile, with data there, against the golden model."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from tilewright.golden.deca import decode_tiles, expected_cycles, tile_cycles
from tilewright.golden.params.deca import TILE_ROWS, ScaleKind, TileConfig
from tilewright.verify.deca.core import Core
from tilewright.verify.deca.session import JOB, PARAMS, Session, tell, tile_test
from tilewright.verify.deca.workload import (
    TileJob,
    in_regions,
    random_table,
    random_tiles,
    tile_jobs,
)

DENSITIES = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05)
BYTES = TileConfig(code_bits=8)
# The paper's cases, which share the tiles that are asked for, and a few tiles of others.
STATED = [
    (TileConfig(code_bits=4, scale=ScaleKind.E8M0), 1.0),
    *((replace(BYTES, sparse=density < 1), density) for density in DENSITIES),
]
OTHERS = [
    (TileConfig(code_bits=7), 1.0),
    (TileConfig(code_bits=7, sparse=True), 0.8),
    (TileConfig(code_bits=6), 1.0),
    (TileConfig(code_bits=6, sparse=True, scale=ScaleKind.E8M0, group=16), 0.3),
    (TileConfig(code_bits=3, scale=ScaleKind.BF16, group=512), 1.0),
    (TileConfig(code_bits=1, sparse=True, scale=ScaleKind.BF16), 0.9),
    (TileConfig(code_bits=16), 1.0),
    (TileConfig(code_bits=16, sparse=True), 0.1),
    (TileConfig(code_bits=8, sparse=True, int8=True), 0.4),
    (TileConfig(code_bits=2, int8=True), 1.0),
]
FEW = 20


@tile_test
async def cycles_equal_the_model(s: Session) -> None:
    """A tile ends exactly as many cycles after the one before as golden says.

    The core reads a row a cycle, 16 cycles/tile. Where the pipeline is faster than that, tiles
    come in pairs and the second one is measured; otherwise they follow each other on both loaders.
    """
    core = await s.core(latency=(1, 1))
    table = []
    count = max(2, JOB.cases // len(STATED))
    cases = [(*case, count) for case in STATED] + [(*case, min(count, FEW)) for case in OTHERS]
    for config, density, tiles in cases:
        paired = PARAMS.chunks(config) < TILE_ROWS
        jobs = make_jobs(s, config, density, 2 * tiles if paired else tiles + 2)
        await (run_pairs if paired else run_stream)(core, jobs)
        measured = [b.done_at - a.done_at for a, b in pairwise(jobs)]
        # The first tile of each loader waits for its data, as does the first one of a pair.
        measured, wanted = (measured[::2], jobs[1::2]) if paired else (measured[1:], jobs[2:])
        model = [job.cycles for job in wanted if job.cycles is not None]
        wrong = [
            k for k, pair in enumerate(zip(measured, model, strict=True)) if len(set(pair)) > 1
        ]
        assert not wrong, (
            f"{config} at density {density}: tile {wrong[0]} took {measured[wrong[0]]} cycles,"
            f" the model says {model[wrong[0]]}; {len(wrong)} of {len(model)} differ"
        )
        table.append(row(config, density, measured, model))
    tell(cycle_table=table)


def make_jobs(s: Session, config: TileConfig, density: float, count: int) -> list[TileJob]:
    tiles = random_tiles(s.rng, config, count, density, clustered=0)
    # Dense 16-bit tiles take all the memory gives: starting within a line they would need more.
    commands = in_regions(tiles, s.store, 64 if config.code_bits == 16 else 1)
    jobs = tile_jobs(tiles, random_table(s.rng, min(config.code_bits, 8)), commands)
    cycles = tile_cycles(PARAMS, config, decode_tiles(tiles).mask).total
    for job, expected in zip(jobs, cycles.tolist(), strict=True):
        job.cycles = expected
    return jobs


async def run_stream(core: Core, jobs: list[TileJob]) -> None:
    await core.run(jobs)


async def run_pairs(core: Core, jobs: list[TileJob]) -> None:
    await core.prepare(jobs[0])
    for pair in zip(jobs[::2], jobs[1::2], strict=True):
        for k, job in enumerate(pair):
            core.give(k, job)
        await core.finish()


def row(
    config: TileConfig, density: float, measured: list[int], model: list[int]
) -> dict[str, Any]:
    return {
        "code_bits": config.code_bits,
        "scale": config.scale.value,
        "group": config.group,
        "int8": config.int8,
        "density": density,
        "tiles": len(measured),
        "measured": float(np.mean(measured)),
        "model": float(np.mean(model)),
        "formula": float(expected_cycles(PARAMS, config, density)),
    }
