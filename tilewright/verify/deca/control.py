"""A core's control of the PE: squashes, registers, contexts, prefetches."""

from collections.abc import Iterable

import numpy as np

from tilewright.golden.deca.prefetch import predict_prefetches
from tilewright.golden.params.deca import (
    COMMAND,
    CONFIG_BITS,
    LENGTH_BITS,
    TILE_ROWS,
    LoaderRegister,
    Register,
    ScaleKind,
    TileConfig,
    TileError,
)
from tilewright.verify.deca.core import Core
from tilewright.verify.deca.session import JOB, PARAMS, Session, tile_test
from tilewright.verify.deca.workload import (
    TileJob,
    in_regions,
    loader_register,
    random_table,
    random_tiles,
    tile_jobs,
)

SPARSE = TileConfig(code_bits=8, sparse=True)

# Squashes.

SQUASHED = (
    SPARSE,
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
    pools = [s.jobs(config, 16, 0.5, lut) for config in SQUASHED]
    core = await s.core(0.1, latency=(1, 60), bandwidth=0.6)
    await core.table(lut.tolist())
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
    await core.settle()


# Registers.

BUSY, DONE = 1, 2  # of STATUS
SQUASH, TAKE_RESULT = 1, 2  # written to it
METADATA = [r for r in LoaderRegister if r not in (LoaderRegister.GO, LoaderRegister.STATUS)]


@tile_test
async def registers_keep_and_refuse(s: Session) -> None:
    core = await s.core(0.1)
    identity, refused = await core.access(Register.IDENTITY)
    assert not refused
    assert identity == PARAMS.lanes | PARAMS.luts << 8 | PARAMS.loaders << 16
    assert (await core.access(Register.IDENTITY, 1))[1], "a write to a read-only register passed"
    last = loader_register(PARAMS.loaders - 1, LoaderRegister.STATUS)
    for address in (last + 8, 0x7F8, Register.CONFIG + 4, Register.LUT + 4):
        assert (await core.access(address))[1], f"register {address:#x} answered"
        assert (await core.access(address, 1))[1], f"register {address:#x} took a value"
    values: dict[int, int] = {Register.CONFIG: CONFIG_BITS, Register.PREFETCH: 4}
    for k in range(PARAMS.loaders):
        for register in METADATA:
            bits = LENGTH_BITS if "LENGTH" in register.name else PARAMS.address_bits
            values[loader_register(k, register)] = bits
    values = {address: s.random.getrandbits(bits) for address, bits in values.items()}
    for address, value in values.items():
        await core.write(address, value)
    for address, value in values.items():
        assert await core.access(address) == (value, False), f"register {address:#x}"
    table = random_table(s.rng, 8).tolist()
    await core.table(table)
    assert await core.table() == table


@tile_test
async def tiles_through_registers(s: Session) -> None:
    """Metadata, go, status, result: a tile without its stream ports."""
    first, second, third, *others = s.jobs(SPARSE, 8, 0.4)
    core = await s.core(0.1)
    await core.table(first.table)
    await core.write(Register.CONFIG, SPARSE.encode())
    for k in range(PARAMS.loaders):
        await through_registers(core, k, others.pop())
        core.read_row(k, s.random.randrange(TILE_ROWS), None)
        await core.finish()

    # A loader has two tiles, a third one waits in the registers.
    status = loader_register(1, LoaderRegister.STATUS)
    core.memory.bandwidth = 0.0
    for job in (first, second):
        core.give(1, job)
    await core.until(lambda: core.taken[1] == 2)
    await write_metadata(core, 1, third)
    await core.write(loader_register(1, LoaderRegister.GO), 1)
    assert (await core.access(loader_register(1, LoaderRegister.GO)))[0] == 1
    for register in (LoaderRegister.GO, *METADATA):
        _, refused = await core.access(loader_register(1, register), 1)
        assert refused, f"{register.name} was written while a command waits"
    assert (await core.access(status))[0] & BUSY
    assert (await core.access(Register.LUT, 0))[1], "a table entry was written under a tile"
    assert (await core.access(Register.LUT))[1], "a table entry was read under a tile"
    await core.write(status, SQUASH)
    core.forget(1)
    assert (await core.access(status))[0] == 0, "a squashed loader is busy"
    assert (await core.access(loader_register(1, LoaderRegister.GO)))[0] == 0
    core.memory.bandwidth = 1.0
    await core.until(lambda: not core.memory.waiting)
    await core.run([*others, first.again(), second.again()])


async def through_registers(core: Core, k: int, job: TileJob) -> None:
    status = loader_register(k, LoaderRegister.STATUS)
    await write_metadata(core, k, job)
    result = core.monitors[f"done{k}"]
    result.stall, result.may_withdraw = 1.0, True  # it is taken through STATUS
    await core.write(loader_register(k, LoaderRegister.GO), 1)
    core.waiting[k].append(job)
    core.taken[k] += 1
    value = 0
    while not value & DONE:
        value, _ = await core.access(status)
        assert value & (BUSY | DONE), "a tile got lost"
    assert value >> 2 == TileError.OK
    await core.write(status, TAKE_RESULT)
    core.tile_done(k, TileError.OK)
    assert (await core.access(status))[0] & DONE == 0
    await core.finish()
    result.stall, result.may_withdraw = core.stall, False


async def write_metadata(core: Core, k: int, job: TileJob) -> None:
    for name, value in job.fields.items():
        await core.write(loader_register(k, LoaderRegister[name.upper()]), value)


@tile_test
async def contexts_change_in_mid_stream(s: Session) -> None:
    """Registers and table are saved and restored around the tiles of another program.

    The program that is interrupted has its tiles squashed and gives them again afterwards.
    """
    mine = s.jobs(SPARSE, max(8, min(JOB.cases // 4, 100)), 0.4)
    other = TileConfig(code_bits=2, scale=ScaleKind.BF16, group=4)
    core = await s.core(0.1, latency=(1, 40), bandwidth=0.7)
    await core.table(mine[0].table)
    await core.write(Register.CONFIG, mine[0].config_word)
    await core.write(Register.PREFETCH, 3)
    todo = [job.again() for job in mine]
    switches = 0
    while todo:
        end = core.now + s.random.randint(10, 600)
        while core.now < end:
            for k in range(PARAMS.loaders):
                if todo and len(core.waiting[k]) < 2:
                    core.give(k, todo.pop())
            await core.cycles(1)
        await core.until(lambda: not core.commands_waiting)
        for k in range(PARAMS.loaders):
            todo += [job.again() for job in await core.squash(k)]
        await core.cycles(1)
        await core.finish()
        saved = [(await core.access(r))[0] for r in (Register.CONFIG, Register.PREFETCH)]
        table = await core.table()
        await core.write(Register.PREFETCH, 0)
        await core.run(s.jobs(other, 3, 0.4))
        await core.table(table)
        for register, value in zip((Register.CONFIG, Register.PREFETCH), saved, strict=True):
            await core.write(register, value)
        switches += 1
    done = [job for job in core.finished if job.config_word == mine[0].config_word]
    assert len(done) == len(mine)
    assert len(core.finished) == len(mine) + 3 * switches


@tile_test
async def stray_answers_are_noted(s: Session) -> None:
    """An answer to no request, or a second one to a request, is noted and harmless."""
    jobs = s.jobs(SPARSE, 4, 0.4)
    core = await s.core(latency=(1, 30))
    for tag in (3, 3 | 1 << (PARAMS.tag_bits - 1)):
        assert await core.access(Register.EVENTS) == (0, False)
        core.drivers["mem_response"].send([core.memory.response_word(tag)])
        await core.cycles(4)
        assert await core.access(Register.EVENTS) == (1, False)
        await core.write(Register.EVENTS, 1)
    await core.run(jobs[:2])
    assert await core.access(Register.EVENTS) == (0, False)
    core.memory.repeats = 0.3
    await core.run(jobs[2:])
    await core.cycles(4)
    assert await core.access(Register.EVENTS) == (1, False)


# Prefetches.

SCALED = TileConfig(code_bits=8, sparse=True, scale=ScaleKind.E8M0)
DEGREES = (0, 1, 2, 5, PARAMS.max_prefetch_degree)
SETTLED = 60  # cycles without a prefetch after which none follows


def columns(commands: Iterable[tuple[int, TileJob]]) -> dict[str, np.ndarray]:
    loaders, jobs = zip(*commands, strict=True)
    found = {name: np.array([job.fields[name] for job in jobs], np.uint64) for name in COMMAND}
    return found | {"loader": np.array(loaders)}


def regions(s: Session, lut: np.ndarray, count: int) -> list[TileJob]:
    """Tiles in regions, some left out."""
    tiles = random_tiles(s.rng, SCALED, 2 * count, 0.3)
    jobs = tile_jobs(tiles, lut, in_regions(tiles, s.store))
    return [job for job in jobs if s.random.random() < 0.8][:count]


@tile_test
async def prefetches_are_goldens(s: Session) -> None:
    """With time for all of them, every command is followed by exactly the lines golden names."""
    count = max(6, min(JOB.cases // len(DEGREES), 40))
    lut = random_table(s.rng, 8)
    jobs = regions(s, lut, count)
    jobs.insert(count // 2, regions(s, lut, 3)[0])  # from elsewhere: two runs end and begin
    for degree in DEGREES:
        core = await s.core()
        await core.write(Register.PREFETCH, degree)
        await core.write(Register.CONFIG, SCALED.encode())
        await core.table(jobs[0].table)
        # Three tiles in a row for a loader, then they alternate.
        commands = [(max(0, number - 2) % PARAMS.loaders, job) for number, job in enumerate(jobs)]
        wanted = predict_prefetches(PARAMS, columns(commands), degree)
        for number, (loader, job) in enumerate(commands):
            before = len(core.memory.prefetched)
            core.give(loader, job.again())
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
    jobs = regions(s, random_table(s.rng, 8), max(8, JOB.cases // len(DEGREES)))
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
