"""Compiled steps of a language model: prompts, tokens, batches, heads; caches in several parts."""

from typing import Any

import cocotb

from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.verify import job
from tilewright.verify.machine.models import check_models

__all__ = ["steps_of_a_model", "steps_over_parts_of_a_cache"]


@cocotb.test
async def steps_of_a_model(dut: Any) -> None:
    await check_models(dut)


@cocotb.test
async def steps_over_parts_of_a_cache(dut: Any) -> None:
    """Parts as short as they can be."""
    await check_models(dut, part=job.load().params_as(HarmoniaParams).group)
