"""An accelerator on a serial line (``tilewright.hw.soc.serial_system``) that runs a stream.

``TILEWRIGHT_TASK`` has the memory before and after, each as hexadecimal bytes, the line where the
stream begins, and the cycles of a bit.
"""

import json
import os
import time
from collections.abc import Iterable
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge

from tilewright.golden.params.machine import MachineParams, Register
from tilewright.hw.soc.serial_system import REGION_BITS, Region
from tilewright.verify import job
from tilewright.verify.machine.check import require_memory
from tilewright.verify.streams import PERIOD_NS

LIMIT = 3000  # times that the host asks whether the stream is done


class _Host:
    """The other end of the line."""

    def __init__(self, dut: Any, divider: int):
        self.dut, self.divider = dut, divider

    async def _send(self, values: Iterable[int]) -> None:
        for value in values:
            for bit in (0, *(value >> k & 1 for k in range(8)), 1):
                self.dut.rx.value = bit
                await ClockCycles(self.dut.clk, self.divider)

    async def _receive(self, count: int) -> bytes:
        found = bytearray()
        for _ in range(count):
            while int(self.dut.tx.value):
                await FallingEdge(self.dut.clk)
            await ClockCycles(self.dut.clk, self.divider // 2)
            value = 0
            for k in range(8):
                await ClockCycles(self.dut.clk, self.divider)
                value |= int(self.dut.tx.value) << k
            await ClockCycles(self.dut.clk, self.divider)
            assert int(self.dut.tx.value), "a byte without its stop bit"
            found.append(value)
        return bytes(found)

    async def write(self, region: Region, offset: int, word: int) -> None:
        address = (region << REGION_BITS) + offset
        await self._send(b"W" + address.to_bytes(4, "little") + word.to_bytes(4, "little"))
        assert await self._receive(1) == b"W"

    async def read(self, region: Region, offset: int) -> int:
        address = (region << REGION_BITS) + offset
        await self._send(b"R" + address.to_bytes(4, "little"))
        return int.from_bytes(await self._receive(4), "little")


@cocotb.test
async def stream_runs(dut: Any) -> None:
    task, params = json.loads(os.environ["TILEWRIGHT_TASK"]), job.load().params_as(MachineParams)
    start = time.perf_counter()
    Clock(dut.clk, PERIOD_NS, "ns").start()
    dut.rx.value, dut.rst.value = 1, 1
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 4)
    host = _Host(dut, task["divider"])
    before = np.frombuffer(bytes.fromhex(task["before"]), "<u4")
    for k, word in enumerate(before):
        if word:  # it begins with zeros
            await host.write(Region.MEMORY, 4 * k, int(word))
    control = 1 | 1 << 1 | task["line"] << 8
    for half in range(2):
        word = control >> 32 * half & 0xFFFFFFFF
        await host.write(Region.REGISTERS, Register.CONTROL + 4 * half, word)
    for _ in range(LIMIT):
        status = await host.read(Region.REGISTERS, Register.STATUS)
        if status >> 1 & 1:
            break
    assert status & 0b111111 == 0b10, f"the stream did not end well: status {status:#x}"
    assert not await host.read(Region.REFUSED, 0), "an access was refused"
    wanted = np.frombuffer(bytes.fromhex(task["after"]), np.uint8)
    words = [await host.read(Region.MEMORY, 4 * k) for k in range(len(wanted) // 4)]
    require_memory(np.array(words, "<u4").view(np.uint8), wanted, params.line_bytes)
    job.report(cases=1, cycles=len(words), seconds=time.perf_counter() - start)
