"""Every combination that coverage asks for: each is one tile, some of them squashed on the way."""

from collections import deque

from numpy.typing import NDArray

from tilewright.golden.params.deca import Register
from tilewright.verify.deca.core import Core
from tilewright.verify.deca.session import COVERAGE, JOB, PARAMS, Session, tile_test
from tilewright.verify.deca.workload import (
    DENSITIES,
    Squash,
    TileJob,
    config_of,
    random_table,
    stall_name,
)

ATTEMPTS = 30  # a state can pass before the squash, or a density be outside its range


@tile_test
async def every_combination(s: Session) -> None:
    """Format x density x alignment x stall x what the tile does when it is squashed.

    A run of fewer cases than combinations takes any of them; an exhaustive one takes all and
    fails where one was not reached.
    """
    bins = list(COVERAGE.bins())
    if not JOB.exhaustive:
        bins = s.random.sample(bins, min(JOB.cases, len(bins)))
    for stall in JOB.stalls:
        todo = [found for found in bins if found["stall"] == stall_name(stall)]
        core = await s.core(stall)
        core.monitors["mmio_response"].stall = core.drivers["mmio_request"].stall = 0.0
        for bits in sorted({code_bits(found) for found in todo}):
            # Codes of 16 bits need no table.
            lut = random_table(s.rng, min(bits, 8))
            await core.finish()
            await core.table(lut.tolist())
            mine = [found for found in todo if code_bits(found) == bits]
            s.random.shuffle(mine)
            await run_bins(s, core, lut, mine)
        await core.finish()
    missed = [found for found in bins if not COVERAGE[found]]
    assert not missed, f"{len(missed)} combinations were not reached, such as {missed[0]}"


def code_bits(found: dict[str, str]) -> int:
    return int(found["format"].split()[0])


async def run_bins(s: Session, core: Core, lut: NDArray, bins: list[dict[str, str]]) -> None:
    """Tiles for some bins, one after the other, with a neighbour on the other loader at times."""
    todo = deque((found, ATTEMPTS) for found in bins)
    k = 0  # loader
    while todo:
        wanted, attempts = todo.popleft()
        await run_bin(s, core, lut, wanted, k)
        k = 1 - k
        if wanted["squash"] != Squash.NONE and not COVERAGE[wanted] and attempts:
            todo.append((wanted, attempts - 1))
    await core.finish()


async def run_bin(s: Session, core: Core, lut: NDArray, wanted: dict[str, str], k: int) -> None:
    await core.until(lambda: not core.commands_waiting)
    target, neighbour = two_tiles(s, lut, wanted)
    await core.write(Register.CONFIG, target.config_word)
    if s.random.random() < 0.3 and len(core.waiting[1 - k]) < 2:
        core.give(1 - k, neighbour)
    if wanted["squash"] == Squash.NONE:
        await core.room(k)
        core.give(k, target)
        return
    await core.until(lambda: core.idle(k))
    done = core.monitors[f"done{k}"]
    if wanted["squash"] == Squash.RESULT:
        done.stall = 1.0  # it is left waiting
    core.give(k, target)
    await core.until(lambda: core.state(k) == wanted["squash"] or target.result is not None)
    await core.cycles(s.random.randrange(3))
    await core.squash(k)
    done.stall = core.stall


def two_tiles(s: Session, lut: NDArray, wanted: dict[str, str]) -> tuple[TileJob, TileJob]:
    """A tile for the bin, and another one of the same configuration."""
    sparse = wanted["density"] in DENSITIES
    config = config_of(PARAMS, s.random, wanted["format"], sparse)
    lowest, highest = DENSITIES[wanted["density"]] if sparse else (1, 1)
    for _ in range(ATTEMPTS):
        density = s.random.uniform(lowest, highest)
        jobs = s.jobs(config, 2, density, lut, wanted["alignment"])
        if (jobs[0].traits or {}).get("density") == wanted["density"]:
            break
    return jobs[0], jobs[1]
