"""Results of the PE are golden's, for every configuration and every scheme."""

from itertools import cycle

import numpy as np

from tilewright.golden.deca import SCHEMES, compress
from tilewright.verify.deca.session import JOB, PARAMS, Session, tile_test
from tilewright.verify.deca.workload import (
    all_configs,
    in_regions,
    random_table,
    random_tiles,
    scatter,
    tile_jobs,
)

CONFIGS_PER_TABLE = 8
TILES_PER_CONFIG = 3


@tile_test
async def every_configuration(s: Session) -> None:
    """Random tiles of many configurations, changing from tile to tile, anywhere in memory."""
    configs = all_configs(PARAMS)
    wanted = -(-JOB.cases // TILES_PER_CONFIG)
    order = sorted(s.rng.permutation(len(configs))[:wanted])  # by the width of codes
    stalls = cycle(JOB.stalls)
    for first in range(0, len(order), CONFIGS_PER_TABLE):
        some = [configs[k] for k in order[first : first + CONFIGS_PER_TABLE]]
        # One table for all: what serves narrow codes serves wider ones too.
        lut = random_table(s.rng, min(config.code_bits for config in some))
        jobs = []
        for config in some:
            tiles = random_tiles(s.rng, config, TILES_PER_CONFIG, float(s.rng.random()))
            jobs += tile_jobs(tiles, lut, scatter(tiles, s.store, s.random))
        for job in jobs:
            job.lut = tuple(lut.tolist())
        s.random.shuffle(jobs)
        core = await s.core(next(stalls))
        await core.run(jobs)
        assert len(core.finished) == len(jobs)


@tile_test
async def every_scheme(s: Session) -> None:
    """Matrices in every scheme that has a name, dense and pruned, as ``tilewright pack`` lays out.

    Weights are heavy-tailed, as those of language models are.
    """
    stalls = cycle(JOB.stalls)
    count = -(-JOB.cases // len(SCHEMES))
    for scheme in SCHEMES.values():
        density = s.random.choice([None, float(s.rng.uniform(0.05, 0.9))])
        columns = 64 * count
        weights = s.rng.standard_t(4, (16, columns)).astype(np.float32) * np.float32(0.02)
        matrix = compress(weights, scheme, density)
        tiles = matrix.tiles
        jobs = tile_jobs(tiles, matrix.scheme.lut_image(), in_regions(tiles, s.store))
        core = await s.core(next(stalls))
        await core.run(jobs[: JOB.cases])
        assert len(core.finished) == min(len(jobs), JOB.cases)
