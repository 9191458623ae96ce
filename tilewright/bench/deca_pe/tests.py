"""cocotb tests of the DECA processing element, on the emitted Verilog or a mapped netlist."""

import os
from dataclasses import replace
from random import Random

import cocotb
import numpy as np

from golden.deca import decode_tiles, tile_cycles
from golden.params.deca import (
    CODE_BITS,
    CONFIG_FIELDS,
    LOADER_STRIDE,
    LUT_ENTRIES,
    DecaParams,
    LoaderRegister,
    Register,
    ScaleKind,
    TileConfig,
    TileError,
)
from tilewright.bench.deca_pe.core import Core, Job, altered, command_fields, jobs_of
from tilewright.bench.deca_pe.memory import Memory
from tilewright.bench.deca_pe.workload import all_configs, random_table, random_tiles

PARAMS = DecaParams.preset(os.environ["TILEWRIGHT_SPEC"].split(":")[1])
SEED = int(os.environ.get("TILEWRIGHT_SEED", "1"))
CASES = int(os.environ.get("TILEWRIGHT_CASES", "60"))  # tiles of each test


def setting(test: str) -> tuple[np.random.Generator, Random]:
    """Random numbers of one test, independent of the other tests."""
    return np.random.default_rng([SEED, *test.encode()]), Random(f"{SEED} {test}")


def random_jobs(rng, count: int, configs: list[TileConfig], densities, base: int = 0x1000):
    """Jobs of random tiles, a few of each of some configurations, and their memory."""
    jobs: list[Job] = []
    lines = []
    for config in configs:
        density = float(rng.choice(densities))
        lut = random_table(rng, config.code_bits)
        tiles = random_tiles(rng, config, count, density)
        own, read_line = jobs_of(PARAMS, tiles, lut, base)
        jobs += own
        lines.append((base, read_line))
        base += 1 << 16

    def read(line: int) -> bytes:
        return next(r for b, r in reversed(lines) if line * PARAMS.line_bytes >= b)(line)

    return jobs, read


