"""Aborts at random cycles."""

from tilewright.golden.params.deca import Register, ScaleKind, TileConfig
from tilewright.verify.deca.session import JOB, PARAMS, Session, tile_test
from tilewright.verify.deca.workload import random_table, random_tiles, scatter, tile_jobs

CONFIGS = (
    TileConfig(code_bits=8, sparse=True),
    TileConfig(code_bits=4, scale=ScaleKind.E8M0),
    TileConfig(code_bits=5, sparse=True, scale=ScaleKind.BF16, group=8),
    TileConfig(code_bits=16, sparse=True, scale=ScaleKind.E8M0, group=1),
    TileConfig(code_bits=6, sparse=True, int8=True),
)
PER_CONFIG = 25  # squashes until the next configuration


@tile_test
async def squash_at_any_time(s: Session) -> None:
    """The loader is free at once, the other one is unaffected, no answer goes astray.

    Two tiles are in flight on each loader; one or both are lost with a squash.
    """
    lut = random_table(s.rng, 4)  # narrow enough for all
    pools = []
    for config in CONFIGS:
        tiles = random_tiles(s.rng, config, 16, 0.5)
        pools.append(tile_jobs(tiles, lut, scatter(tiles, s.store, s.random)))
    core = await s.core(0.1, latency=(1, 60), bandwidth=0.6)
    await core.load_table(lut.tolist())
    given = squashes = 0
    while squashes < JOB.cases:
        await core.finish()
        pool = pools[squashes // PER_CONFIG % len(pools)]
        await core.write(Register.CONFIG, pool[0].config_word)
        for _ in range(min(PER_CONFIG, JOB.cases - squashes)):
            end = core.now + s.random.randint(0, 120)
            while core.now < end:
                for k in range(PARAMS.loaders):
                    if len(core.waiting[k]) < 2:
                        core.give(k, s.random.choice(pool).again())
                        given += 1
                await core.cycles(1)
            await core.squash(s.random.randrange(PARAMS.loaders))
            squashes += 1
    await core.finish()
    assert len(core.finished) + len(core.lost) == given, "a tile was lost or came twice"
    await core.until(lambda: not core.memory.waiting)
    await core.cycles(4)
    assert (await core.access(Register.EVENTS))[0] == 0, "an answer found no request"
