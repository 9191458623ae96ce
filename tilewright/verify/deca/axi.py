"""The PE behind AXI: tiles through AXI4-Lite registers and AXI4 reads."""

import cocotb
from cocotbext.axi import AxiBurstType, AxiReadBus, AxiResp
from cocotbext.axi.axi_channels import AxiARSink, AxiRSource, AxiRTransaction

from tilewright.golden.params.deca import (
    AXI_TOUT,
    LUT_ENTRIES,
    TILE_BYTES,
    TILE_ROWS,
    DecaAxiParams,
    LoaderRegister,
    Register,
    TileError,
)
from tilewright.golden.params.registers import addresses
from tilewright.verify.axi import WORD, AxiHost
from tilewright.verify.deca.session import JOB, Session, tile_test
from tilewright.verify.deca.workload import TileJob, all_configs, loader_register
from tilewright.verify.interrupt import DONE, ERROR

PARAMS = JOB.params_as(DecaAxiParams)
OKAY, SLVERR = AxiResp.OKAY, AxiResp.SLVERR
RESULT = 2  # of STATUS
SQUASH, TAKE_RESULT = 1, 2  # written to it
ROW_WORDS = PARAMS.line_bytes // WORD
OFFERS = {
    "m_axi_ar": ("id", "addr", "len", "size", "burst", "lock"),
    "s_axi_b": ("resp",),
    "s_axi_r": ("data", "resp"),
}


