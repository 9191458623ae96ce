"""Programs from external memory, loops and the watchdog."""

from typing import Any

import cocotb

from tilewright.verify.machine.streams import check_bad_code, check_streams, check_watchdog

__all__ = ["bad_code", "memory_without_answers", "streamed_programs"]


@cocotb.test
async def streamed_programs(dut: Any) -> None:
    await check_streams(dut, "fp16")


@cocotb.test
async def bad_code(dut: Any) -> None:
    await check_bad_code(dut)


@cocotb.test
async def memory_without_answers(dut: Any) -> None:
    await check_watchdog(dut, "fp16")
