"""The PE behind AXI: tiles through AXI4-Lite registers and AXI4 reads."""

from functools import partial
from typing import Any

from tilewright.golden.params.deca import (
    AXI_TOUT,
    LOADER_STRIDE,
    LUT_ENTRIES,
    REGISTER_BITS,
    TILE_BYTES,
    TILE_ROWS,
    DecaAxiParams,
    LoaderRegister,
    Register,
    TileConfig,
    TileError,
)
from tilewright.golden.params.registers import addresses
from tilewright.verify import job
from tilewright.verify.axi import ALL_BYTES, OKAY, SLVERR, AxiLiteMaster, AxiMemory
from tilewright.verify.deca.memory import Store
from tilewright.verify.deca.workload import (
    TileJob,
    all_configs,
    random_table,
    random_tiles,
    scatter,
    tile_jobs,
)
from tilewright.verify.interrupt import DONE, ERROR, InterruptModel
from tilewright.verify.session import Session, test_in
from tilewright.verify.streams import read

JOB = job.load()
PARAMS = JOB.params_as(DecaAxiParams)
RESULT = 2  # of STATUS
SQUASH, TAKE_RESULT = 1, 2  # written to it
WORD_BYTES = REGISTER_BITS // 8
ROW_WORDS = PARAMS.line_bytes // WORD_BYTES


class Host(Session):
    """A processor and its memory on the two AXI ports; tiles are the cases."""

    def __init__(self, dut: Any, name: str, stall: float):
        super().__init__(dut, name)
        self.store = Store(PARAMS, self.random, base=1 << (PARAMS.address_bits - 1))
        latency = (1, 1 + round(60 * stall))
        self.memory = AxiMemory(
            dut,
            "m_axi_",
            self.store.line,
            PARAMS.line_bytes,
            self.random,
            latency=latency,
            stall=stall,
        )
        self.master = AxiLiteMaster(dut, "s_axi_", self.random, stall=stall)
        self.interrupt = InterruptModel()

    async def start(self) -> None:
        await self.clock.reset([self.memory, self.master, self])

    def step(self, cycle: int) -> bool:
        """A part of the bench: looks at ``irq`` in every cycle."""
        self.interrupt.check(read(self.dut.irq, cycle))
        return False

    def progress(self) -> str:
        return f"irq {int(self.dut.irq.value)}"

    async def write(self, address: int, value: int, strobes: int = ALL_BYTES) -> int:
        self.master.ask_write(address, value, strobes)
        await self.clock.run(lambda: bool(self.master.b.words))
        return self.master.b.words.popleft()["resp"]

    async def read(self, address: int) -> tuple[int, int]:
        """Read one word; returns its data and the response."""
        self.master.ask_read(address)
        await self.clock.run(lambda: bool(self.master.r.words))
        word = self.master.r.words.popleft()
        return word["data"], word["resp"]

    async def put(self, address: int, value: int) -> None:
        assert await self.write(address, value) == OKAY, f"write to {address:#x} refused"

    async def get(self, address: int) -> int:
        value, response = await self.read(address)
        assert response == OKAY, f"read of {address:#x} refused"
        return value

    async def enable(self, bits: int) -> None:
        self.interrupt.enables(bits)
        await self.put(Register.INTERRUPT_ENABLE, bits)
        self.interrupt.enabled(bits)

    async def acknowledge(self) -> int:
        """Read INTERRUPT and clear what is set, sometimes after a write that clears nothing."""
        found = await self.get(Register.INTERRUPT)
        self.interrupt.check_read(found)
        for bits in (0, found)[self.random.randrange(2) :]:
            self.interrupt.clears(bits)
            await self.put(Register.INTERRUPT, bits)
            self.interrupt.cleared(bits)
        return found

    async def load_table(self, lut: tuple[int, ...]) -> None:
        for k in range(LUT_ENTRIES):
            self.master.ask_write(Register.LUT + 8 * k, lut[k])
        answers = self.master.b.words
        await self.clock.run(lambda: len(answers) == LUT_ENTRIES)
        assert {answer["resp"] for answer in answers} == {OKAY}
        answers.clear()

    async def give(self, k: int, tile: TileJob) -> None:
        await self.put(Register.CONFIG, tile.config_word)
        for name, value in tile.fields.items():
            await self.put(loader_register(k, LoaderRegister[name.upper()]), value)
        self.interrupt.begins(tile.error is not TileError.OK)
        await self.put(loader_register(k, LoaderRegister.GO), 1)

    async def finish(self, k: int, tile: TileJob) -> None:
        """Wait for the tile, take its result, read its rows in any order."""
        status = loader_register(k, LoaderRegister.STATUS)
        value = await self.get(status)
        while not value & RESULT:
            if self.interrupt.sure_enable & DONE:
                await self.clock.run(lambda: bool(int(self.dut.irq.value)))
                assert await self.acknowledge() & DONE
            value = await self.get(status)
        assert TileError(value >> 2) == tile.error
        self.interrupt.ended(tile.error is not TileError.OK)
        await self.put(status, TAKE_RESULT)
        if tile.error is TileError.OK:
            rows = list(range(TILE_ROWS))
            self.random.shuffle(rows)
            for row in rows:
                await self.check_row(k, row, tile)
        self.cases += 1

    async def check_row(self, k: int, row: int, tile: TileJob) -> None:
        for word in self.random.sample(range(ROW_WORDS), ROW_WORDS):
            got = await self.get(row_address(k, row) + WORD_BYTES * word)
            want = tile.rows[row] >> (REGISTER_BITS * word) & ((1 << REGISTER_BITS) - 1)
            assert got == want, f"row {row}, word {word}: got {got:#x}, expected {want:#x}"

    def tiles(self, config: TileConfig, count: int) -> list[TileJob]:
        tiles = random_tiles(self.rng, config, count, float(self.rng.uniform(0.1, 0.9)))
        lut = random_table(self.rng, min(config.code_bits, 8))
        return tile_jobs(tiles, lut, scatter(tiles, self.store, self.random))


