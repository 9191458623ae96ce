"""TEPLs, speculative and flushed at any time, through the TEPL unit and the PE."""

from dataclasses import replace
from itertools import cycle

from tilewright.golden.params.deca import DecaTeplParams, Register, TileError
from tilewright.verify.deca.session import JOB, Session, tell, tile_test
from tilewright.verify.deca.tepl_core import TeplCore, flush_coverage
from tilewright.verify.deca.workload import TileJob, all_configs

TILES_PER_CONFIG = 12
STRANGERS = 4
PARAMS = JOB.params_as(DecaTeplParams)
FLUSHES = flush_coverage(JOB.stalls)
tell(coverage=FLUSHES)


def too_long(job: TileJob) -> TileJob:
    """The tile with a length that is found to be wrong at its end, after its first rows."""
    return replace(job.changed(TileError.DATA_LENGTH, data_length=64), rows=job.rows)


async def run_program(
    s: Session, stall: float, latency: tuple[int, int] | None = None, **chances: float
) -> TeplCore:
    """Tiles of several configurations; the core waits for its TEPLs to change them."""
    core = TeplCore(
        *(s.clock, PARAMS, s.memory(stall, latency=latency), s.random),
        coverage=FLUSHES,
        stall=stall,
        **chances,
    )
    await s.enter(core)
    configs = all_configs(PARAMS)
    for left in range(-(-JOB.cases // len(JOB.stalls)), 0, -TILES_PER_CONFIG):
        config = configs[int(s.rng.integers(len(configs)))]
        lut = s.table(config)
        await core.table(lut.tolist())
        await core.write(Register.CONFIG, config.encode())
        jobs = s.jobs(config, TILES_PER_CONFIG + STRANGERS, float(s.rng.random()), lut)
        jobs = [too_long(job) if s.random.random() < 0.1 else job for job in jobs]
        await core.run(jobs[STRANGERS:][:left], jobs[:STRANGERS])
    await core.settle()
    return core


@tile_test
async def tepls_without_flushes(s: Session) -> None:
    """Every TEPL completes once, after its rows; the PE copes with the core's stalls."""
    for stall in JOB.stalls:
        core = await run_program(s, stall, mispredict=0, interrupt=0)
        assert not core.lost and not core.flushes


@tile_test
async def flushes_leave_no_trace(s: Session) -> None:
    """Wrong paths and interrupts; the core commits golden's tiles in program order all the same."""
    flushes = 0
    for stall, latency in zip(JOB.stalls, cycle([(4, 4), (1, 60)]), strict=False):
        flushes += (await run_program(s, stall, latency)).flushes
        tell(flushes=flushes)
    assert flushes, "nothing was flushed"
    assert JOB.cases < 100 or not FLUSHES.holes, f"never flushed: {FLUSHES.holes}"
