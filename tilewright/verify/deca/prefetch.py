"""The prefetcher asks for golden's lines, each once."""

import numpy as np

from tilewright.golden.deca.prefetch import predict_prefetches
from tilewright.golden.params.deca import Register, ScaleKind, TileConfig
from tilewright.verify.deca.session import JOB, PARAMS, Session, tile_test
from tilewright.verify.deca.workload import (
    TileJob,
    in_regions,
    random_table,
    random_tiles,
    tile_jobs,
)

CONFIG = TileConfig(code_bits=8, sparse=True, scale=ScaleKind.E8M0)
DEGREES = (0, 1, 2, 5, PARAMS.max_prefetch_degree)
SETTLED = 60  # cycles without a prefetch after which none follows


def columns(jobs: list[TileJob]) -> dict[str, np.ndarray]:
    return {
        name: np.array([job.fields[name] for job in jobs], np.uint64) for name in jobs[0].fields
    }


def make_jobs(s: Session, lut: np.ndarray, count: int) -> list[TileJob]:
    """Tiles in regions, some left out."""
    tiles = random_tiles(s.rng, CONFIG, 2 * count, 0.3)
    jobs = tile_jobs(tiles, lut, in_regions(tiles, s.store))
    return [job for job in jobs if s.random.random() < 0.8][:count]


@tile_test
async def prefetches_are_goldens(s: Session) -> None:
    """With time for all of them, every command is followed by exactly the lines golden names."""
    count = max(6, min(JOB.cases // len(DEGREES), 40))
    lut = random_table(s.rng, 8)
    jobs = make_jobs(s, lut, count)
    jobs.insert(count // 2, make_jobs(s, lut, 3)[0])  # from elsewhere: two runs end and begin
    for degree in DEGREES:
        core = await s.core()
        await core.write(Register.PREFETCH, degree)
        await core.write(Register.CONFIG, CONFIG.encode())
        await core.load_table(jobs[0].table)
        wanted = predict_prefetches(PARAMS, columns(jobs), degree)
        for number, job in enumerate(jobs):
            before = len(core.memory.prefetched)
            core.give(number % PARAMS.loaders, job.again())
            await core.finish()
            seen = -1
            while seen != len(core.memory.prefetched):
                seen = len(core.memory.prefetched)
                await core.cycles(SETTLED)
            got = core.memory.prefetched[before:]
            assert sorted(got) == wanted[number].tolist(), (
                f"degree {degree}, tile {number}: prefetched lines {sorted(got)},"
                f" golden has {wanted[number].tolist()}"
            )


@tile_test
async def prefetches_never_repeat(s: Session) -> None:
    """Tiles as fast as they go: what is prefetched is among golden's lines, each once."""
    jobs = make_jobs(s, random_table(s.rng, 8), max(8, JOB.cases // len(DEGREES)))
    for degree in DEGREES:
        core = await s.core(latency=(5, 30))
        await core.write(Register.PREFETCH, degree)
        await core.run([job.again() for job in jobs])
        got = core.memory.prefetched
        predicted = predict_prefetches(PARAMS, columns(core.commands), degree)
        wanted = set(np.concatenate(predicted).tolist())
        assert len(got) == len(set(got)), f"degree {degree}: a line was prefetched twice"
        assert set(got) <= wanted, f"degree {degree}: {sorted(set(got) - wanted)} not in golden's"
        assert bool(got) == bool(degree)
