"""Whole GEMMs and a head of attention on an accelerator, with transfers, cycle for cycle.

``TILEWRIGHT_TASK`` has the memory's latency, GEMMs (sizes and options of the accelerator's
``TiledGemm``) and whether a head of attention follows them. Programs of a GEMM run one after the
other without a reset; memory and counters are golden's. The report has the cycles of each.
"""

import json
import os
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import cocotb
import numpy as np

from tilewright.golden.anda_machine.block import heavy_tailed
from tilewright.golden.params.harmonia_machine import Dataflow
from tilewright.golden.params.machine import Error
from tilewright.golden.weights import quantise
from tilewright.verify import job
from tilewright.verify.machine.accelerators import accelerator_of
from tilewright.verify.machine.check import require_memory
from tilewright.verify.machine.host import Host
from tilewright.verify.streams import Harness

__all__ = ["gemms"]


@cocotb.test
async def gemms(dut: Any) -> None:
    asked, task = job.load(), json.loads(os.environ["TILEWRIGHT_TASK"])
    params, clock, start = asked.params, Harness(dut), time.perf_counter()
    cycles = [
        await _run(clock, params, programs, memory, task["latency"])
        for programs, memory in _work(params, task, asked.seed)
    ]
    job.report(
        cases=len(cycles),
        cycles=sum(cycles),
        seconds=time.perf_counter() - start,
        program_cycles=cycles,
    )


def _work(params: Any, task: dict[str, Any], seed: int) -> Iterator[tuple[list, np.ndarray]]:
    rng = np.random.default_rng(seed)
    gemm_type = import_module(f"tilewright.golden.{params.block}_machine.tiled_gemm").TiledGemm
    for options in task["gemms"]:
        if "dataflow" in options:
            options["dataflow"] = Dataflow(options["dataflow"])
        gemm = gemm_type(params=params, **options)
        values = heavy_tailed(rng, gemm.tokens, gemm.inputs)
        weights = rng.standard_normal((gemm.outputs, gemm.inputs))
        group = -(-gemm.inputs // params.group) * params.group
        yield gemm.programs(), gemm.memory(values, quantise(weights, 4, group=group))
    if task["attention"]:
        from tilewright.golden.harmonia_machine.attention import random_attention

        builder = random_attention(params, seed).builder
        yield [builder.program], builder.memory


async def _run(
    clock: Harness, params: Any, programs: list, memory: np.ndarray, latency: int
) -> int:
    """Cycles of all programs together."""
    system, wanted = accelerator_of(params), memory.copy()
    machine = system.machine(params, wanted)
    host = Host(clock, params, memory, latency=latency)
    await host.start()
    total = 0
    for number, program in enumerate(programs):
        outcome = machine.run(program)
        assert outcome.error is Error.NONE, f"golden stops with {outcome.error.name}"
        status = await host.run_program(program)
        assert status.error is Error.NONE, f"program {number} stops with {status}"
        expected = outcome.counts | system.program_cycles(params, outcome, latency)
        counters = await host.counters()
        wrong = {c.name: (counters[c], want) for c, want in expected.items() if counters[c] != want}
        assert not wrong, f"program {number}, counters (got, expected): {wrong}"
        total += counters[system.counter["CYCLES"]]
    require_memory(memory, wanted, params.line_bytes, None)
    return total
