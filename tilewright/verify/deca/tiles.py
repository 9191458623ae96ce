"""Tiles alone: every configuration and scheme has golden's rows, every invalid tile its error."""

from itertools import cycle, product

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.deca import SCHEMES, check_lengths, compress, decode_config
from tilewright.golden.params.block import pack_fields, unpack_fields
from tilewright.golden.params.deca import (
    CODE_BITS,
    CONFIG_BITS,
    CONFIG_FIELDS,
    LENGTH_BITS,
    STRUCTURES,
    ScaleKind,
    TileConfig,
    TileError,
)
from tilewright.verify.deca.session import JOB, PARAMS, Session, tile_test
from tilewright.verify.deca.workload import (
    TileJob,
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
            jobs += s.jobs(config, TILES_PER_CONFIG, float(s.rng.random()), lut)
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


# Errors.

SPARSE = TileConfig(code_bits=6, sparse=True, scale=ScaleKind.E8M0)
DENSE = TileConfig(code_bits=8)


def bad_format_words() -> list[int]:
    """Invalid configuration words, each for one reason."""

    def changed(config: TileConfig, **fields: int) -> int:
        return pack_fields(CONFIG_FIELDS, unpack_fields(CONFIG_FIELDS, config.encode()) | fields)

    int8 = TileConfig(int8=True)
    words = [
        *(changed(DENSE, code_bits=q) for q in range(32) if q not in CODE_BITS),
        changed(DENSE, scale=3),
        *(changed(DENSE, group_log2=g) for g in range(10, 16)),
        *(changed(int8, scale=scale) for scale in (1, 2)),
        changed(int8, code_bits=16),
    ]
    unsupported = [
        TileConfig(scale=kind, group=1 << k)
        for kind, k in product((ScaleKind.E8M0, ScaleKind.BF16), range(10))
    ]
    return words + [c.encode() for c in unsupported if not PARAMS.supports(c)]


@tile_test
async def every_error(s: Session) -> None:
    """Each error code for each reason in turn, good tiles between them on both loaders."""
    lut = random_table(s.rng, 6)  # narrow enough for both
    sparse, dense = (s.jobs(config, 8, 0.4, lut) for config in (SPARSE, DENSE))
    bad = []
    for word in bad_format_words():
        job = dense[0].changed(TileError.FORMAT)
        job.config_word = word
        bad.append(job)
    for by in (1, -1, -16):
        bad += [
            sparse[0].changed(TileError.MASK_LENGTH, mask_length=by),
            sparse[0].changed(TileError.SCALE_LENGTH, scale_length=by),
            dense[0].changed(TileError.DATA_LENGTH, data_length=by),
            sparse[0].changed(TileError.DATA_LENGTH, data_length=by),
            sparse[1].changed(TileError.DATA_LENGTH, data_length=3 * by),
        ]
    bad += [
        dense[0].changed(TileError.MASK_LENGTH, mask_length=64),
        dense[0].changed(TileError.SCALE_LENGTH, scale_length=16),
        sparse[0].changed(TileError.DATA_LENGTH, data_length=1000),
        *random_errors(s, [*sparse, *dense]),
    ]
    bad_lines, victims = bus_errors(s, lut)
    bad += victims
    s.random.shuffle(bad)
    pool = [*sparse, *dense]
    jobs = []
    for number, job in enumerate(bad):
        jobs += [job, pool[number % len(pool)].again()]
        if s.random.random() < 0.5:  # so that both loaders see both kinds
            jobs.append(s.random.choice(pool).again())
    for job in jobs:
        job.lut = tuple(lut.tolist())
    core = await s.core(0.1, latency=(1, 20))
    core.memory.bad_lines = bad_lines
    await core.run(jobs)
    assert {job.result for job in jobs} == set(TileError)
    assert len(core.finished) == len(jobs)


def random_errors(s: Session, pool: list[TileJob]) -> list[TileJob]:
    """Any word as configuration, any lengths: golden gives the outcome."""
    bad = []
    for _ in range(JOB.cases):
        source = s.random.choice(pool)
        job = source.changed(TileError.OK)
        mask = job.fields["mask_base"] - s.store.base
        if s.random.random() < 0.5:
            job.config_word ^= 1 << s.random.randrange(CONFIG_BITS)
        config = decode_config(job.config_word)
        for name in STRUCTURES:
            if s.random.random() < 0.3:
                job.fields[f"{name}_length"] = s.random.getrandbits(LENGTH_BITS)
        lengths = {name: job.fields[name] for name in job.fields if name.endswith("length")}
        held = s.store.content[mask : mask + (config.mask_bytes if config else 0)]
        nonzeros = sum(map(int.bit_count, held))
        job.error = check_lengths(PARAMS, job.config_word, lengths, nonzeros)
        if job.error is not TileError.OK:
            bad.append(job)
    return bad


def bus_errors(s: Session, lut: NDArray) -> tuple[set[int], list[TileJob]]:
    """Lines that the memory cannot read, and a tile for each line of each structure."""
    tiles = random_tiles(s.rng, SPARSE, 1, 0.6)
    (pattern,) = tile_jobs(tiles, lut, scatter(tiles, s.store, s.random, "byte"))
    lines = pattern.lines(PARAMS.line_bytes)
    bad_lines, victims = set(), []
    for k in range(len(lines)):
        # In lines of their own, so that no good tile touches them.
        (victim,) = tile_jobs(tiles, lut, scatter(tiles, s.store, s.random, "byte"))
        own = victim.lines(PARAMS.line_bytes)
        bad_lines.add(own[min(k, len(own) - 1)])
        victims.append(victim.changed(TileError.BUS))
    return bad_lines, victims
