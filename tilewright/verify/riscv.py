"""A processor with an accelerator (``tilewright.hw.soc.system``) that runs its firmware.

``TILEWRIGHT_TASK`` has the words of the firmware and what the memory must hold at the end, each as
hexadecimal bytes. The report has what the firmware printed, its exit code and its cycles.
"""

import json
import os
import time
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

from tilewright.golden.params.machine import MachineParams
from tilewright.hw.soc.system import Base
from tilewright.verify import job
from tilewright.verify.machine.check import require_memory
from tilewright.verify.streams import PERIOD_NS

__all__ = ["firmware_runs"]


class _Host:
    """In the place of the processor, before and after it runs."""

    def __init__(self, dut: Any):
        self.dut = dut

    async def access(self, address: int, word: int | None = None) -> int:
        dut = self.dut
        dut.host__address.value = address
        dut.host__data.value = word or 0
        dut.host__strobes.value = 0 if word is None else 15
        dut.host__valid.value = 1
        while True:
            await FallingEdge(dut.clk)
            if int(dut.host__ready.value):
                break
        found = int(dut.host__answer.value)
        await RisingEdge(dut.clk)
        dut.host__valid.value = 0
        return found


@cocotb.test
async def firmware_runs(dut: Any) -> None:
    task, params = json.loads(os.environ["TILEWRIGHT_TASK"]), job.load().params_as(MachineParams)
    start = time.perf_counter()
    Clock(dut.clk, PERIOD_NS, "ns").start()
    for name in ("run", "host__valid", "host__address", "host__data", "host__strobes"):
        getattr(dut, name).value = 0
    dut.rst.value = 1
    for _ in range(4):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    host = _Host(dut)
    for k, word in enumerate(np.frombuffer(bytes.fromhex(task["firmware"]), "<u4")):
        await host.access(Base.FIRMWARE + 4 * k, int(word))
    dut.run.value = 1
    said, cycles = bytearray(), 0
    while not int(dut.exited.value):
        await FallingEdge(dut.clk)
        cycles += 1
        assert not int(dut.trap.value), f"the processor trapped after {bytes(said)!r}"
        assert cycles < task["limit"], f"no end after {cycles:,} cycles: {bytes(said)!r}"
        if int(dut.console_valid.value):
            said.append(int(dut.console.value))
    assert not int(dut.refused.value), f"an access was refused after {bytes(said)!r}"
    dut.run.value = 0
    await RisingEdge(dut.clk)
    wanted = np.frombuffer(bytes.fromhex(task["memory"]), np.uint8)
    words = [await host.access(Base.MEMORY + 4 * k) for k in range(len(wanted) // 4)]
    found = np.array(words, "<u4").view(np.uint8)
    require_memory(found, wanted, params.line_bytes, None)
    job.report(
        cases=1,
        cycles=cycles,
        seconds=time.perf_counter() - start,
        said=said.decode("ascii"),
        code=int(dut.code.value),
    )
