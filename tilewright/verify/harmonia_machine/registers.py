"""Registers: what they hold, what they refuse, and that a program's counters start at zero."""

from typing import Any

import cocotb

from tilewright.verify.machine.registers import check_registers

__all__ = ["registers_hold_and_refuse"]


@cocotb.test
async def registers_hold_and_refuse(dut: Any) -> None:
    await check_registers(
        dut,
        move="load mantissas, row={k}, rows=4, line=0",
        overflow="add r0, r0, #inf, elements=1\n"
        "convert activations, source=0, destination=0, elements=1",
    )