def loader_register(k: int, register: LoaderRegister) -> int:
    return Register.LOADER + k * LOADER_STRIDE + register


def row_address(k: int, row: int) -> int:
    return AXI_TOUT + k * TILE_BYTES + row * PARAMS.line_bytes


def host_test(stall: float) -> Any:
    return test_in(partial(Host, stall=stall))


async def tiles_of_many_configurations(host: Host) -> None:
    """Two tiles at a time, one per loader; some end with a bus error."""
    await host.put(Register.PREFETCH, 2)
    configs = all_configs(PARAMS)
    for number in range(max(1, JOB.cases // 4)):
        await host.enable((DONE, DONE | ERROR, ERROR, 0)[number % 4])
        config = configs[int(host.rng.integers(len(configs)))]
        first, *others = host.tiles(config, 4)
        await host.load_table(first.lut or (0,) * LUT_ENTRIES)
        for pair in ((first, others[0]), (others[1], others[2])):
            if host.random.random() < 0.3:
                victim = pair[1]
                bad = host.random.choice(victim.lines(PARAMS.line_bytes))
                host.memory.bad.add(bad * PARAMS.line_bytes)
                victim.error = TileError.BUS
            for k, tile in enumerate(pair):
                await host.give(k, tile)
            for k in host.random.sample(range(2), 2):
                await host.finish(k, pair[k])
            await host.acknowledge()
            host.interrupt.check_read(await host.get(Register.INTERRUPT))
            assert not host.interrupt.possible


tiles_without_stalls = host_test(0.0)(tiles_of_many_configurations)
tiles_with_stalls = host_test(0.4)(tiles_of_many_configurations)


@host_test(0.1)
async def registers_are_the_map(host: Host) -> None:
    """Every register of the map can be read, only those that the map says can be written."""
    known = addresses(PARAMS.registers)
    for address in range(0, AXI_TOUT, WORD_BYTES):
        _, answer = await host.read(address)
        assert answer == (OKAY if address in known else SLVERR), f"read of {address:#x}: {answer}"
        register = known.get(address)
        if register is None or not register.write:
            assert await host.write(address, 0) == SLVERR, f"{address:#x} was written"
        elif register.name != "GO":  # a write starts a tile
            assert await host.write(address, 0) == OKAY, f"{address:#x} was not written"


@host_test(0.2)
async def refusals(host: Host) -> None:
    """Accesses to no register or row, and half writes, answer SLVERR and change nothing."""
    await host.put(Register.CONFIG, 5)
    assert await host.write(Register.CONFIG, 0, strobes=0x0F) == SLVERR
    assert await host.get(Register.CONFIG) == 5
    for address in (0x7F8, Register.IDENTITY, row_address(0, 0), row_address(2, 0)):
        assert await host.write(address, 1) == SLVERR, f"{address:#x} was written"
    for address in (0x7F8, row_address(0, 3), row_address(1, 15) + 8, row_address(2, 0)):
        assert (await host.read(address))[1] == SLVERR, f"{address:#x} was read"
    # A read and a write at once.
    host.master.ask_write(Register.PREFETCH, 3)
    host.master.ask_read(Register.CONFIG)
    await host.clock.run(lambda: bool(host.master.b.words and host.master.r.words))
    assert host.master.b.words.popleft()["resp"] == OKAY
    assert host.master.r.words.popleft() == {"data": 5, "resp": OKAY}


@host_test(0.1)
async def rows_are_read_once(host: Host) -> None:
    """The words of a row wait while the core writes other things, and no longer than its tile."""
    config = all_configs(PARAMS)[0]
    first, second, third = host.tiles(config, 3)
    await host.load_table(first.table)
    await host.give(0, first)
    status = loader_register(0, LoaderRegister.STATUS)
    while not await host.get(status) & RESULT:
        pass
    await host.put(status, TAKE_RESULT)
    assert await host.get(row_address(0, 7)) == first.rows[7] & ((1 << REGISTER_BITS) - 1)
    await host.put(Register.PREFETCH, 1)
    await host.give(1, second)
    await host.check_row(0, 7, first)
    await host.check_row(0, 8, first)
    assert (await host.read(row_address(0, 7)))[1] == SLVERR, "a row was read twice"
    await host.finish(1, second)
    # A squash drops the rest of the tile, the buffered row too.
    await host.check_row(0, 9, first)
    await host.put(status, SQUASH)
    for row in (9, 10):
        assert (await host.read(row_address(0, row)))[1] == SLVERR, f"row {row} survived a squash"
    await host.give(0, third)
    await host.finish(0, third)
