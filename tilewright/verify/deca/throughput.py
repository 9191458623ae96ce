"""Cycles from tile to tile behind the TEPL unit, with a core that never waits."""

from typing import Any

import numpy as np

from tilewright.golden.deca import decode_tiles, tile_cycles
from tilewright.golden.params.deca import TILE_ROWS, DecaTeplParams, Register, ScaleKind, TileConfig
from tilewright.verify.deca.session import JOB, Session, tell, tile_test
from tilewright.verify.deca.tepl_core import TeplCore, flush_coverage
from tilewright.verify.deca.workload import (
    in_regions,
    random_table,
    random_tiles,
    tile_jobs,
)

PARAMS = JOB.params_as(DecaTeplParams)
L2_LATENCY = 14  # cycles from a request to its line
SPARSE = TileConfig(code_bits=8, sparse=True)
SCHEMES = {
    **{f"bf8 {percent}%": (SPARSE, percent / 100) for percent in (5, 10, 20, 30, 50)},
    "bf8 100%": (TileConfig(code_bits=8), 1.0),
    "mxfp4": (TileConfig(code_bits=4, scale=ScaleKind.E8M0), 1.0),
    "bf16 50%": (TileConfig(code_bits=16, sparse=True), 0.5),
}
WARM_UP = 8  # tiles before the pipeline is full
LIMIT = 1.05  # times what the pipeline or the rows of a tile take


@tile_test
async def tiles_follow_at_full_rate(s: Session) -> None:
    """Every line is an L2 hit; a tile takes what the pipeline takes, or its 16 rows."""
    table = []
    for name, (config, density) in SCHEMES.items():
        count = WARM_UP + max(8, JOB.cases // len(SCHEMES))
        tiles = random_tiles(s.rng, config, count, density, clustered=0)
        lut = random_table(s.rng, min(config.code_bits, 8))
        jobs = tile_jobs(tiles, lut, in_regions(tiles, s.store))
        memory = s.memory(latency=(L2_LATENCY, L2_LATENCY))
        core = TeplCore(
            s.clock,
            PARAMS,
            memory,
            s.random,
            flush_coverage(JOB.stalls),
            mispredict=0,
            interrupt=0,
            asleep=0,
        )
        await s.enter(core)
        await core.load_table(lut.tolist())
        await core.write(Register.CONFIG, config.encode())
        await core.run(jobs, [])
        element = np.maximum(tile_cycles(PARAMS, config, decode_tiles(tiles).mask).total, TILE_ROWS)
        table.append(row(name, [tepl.job.done_at for tepl in core.committed], element.tolist()))
    tell(throughput=table)
    slow = [row for row in table if row["interval"] > LIMIT * row["bound"]]
    assert not slow, f"slower than {LIMIT} times the bound: {slow}"


def row(name: str, done_at: list[int], element: list[int]) -> dict[str, Any]:
    """Cycles per tile behind the first ones, and the least that pipeline and rows allow."""
    done_at = sorted(done_at)
    count = len(done_at) - WARM_UP
    return {
        "scheme": name,
        "tiles": count,
        "interval": (done_at[-1] - done_at[WARM_UP - 1]) / count,
        "bound": float(np.mean(element[WARM_UP:])),
    }
