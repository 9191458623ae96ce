"""Compiled steps of a language model: prompts, tokens, batches, heads."""

from typing import Any

import cocotb

from tilewright.verify.machine.models import check_models

__all__ = ["steps_of_a_model"]


@cocotb.test
async def steps_of_a_model(dut: Any) -> None:
    await check_models(dut)