@cocotb.test()
async def every_configuration(dut):
    """Random tiles of many configurations, late and unordered memory, stalls on every port."""
    rng, random = setting("every_configuration")
    configs = all_configs(PARAMS)
    chosen = [configs[k] for k in rng.permutation(len(configs))[: max(1, CASES // 4)]]
    jobs, read = random_jobs(rng, 4, chosen, (0.05, 0.3, 0.5, 0.9, 1.0))
    memory = Memory(PARAMS, read, random, latency=(1, 40), bandwidth=0.7)
    core = Core(dut, PARAMS, memory, random, stall=0.2)
    await core.start()
    await core.run(jobs, limit=20000)
    assert len(core.finished) == len(jobs)


def cycle_cases() -> list[tuple[TileConfig, float]]:
    """Configurations and densities whose cycles the contract states, and some between."""
    e8m0 = ScaleKind.E8M0
    return [
        (TileConfig(code_bits=8), 1.0),
        (TileConfig(code_bits=4, scale=e8m0), 1.0),
        *((TileConfig(code_bits=8, sparse=True), d) for d in (0.5, 0.3, 0.2, 0.1, 0.05)),
        (TileConfig(code_bits=7, sparse=True), 0.8),
        (TileConfig(code_bits=6, sparse=True, scale=e8m0), 0.3),
        (TileConfig(code_bits=3), 1.0),
        (TileConfig(code_bits=16, sparse=True), 0.1),
        (TileConfig(code_bits=8, sparse=True, int8=True), 0.4),
    ]


@cocotb.test()
async def cycles_equal_the_model(dut):
    """With data there, a tile ends exactly as many cycles after the one before as golden says."""
    rng, random = setting("cycles_equal_the_model")
    cases = cycle_cases()
    count = max(4, CASES // len(cases))
    jobs, lines = [], {}
    for number, (config, density) in enumerate(cases):
        tiles = random_tiles(rng, config, count, density, whole_rows=False)
        base = (number + 1) << 24
        # Aligned data: an unaligned tile takes a line more, and the model has no memory.
        own, lines[number + 1] = jobs_of(
            PARAMS, tiles, random_table(rng, config.code_bits), base, 64
        )
        cycles = tile_cycles(PARAMS, config, decode_tiles(tiles).mask).total
        for job, expected in zip(own, cycles.tolist(), strict=True):
            job.cycles = expected
        jobs.append(own)
    memory = Memory(PARAMS, lambda line: lines[line * PARAMS.line_bytes >> 24](line), random)
    core = Core(dut, PARAMS, memory, random)
    await core.start()
    for (config, density), own in zip(cases, jobs, strict=True):
        await core.run(own)
        warm = own[2:]  # the first tile of each loader waits for its data
        measured = [b.done_at - a.done_at for a, b in zip(own[1:], warm, strict=False)]
        expected = [job.cycles for job in warm]
        assert measured == expected, (
            f"{config} at density {density}: first difference at tile "
            f"{next(n for n, (a, b) in enumerate(zip(measured, expected, strict=True)) if a != b) + 2}: "
            f"measured {measured}, model {expected}"
        )
        dut._log.info(f"{config}: {np.mean(measured):.2f} cycles a tile over {len(measured)}")


def bad_format_words() -> list[int]:
    """Configuration words that mean nothing."""
    good = TileConfig().encode()
    shift = {}
    at = 0
    for field in CONFIG_FIELDS:
        shift[field.name] = at
        at += field.bits

    def with_field(word, name, value):
        bits = next(f.bits for f in CONFIG_FIELDS if f.name == name)
        return (word & ~(((1 << bits) - 1) << shift[name])) | value << shift[name]

    int8 = TileConfig(int8=True).encode()
    return [
        *(with_field(good, "code_bits", q) for q in range(32) if q not in CODE_BITS),
        with_field(good, "scale", 3),
        *(with_field(good, "group_log2", g) for g in range(10, 16)),
        *(with_field(int8, "scale", s) for s in (1, 2)),
        with_field(int8, "code_bits", 16),
    ]


@cocotb.test()
async def every_error(dut):
    """Each error code in turn, good tiles between them on both loaders."""
    rng, random = setting("every_error")
    sparse = TileConfig(code_bits=6, sparse=True, scale=ScaleKind.E8M0)
    dense = TileConfig(code_bits=8)
    lut = random_table(rng, 6)  # narrow enough for both
    tiles = {c: random_tiles(rng, c, 8, 0.4) for c in (sparse, dense)}
    good, lines = {}, {}
    for number, c in enumerate(tiles):
        good[c], lines[number + 1] = jobs_of(PARAMS, tiles[c], lut, (number + 1) << 24)
    bad: list[Job] = []

    def spoil(config: TileConfig, error: TileError, job: int = 0, **fields: int) -> None:
        """A tile with some lengths changed by so much."""
        source = good[config][job]
        bad.append(Job(source.config_word, altered(PARAMS, source.command, **fields), [], error))

    for word in bad_format_words():
        bad.append(Job(word, good[dense][0].command, [], TileError.FORMAT))
    for by in (1, -1, -16):
        spoil(sparse, TileError.MASK_LENGTH, mask_length=by)
        spoil(sparse, TileError.SCALE_LENGTH, scale_length=by)
        spoil(dense, TileError.DATA_LENGTH, data_length=by)
        spoil(sparse, TileError.DATA_LENGTH, data_length=by)
        spoil(sparse, TileError.DATA_LENGTH, job=1, data_length=3 * by)
    spoil(dense, TileError.MASK_LENGTH, mask_length=64)
    spoil(dense, TileError.SCALE_LENGTH, scale_length=16)
    spoil(sparse, TileError.DATA_LENGTH, data_length=1000)
    memory = Memory(
        PARAMS, lambda line: lines[line * PARAMS.line_bytes >> 24](line), random, latency=(1, 20)
    )
    for name in ("mask", "scale", "data"):
        victim = good[sparse][-1]
        command = command_fields(PARAMS, victim.command)
        # A line of its own, so that the good tiles do not touch it.
        far = ((8 + len(memory.bad_lines)) << 24) | (command[f"{name}_base"] & 63)
        memory.bad_lines.add(far >> 6)
        lines[far >> 24] = lambda line: bytes(PARAMS.line_bytes)
        moved = altered(PARAMS, victim.command, **{f"{name}_base": far - command[f"{name}_base"]})
        bad.append(Job(victim.config_word, moved, [], TileError.BUS))
    random.shuffle(bad)
    pool = [*good[sparse][:-1], *good[dense]]
    jobs = []
    for number, job in enumerate(bad):
        jobs += [job, replace(pool[number % len(pool)])]
        if random.random() < 0.5:  # so that both loaders see both kinds
            jobs.append(replace(random.choice(pool)))
    for job in jobs:
        job.lut = tuple(int(v) for v in lut)
    core = Core(dut, PARAMS, memory, random, stall=0.1)
    await core.start()
    await core.run(jobs)
    assert {job.result for job in jobs} == set(TileError)
    assert len(core.finished) == len(jobs)


@cocotb.test()
async def squash_at_any_time(dut):
    """Aborts at random cycles: the loader is free at once, the other one notices nothing."""
    rng, random = setting("squash_at_any_time")
    configs = [
        TileConfig(code_bits=8, sparse=True),
        TileConfig(code_bits=4, scale=ScaleKind.E8M0),
        TileConfig(code_bits=5, sparse=True, scale=ScaleKind.BF16, group=8),
    ]
    squashes = CASES
    lut = random_table(rng, 4)  # narrow enough for all
    lines, jobs = {}, {}
    for number, config in enumerate(configs):
        tiles = random_tiles(rng, config, 16, 0.5)
        jobs[config], lines[number + 1] = jobs_of(PARAMS, tiles, lut, (number + 1) << 24)
    memory = Memory(
        PARAMS,
        lambda line: lines[line * PARAMS.line_bytes >> 24](line),
        random,
        latency=(1, 60),
        bandwidth=0.6,
    )
    core = Core(dut, PARAMS, memory, random, stall=0.1)
    await core.start()
    await core.load_table(lut)
    given = 0
    lost_jobs = 0
    for number in range(squashes):
        if number % 25 == 0:
            await core.until(lambda: core.quiet, 5000, "tiles before a new configuration")
            pool = jobs[configs[number // 25 % len(configs)]]
            await core.write(Register.CONFIG, pool[0].config_word)
        until = core.now + random.randint(0, 120)
        while core.now < until:
            for k in range(PARAMS.loaders):
                if len(core.waiting[k]) < 2:
                    core.give(k, replace(random.choice(pool)))
                    given += 1
            await core.cycle()
        k = random.randrange(PARAMS.loaders)
        lost = await core.squash(k)
        lost_jobs += len(lost)
        others = core.taken[0]
        await core.cycle()
        # Loader 1 lets loader 0 go first when both are given a command in one cycle.
        assert core.open[k] or (k == 1 and core.taken[0] > others), (
            f"loader {k} takes no command in the cycle after squash {number}"
        )
    await core.until(lambda: core.quiet, 5000, "the tiles after the last squash")
    assert len(core.finished) + lost_jobs == given, "a tile was lost or came twice"
    await core.until(lambda: not memory.waiting, 500, "answers to dropped requests")


@cocotb.test()
async def registers_and_contexts(dut):
    """Registers read back; refused accesses change nothing; a context is saved and restored."""
    rng, random = setting("registers_and_contexts")
    lut = random_table(rng, 8)
    config, other = (
        TileConfig(code_bits=8, sparse=True),
        TileConfig(code_bits=2, scale=ScaleKind.BF16),
    )
    first, line1 = jobs_of(PARAMS, random_tiles(rng, config, 6, 0.4), lut, 1 << 24)
    second, line2 = jobs_of(PARAMS, random_tiles(rng, other, 4, 1.0), random_table(rng, 2), 2 << 24)
    memory = Memory(
        PARAMS,
        lambda line: (line1 if line * PARAMS.line_bytes < 2 << 24 else line2)(line),
        random,
        latency=(1, 30),
    )
    core = Core(dut, PARAMS, memory, random, stall=0.1)
    await core.start()
    identity, refused = await core.access(Register.IDENTITY)
    assert not refused and identity & 0xFF == PARAMS.lanes and identity >> 8 & 0xFF == PARAMS.luts
    assert (await core.access(Register.IDENTITY, 1))[1], "a write to a read-only register passed"
    assert (await core.access(0x7F8))[1], "an unknown register answered"
    assert (await core.access(Register.LUT + 4))[1], "an unaligned table entry answered"
    for k in range(PARAMS.loaders):
        for register in LoaderRegister:
            if register in (LoaderRegister.GO, LoaderRegister.STATUS):
                continue
            address = Register.LOADER + k * LOADER_STRIDE + register
            bits = 11 if "LENGTH" in register.name else PARAMS.address_bits
            value = random.getrandbits(bits)
            await core.write(address, value)
            assert (await core.access(address))[0] == value, f"{register.name} of loader {k}"

    await core.run(first[:3])
    saved = [(await core.access(Register.LUT + 8 * k))[0] for k in range(LUT_ENTRIES)]
    assert saved == [int(v) for v in lut]
    saved_config = (await core.access(Register.CONFIG))[0]
    await core.run(second)
    await core.load_table(saved)
    await core.write(Register.CONFIG, saved_config)
    # The same through the registers: metadata, go, status, result.
    for k, job in enumerate(first[3 : 3 + PARAMS.loaders]):
        base = Register.LOADER + k * LOADER_STRIDE
        for name, value in command_fields(PARAMS, job.command).items():
            await core.write(base + LoaderRegister[name.upper()], value)
        result = core.sinks[f"done{k}"]
        result.stall, result.may_vanish = 1.0, True  # it is taken through STATUS
        await core.write(base + LoaderRegister.GO, 1)
        _, refused = await core.access(Register.LUT, 0)
        assert refused, "a table entry was written while a tile was in work"
        status = 1
        while not status & 2:
            status, _ = await core.access(base + LoaderRegister.STATUS)
        assert status >> 2 == TileError.OK
        core.waiting[k].append(job)
        core.taken[k] += 1
        await core.write(base + LoaderRegister.STATUS, 2)
        core._done(k, TileError.OK)
        await core.until(lambda: core.quiet, 3000, "the rows")
        result.stall, result.may_vanish = 0.0, False
    # An answer to no request is noted and harms nothing.
    assert (await core.access(Register.EVENTS))[0] == 0
    core.sources["mem_response"].words.append(memory.response_word(3))
    await core.until(lambda: not core.sources["mem_response"].words, 100, "the stray answer")
    assert (await core.access(Register.EVENTS))[0] == 1
    await core.write(Register.EVENTS, 1)
    assert (await core.access(Register.EVENTS))[0] == 0
    await core.run(first[5:], ahead=1)


@cocotb.test()
async def prefetcher_runs_ahead(dut):
    """Prefetches never repeat a line and reach the tiles that follow."""
    rng, random = setting("prefetcher_runs_ahead")
    config = TileConfig(code_bits=8, sparse=True)
    lut = random_table(rng, 8)
    tiles = random_tiles(rng, config, max(8, CASES // 3), 0.3)
    jobs, read = jobs_of(PARAMS, tiles, lut, 1 << 24)
    for degree in (0, 1, 5, 15):
        memory = Memory(PARAMS, read, random, latency=(5, 30))
        core = Core(dut, PARAMS, memory, random)
        await core.start()
        await core.write(Register.PREFETCH, degree)
        await core.run([replace(job) for job in jobs])
        fetched = memory.prefetched
        assert len(fetched) == len(set(fetched)), f"degree {degree}: a line was prefetched twice"
        if degree == 0:
            assert not fetched
            continue
        wanted = set(memory.demanded)
        hits = len(wanted & set(fetched)) / len(wanted)
        assert hits > 0.5, f"degree {degree}: only {hits:.0%} of the lines were prefetched"
