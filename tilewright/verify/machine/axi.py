"""Accelerators behind AXI, between third-party models of AXI (``cocotbext-axi``).

GEMMs and stops run as they do on the accelerator's own ports: memory, status and golden's counters
match golden. Both sides of every AXI channel pause at random.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.axi import (
    AxiBus,
    AxiReadBus,
    AxiResp,
    AxiSlave,
    AxiSlaveRead,
    MemoryInterface,
)

from tilewright.golden.params.block import pack_fields, unpack_fields
from tilewright.golden.params.machine import (
    CONTROL_FIELDS,
    INSTRUCTION_BASE,
    STATUS_FIELDS,
    Error,
    Register,
)
from tilewright.golden.params.registers import addresses
from tilewright.verify import job
from tilewright.verify.axi import AxiHost, channels
from tilewright.verify.interrupt import DONE, ERROR
from tilewright.verify.machine.accelerators import accelerator_of, bench_side
from tilewright.verify.machine.check import require_memory
from tilewright.verify.machine.workload import gemm_of
from tilewright.verify.streams import PERIOD_NS

JOB = job.load()
PARAMS: Any = JOB.params  # of an accelerator behind AXI
OWN = bench_side(PARAMS.machine)
GEMM = (3, 40, 68)  # tokens, inputs, outputs: results in lines of both channels


class Lines(MemoryInterface):
    """The lines of one channel; those beyond the memory answer with an error."""

    def __init__(self, external: np.ndarray, channel: int, channels: int):
        self.lines = external[channel::channels]
        self.asked: list[int] = []  # addresses
        super().__init__(size=1 << PARAMS.address_bits)

    def _line(self, address: int, length: int) -> np.ndarray:
        self.asked.append(address)
        line, offset = divmod(address, self.lines.shape[1])
        if line >= len(self.lines):
            raise ValueError(f"line {line} is beyond the memory")
        return self.lines[line, offset : offset + length]

    async def _read(self, address: int, length: int, **kwargs: Any) -> bytes:
        return self._line(address, length).tobytes()

    async def _write(self, address: int, data: bytes, **kwargs: Any) -> None:
        self._line(address, len(data))[:] = np.frombuffer(data, np.uint8)


class Host(AxiHost):
    """A processor and the channels of its memory."""

    def __init__(self, dut: Any, external: np.ndarray, stall: float, seed: int):
        super().__init__(dut, stall, seed)
        self.params = PARAMS
        self.external = external.reshape(-1, self.params.line_bytes)
        count = self.params.memory_channels
        self.lines = [Lines(self.external, c, count) for c in range(count)]
        memories = [
            AxiSlave(AxiBus.from_prefix(dut, f"m{c}_axi"), dut.aclk, target=lines)
            for c, lines in enumerate(self.lines)
        ]
        self.code_lines = Lines(self.external, 0, 1)
        code = AxiSlaveRead(
            AxiReadBus.from_prefix(dut, "code_axi"), dut.aclk, target=self.code_lines
        )
        self.pause(end for memory in memories for end in channels(memory))
        self.pause((code.ar_channel, code.r_channel))

    async def response_of(self, address: int) -> AxiResp:
        """How a read is answered."""
        return (await self.read(address))[1]

    async def run(self, program: list, error: Error = Error.NONE) -> dict[str, int]:
        """Load and start a program that ends with ``error``; its status when it is done."""
        await self.load(program)
        return await self.start(stream=0, line=0, error=error)

    async def load(self, program: list) -> None:
        for k, instruction in enumerate(program):
            word = instruction.encode()
            for half in range(2):
                value = word >> 64 * half & ((1 << 64) - 1)
                answer = await self.write(INSTRUCTION_BASE + 16 * k + 8 * half, value)
                assert answer == AxiResp.OKAY

    async def start(self, *, stream: int, line: int, error: Error = Error.NONE) -> dict[str, int]:
        """Start a program with one write; its status when the interrupt says that it is done."""
        fields = {"start": 1, "stream": stream, "reserved": 0, "line": line}
        events = DONE if error is Error.NONE else DONE | ERROR
        enabled = self.random.choice((DONE, DONE | ERROR, events & ERROR))
        await self.enable(Register.INTERRUPT_ENABLE, enabled)
        self.interrupt.begins(error is not Error.NONE)
        await self.write(Register.CONTROL, pack_fields(CONTROL_FIELDS, fields))
        if not enabled:  # the bit is set all the same, and raises irq as soon as it may
            while not (await self.read(Register.INTERRUPT))[0]:
                pass
            await self.enable(Register.INTERRUPT_ENABLE, DONE)
        await self.interrupted()
        value, _ = await self.read(Register.STATUS)
        status = unpack_fields(STATUS_FIELDS, value)
        assert status["done"] and status["error"] == error, status
        self.interrupt.ended(error is not Error.NONE)
        await self._acknowledge(events)
        return status

    async def _acknowledge(self, events: int) -> None:
        """Clear bit by bit, after a write that clears nothing."""
        for bits in (0, ERROR, DONE):
            found, _ = await self.read(Register.INTERRUPT)
            assert found == events, f"INTERRUPT is {found:#b}, not {events:#b}"
            self.interrupt.check_read(found)
            await self.clear(Register.INTERRUPT, bits)
            events &= ~bits
        assert await self.read(Register.INTERRUPT) == (0, AxiResp.OKAY)


async def _host(dut: Any, external: np.ndarray, stall: float, seed: int) -> Host:
    Clock(dut.aclk, PERIOD_NS, "ns").start()
    # Every input has a value before the models write their own first ones.
    for wire in PARAMS.wires:
        if not wire.output:
            getattr(dut, wire.name).value = 0
    dut.aresetn.value = 0
    for _ in range(4):
        await RisingEdge(dut.aclk)
    dut.aresetn.value = 1
    # The models begin after the reset: none of their coroutines has to survive it.
    return Host(dut, external, stall, seed)


@cocotb.test
@cocotb.parametrize(stall=[0.0, 0.4], from_memory=[False, True])
async def gemms_behind_axi(dut: Any, stall: float, from_memory: bool) -> None:
    """Results are golden's, then a load beyond the memory stops with a bus error."""
    start = time.perf_counter()
    params = PARAMS.machine
    system = accelerator_of(params)
    sizes = dict(zip(("tokens", "inputs", "outputs"), GEMM, strict=True))
    options = sizes | {"mantissa": 5, "from_memory": from_memory}
    programs, memory = gemm_of(params, np.random.default_rng(JOB.seed), options)
    wanted = memory.copy()
    machine = system.machine(params, wanted)
    host = await _host(dut, memory, stall, JOB.seed)
    for program in programs:
        if from_memory:
            outcome = machine.run_stream(program)
            status = await host.start(stream=1, line=program)
        else:
            outcome = machine.run(program)
            status = await host.run(program)
        assert status["instruction"] == outcome.instruction, status
        for counter, count in outcome.counts.items():
            value, _ = await host.read(Register.COUNTERS + 8 * counter)
            assert value == count, f"{counter.name} is {value}, not {count}"
    require_memory(memory, wanted, params.line_bytes)
    lines, name = len(host.external), OWN.WEIGHTS
    status = await host.run(
        system.assemble(f"load {name}, row=0, rows=64, line={lines - 1}\nwait\nhalt"), Error.BUS
    )
    assert status["instruction"] == 0
    job.report(cases=1, seconds=time.perf_counter() - start)