class Host(AxiHost):
    """A processor and its memory on the two AXI ports.

    Reads are answered in any order, but for each id; an offer that changes or vanishes before it is
    taken fails the test. Addresses in ``bad`` are answered with an error.
    """

    limit = 20_000

    def __init__(self, s: Session, stall: float):
        super().__init__(s.dut, stall, s.job.seed)
        self.s, self.bad = s, set[int]()
        bus = AxiReadBus.from_prefix(s.dut, "m_axi")
        self.asked, self.answers = AxiARSink(bus.ar, s.dut.aclk), AxiRSource(bus.r, s.dut.aclk)
        self.pause((self.asked, self.answers))
        self.waiting: list[tuple[int, int, int]] = []  # due, id, address
        self.offered: dict[str, list[int] | None] = dict.fromkeys(OFFERS)

    def step(self) -> None:
        super().step()
        self.s.clock.cycle += 1  # for the report
        self._hold()
        size = (PARAMS.line_bytes - 1).bit_length()
        while not self.asked.empty():
            word = self.asked.recv_nowait()
            beat = [int(x) for x in (word.arlen, word.arsize, word.arburst, word.arlock)]
            assert beat == [0, size, AxiBurstType.INCR, 0], f"no single line: {word}"
            due = self.s.clock.cycle + self.random.randint(1, 1 + round(60 * self.stall))
            self.waiting.append((due, int(word.arid), int(word.araddr)))
        first = {entry[1]: entry for entry in reversed(self.waiting)}
        due_now = [entry for entry in first.values() if entry[0] <= self.s.clock.cycle]
        if due_now and self.answers.empty():
            entry = self.random.choice(due_now)
            self.waiting.remove(entry)
            self._answer(*entry[1:])

    def _hold(self) -> None:
        """Check that what was on offer and not taken is still there."""
        for channel, names in OFFERS.items():
            valid, ready, *word = (
                int(getattr(self.dut, channel + name).value) for name in ("valid", "ready", *names)
            )
            before = self.offered[channel]
            assert before is None or (valid, word) == (1, before), f"{channel} changed an offer"
            self.offered[channel] = word if valid and not ready else None

    def _answer(self, number: int, address: int) -> None:
        assert address % PARAMS.line_bytes == 0
        data = int.from_bytes(self.s.store.line(address // PARAMS.line_bytes), "little")
        response = SLVERR if address in self.bad else OKAY
        answer = AxiRTransaction(rid=number, rdata=data, rresp=response, rlast=1)
        self.answers.send_nowait(answer)

    async def acknowledge(self) -> int:
        """Read INTERRUPT and clear what is set, sometimes after a write that clears nothing."""
        found = await self.get(Register.INTERRUPT)
        self.interrupt.check_read(found)
        for bits in (0, found)[self.random.randrange(2) :]:
            await self.clear(Register.INTERRUPT, bits)
        return found

    async def load_table(self, lut: tuple[int, ...]) -> None:
        table = b"".join(entry.to_bytes(WORD, "little") for entry in lut)
        assert (await self.registers.write(Register.LUT, table)).resp == OKAY

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
                await self.interrupted()
                assert await self.acknowledge() & DONE
            value = await self.get(status)
        assert TileError(value >> 2) == tile.error
        self.interrupt.ended(tile.error is not TileError.OK)
        await self.put(status, TAKE_RESULT)
        if tile.error is TileError.OK:
            for row in self.random.sample(range(TILE_ROWS), TILE_ROWS):
                await self.check_row(k, row, tile)
        self.s.cases += 1

    async def check_row(self, k: int, row: int, tile: TileJob) -> None:
        for word in self.random.sample(range(ROW_WORDS), ROW_WORDS):
            got = await self.get(row_address(k, row) + WORD * word)
            want = tile.rows[row] >> (8 * WORD * word) & ((1 << 8 * WORD) - 1)
            assert got == want, f"row {row}, word {word}: got {got:#x}, expected {want:#x}"


def row_address(k: int, row: int) -> int:
    return AXI_TOUT + k * TILE_BYTES + row * PARAMS.line_bytes


async def host_of(s: Session, stall: float = 0.1) -> Host:
    """The PE after a reset; its inputs have values before the models write their first ones."""
    for wire in PARAMS.wires:
        if not wire.output:
            getattr(s.dut, wire.name).value = 0
    await s.clock.reset()
    return Host(s, stall)


@tile_test
async def tiles_of_many_configurations(s: Session) -> None:
    """Two tiles at a time, one per loader; some end with a bus error."""
    host = await host_of(s, 0.4)
    await host.put(Register.PREFETCH, 2)
    configs = all_configs(PARAMS)
    for number in range(2 * max(1, JOB.cases // 4)):
        host.stall = 0.4 * (number % 2)
        enabled = (DONE, DONE | ERROR, ERROR, 0)[number // 2 % 4]
        await host.enable(Register.INTERRUPT_ENABLE, enabled)
        config = configs[int(s.rng.integers(len(configs)))]
        first, *others = s.jobs(config, 4, s.random.uniform(0.1, 0.9))
        await host.load_table(first.lut or (0,) * LUT_ENTRIES)
        for pair in ((first, others[0]), (others[1], others[2])):
            if host.random.random() < 0.3:
                victim = pair[1]
                bad = host.random.choice(victim.lines(PARAMS.line_bytes))
                host.bad.add(bad * PARAMS.line_bytes)
                victim.error = TileError.BUS
            for k, tile in enumerate(pair):
                await host.give(k, tile)
            for k in host.random.sample(range(2), 2):
                await host.finish(k, pair[k])
            await host.acknowledge()
            host.interrupt.check_read(await host.get(Register.INTERRUPT))
            assert not host.interrupt.possible


@tile_test
async def registers_are_the_map(s: Session) -> None:
    """Every register of the map can be read, only those that the map says can be written."""
    host = await host_of(s)
    await host.check_map(addresses(PARAMS.registers), range(0, AXI_TOUT, WORD), starts="GO")


@tile_test
async def refusals(s: Session) -> None:
    """Accesses to no register or row, and half writes, answer SLVERR and change nothing."""
    host = await host_of(s, 0.2)
    await host.put(Register.CONFIG, 5)
    assert await host.write(Register.CONFIG, 0, size=4) == SLVERR
    assert await host.get(Register.CONFIG) == 5
    for address in (0x7F8, Register.IDENTITY, row_address(0, 0), row_address(2, 0)):
        assert await host.write(address, 1) == SLVERR, f"{address:#x} was written"
    for address in (0x7F8, row_address(0, 3), row_address(1, 15) + 8, row_address(2, 0)):
        assert (await host.read(address))[1] == SLVERR, f"{address:#x} was read"
    # A read and a write at once.
    write = cocotb.start_soon(host.write(Register.PREFETCH, 3))
    assert await host.read(Register.CONFIG) == (5, OKAY)
    assert await write == OKAY


@tile_test
async def rows_are_read_once(s: Session) -> None:
    """The words of a row wait while the core writes other things, and no longer than its tile."""
    host = await host_of(s)
    first, second, third = s.jobs(all_configs(PARAMS)[0], 3, 1.0)
    await host.load_table(first.table)
    await host.give(0, first)
    status = loader_register(0, LoaderRegister.STATUS)
    while not await host.get(status) & RESULT:
        pass
    await host.put(status, TAKE_RESULT)
    assert await host.get(row_address(0, 7)) == first.rows[7] & ((1 << 8 * WORD) - 1)
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
