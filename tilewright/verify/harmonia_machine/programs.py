"""Random programs and whole products: memory, events, counters and cycles are golden's."""

import time
from typing import Any

import cocotb
import numpy as np

from tilewright.golden.harmonia import traffic
from tilewright.golden.harmonia_machine.attention import heavy_tailed
from tilewright.golden.harmonia_machine.builder import Builder
from tilewright.golden.harmonia_machine.executor import Machine
from tilewright.golden.harmonia_machine.isa import TileLines
from tilewright.golden.params.harmonia_machine import Dataflow, HarmoniaParams, Memory
from tilewright.golden.weights import quantise
from tilewright.verify import job
from tilewright.verify.harmonia_machine.workload import random_program
from tilewright.verify.machine.check import check_program
from tilewright.verify.machine.host import Host
from tilewright.verify.streams import Harness

__all__ = ["external_memory_accesses", "random_programs"]

CASES_PER_PROGRAM = 100  # a program stands for so many of the cases asked for


@cocotb.test
async def random_programs(dut: Any) -> None:
    asked = job.load()
    params, clock = asked.params_as(HarmoniaParams), Harness(dut)
    cycles, start = 0, time.perf_counter()
    runs = [
        (stall, k)
        for stall in asked.stalls
        for k in range(max(1, asked.cases // CASES_PER_PROGRAM))
    ]
    for done, (stall, k) in enumerate(runs, 1):
        seed = 1000 * asked.seed + k
        b = random_program(params, seed)
        try:
            await check_program(clock, params, b.program, b.memory, seed=seed, stall=stall)
        except AssertionError as problem:
            raise AssertionError(
                f"{params.slug}, program {k}, stall {stall:g}: {problem}"
            ) from None
        cycles += clock.cycle
        job.report(cases=done, cycles=cycles, seconds=time.perf_counter() - start)


@cocotb.test
async def external_memory_accesses(dut: Any) -> None:
    """Elements that the port asks for, counted line by line, are those of the paper's formulas."""
    params, clock = job.load().params_as(HarmoniaParams), Harness(dut)
    rng = np.random.default_rng(job.load().seed)
    # Four groups fill whole lines; the last tiles that stay are fewer than ``keep``.
    token_tiles, groups, tiles, keep = 3, 4, 5, 2
    tokens, inputs = token_tiles * params.rows, groups * params.group
    outputs = tiles * params.columns
    weights = quantise(rng.standard_normal((outputs, inputs)), 4, group=inputs)
    for dataflow in Dataflow:
        b = Builder(params)
        source = b.place_activations(heavy_tailed(rng, tokens, inputs))
        b.tiled_gemm(source, tokens, weights, dataflow, keep)
        b.halt()
        memory, wanted = b.memory, b.memory
        Machine(params, wanted).run(b.program)
        host = Host(clock, params, memory)
        await host.start()
        await host.run_program(b.program)
        assert np.array_equal(memory, wanted), f"{dataflow.name}: the result is not golden's"
        sizes = TileLines.of(params, groups)
        placed = next(x["weights"] for x in b.program if "weights" in x.fields)
        a_lines = params.lines(Memory.MANTISSAS, groups)
        b_lines = params.lines(Memory.OPERANDS, groups)
        elements = 0
        for line in host.requested:
            if line >= placed:
                if (line - placed) % sizes.weights < b_lines:
                    elements += params.columns * inputs // b_lines
            elif (line - source) % sizes.source < a_lines:
                elements += params.rows * inputs // a_lines
        column_major = dataflow is Dataflow.COLUMN_MAJOR
        product = traffic.TiledShape(
            tokens,
            inputs,
            outputs,
            tile_rows=params.rows * (1 if column_major else keep),
            tile_columns=params.columns * (keep if column_major else 1),
        )
        want = product.accesses(dataflow)
        assert elements == want, f"{dataflow.name}: {elements} elements, the formula says {want}"
