"""Streams the tiles of a matrix through the PE and records the results.

``TILEWRIGHT_TASK`` names the folder with ``matrix.npz``; ``tiles.npy`` goes there.
"""

import json
import os
from pathlib import Path

import numpy as np

from tilewright.golden.params.deca import STRUCTURES, TILE_BYTES, TILE_ROWS, Register
from tilewright.verify.deca.session import PARAMS, Session, tell, tile_test
from tilewright.verify.deca.workload import TileJob

TASK = json.loads(os.environ["TILEWRIGHT_TASK"])


@tile_test
async def stream(s: Session) -> None:
    folder = Path(TASK["folder"])
    with np.load(folder / "matrix.npz") as matrix:
        s.store.base, s.store.content = int(matrix["base"]), bytearray(matrix["content"].tobytes())
        names = [f"{name}_{what}" for name in STRUCTURES for what in ("base", "length")]
        columns = [matrix[name].tolist() for name in names]
        config, lut = int(matrix["config"]), tuple(matrix["lut"].tolist())
    jobs = [
        TileJob(config, dict(zip(names, values, strict=True)), [], lut)
        for values in zip(*columns, strict=True)
    ]
    core = await s.core(latency=(TASK["latency"], TASK["latency"]), near=TASK["near"])
    await core.write(Register.PREFETCH, TASK["prefetch"])
    await core.prepare(jobs[0])
    start = core.now
    await core.run(jobs, before=jobs[0])
    memory = core.memory
    ahead, read = set(memory.prefetched), memory.demanded
    tell(
        gemm={
            "cycles": max(job.done_at for job in jobs) - start,
            "lines_read": len(read),
            "lines_prefetched": len(memory.prefetched),
            "prefetch_accuracy": len(ahead & set(read)) / len(ahead) if ahead else None,
            "read_after_prefetch": memory.hits / len(read),
        }
    )
    rows = [job.got_rows[row] for job in jobs for row in range(TILE_ROWS)]
    tiles = b"".join(row.to_bytes(PARAMS.line_bytes, "little") for row in rows)
    np.save(folder / "tiles.npy", np.frombuffer(tiles, np.uint8).reshape(-1, TILE_BYTES))