@cocotb.test
async def high_addresses(dut: Any) -> None:
    """Every bit of a line's number, 0 and 1, is in the address of a load, a store and a fetch."""
    host = await _host(dut, np.zeros((64, PARAMS.line_bytes), np.uint8), 0.0, JOB.seed)
    system = accelerator_of(PARAMS.machine)
    moves = (f"load {OWN.WEIGHTS}", f"store {OWN.TENSORS}")
    for byte in (b"\x55", b"\xaa"):
        number = int.from_bytes(byte * 8, "little") % (1 << PARAMS.line_address_bits)
        for channel, lines in enumerate(host.lines):
            line = number // PARAMS.memory_channels * PARAMS.memory_channels + channel
            for move in moves:
                lines.asked.clear()
                text = f"{move}, row=0, rows=1, line={line}\nwait\nhalt"
                await host.run(system.assemble(text), Error.BUS)
                want = line // PARAMS.memory_channels * PARAMS.line_bytes
                assert lines.asked == [want], f"{text}: asked {lines.asked}, not {want}"
        host.code_lines.asked.clear()
        await host.start(stream=1, line=number, error=Error.BUS)
        asked, want = host.code_lines.asked, number * PARAMS.line_bytes
        assert asked[0] == want, f"a program was fetched from {asked[0]:#x}, not {want:#x}"


@cocotb.test
async def registers_are_the_map(dut: Any) -> None:
    """Every register of the map can be read, only those that the map says can be written."""
    host = await _host(dut, np.zeros((64, PARAMS.line_bytes), np.uint8), 0.0, JOB.seed)
    known = addresses(PARAMS.registers)
    last = INSTRUCTION_BASE + 16 * PARAMS.instructions - 8
    tried = (*range(0, 0x200, 8), INSTRUCTION_BASE - 8, INSTRUCTION_BASE, last)
    await host.check_map(known, (*tried, *[last + 8][: last < (1 << 16) - 8]))


@cocotb.test
async def refused_accesses(dut: Any) -> None:
    """Unknown and read-only registers, and partial writes; later accesses are answered."""
    host = await _host(dut, np.zeros((64, PARAMS.line_bytes), np.uint8), 0.0, JOB.seed)

    refusals: tuple[Callable[[], Awaitable[AxiResp]], ...] = (
        lambda: host.write(Register.STATUS, 1),
        lambda: host.response_of(0x40),
        lambda: host.write(Register.EVENTS, 1, size=1),
    )
    for refused in refusals:
        # Neither an answer before one that is refused stays, nor that one.
        assert await host.response_of(Register.IDENTITY) == AxiResp.OKAY
        assert await refused() == AxiResp.SLVERR
        assert await host.write(Register.EVENTS, 0) == AxiResp.OKAY
        assert await refused() == AxiResp.SLVERR
