"""Wrong instructions stop the machine with golden's code and number, and the next program runs."""

import time
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import cocotb

from tilewright.golden.params.block import Field
from tilewright.golden.params.machine import OPCODE_BITS, Error
from tilewright.verify import job
from tilewright.verify.machine.accelerators import accelerator_of, bench_side
from tilewright.verify.machine.check import check_program, check_stop
from tilewright.verify.machine.host import Host
from tilewright.verify.machine.wrong import BAD_LINE, empty_memory
from tilewright.verify.streams import Harness

LONG = 1000  # cases of a long run


@cocotb.test
async def every_error(dut: Any) -> None:
    """Every error once at least, and a right program after them; in long runs with each stall."""
    asked, start = job.load(), time.perf_counter()
    params, clock, cycles = asked.params, Harness(dut), 0
    system, bad = accelerator_of(params), frozenset({BAD_LINE})
    for stall in asked.stalls[: None if asked.cases >= LONG else 1]:
        host = Host(clock, params, empty_memory(params), bad_lines=bad, stall=stall)
        await host.start()
        seen = set()
        for name, (program, error) in bench_side(params).wrong_programs(params).items():
            await check_stop(host, name, program, error, empty_memory(params), bad)
            seen.add(error)
        assert seen == set(system.errors) - {Error.NONE, Error.WATCHDOG}
        status = await host.run_program(system.assemble("add s0, s0, #1\nhalt"))
        assert (status.error, status.instruction) == (Error.NONE, 1)
        cycles += clock.cycle
    job.report(cases=len(seen), cycles=cycles, seconds=time.perf_counter() - start)


@cocotb.test
async def last_rows_are_usable(dut: Any) -> None:
    """Ends are errors from the first row behind them on, not before.

    A program whose ranges end exactly where the memories do halts, with golden's results.
    """
    asked = job.load()
    params = asked.params
    program, memory = bench_side(params).last_rows(params), empty_memory(params)
    await check_program(Harness(dut), params, program, memory, seed=asked.seed, stall=0.0)


@cocotb.test
async def random_words(dut: Any) -> None:
    """Instructions of random fields, many at the ends of their ranges: each stops as in golden."""
    asked, start = job.load(), time.perf_counter()
    params, clock = asked.params, Harness(dut)
    own, choose = bench_side(params), Random(asked.seed)
    host = Host(clock, params, empty_memory(params))
    await host.start()
    tried: dict[Error, int] = {}
    for _ in range(asked.cases):
        word = _random_word(own.instruction_fields, own.ends(params), choose)
        error = own.check_word(params, word)
        if error is Error.NONE:
            continue  # what right instructions do is tested elsewhere
        status = await host.run_program([word])
        got = (status.error, status.instruction)
        assert got == (error, 0), f"{word:#034x}: got {got}, expected {error!r} at 0"
        tried[error] = tried.get(error, 0) + 1
    if asked.cases >= 300:
        assert len(tried) >= own.kinds_of_errors, f"only these errors came up: {tried}"
    job.report(cases=sum(tried.values()), cycles=clock.cycle, seconds=time.perf_counter() - start)


def _random_word(
    fields: Mapping[Any, Sequence[Field]], ends: tuple[int, ...], choose: Random
) -> int:
    """An instruction word; a field is small, near an end of a memory, or anything."""
    word, shift = choose.randrange(1 << OPCODE_BITS), OPCODE_BITS
    declared = {int(opcode): found for opcode, found in fields.items()}
    for field in declared.get(word, ()):
        value = choose.choice(
            (
                choose.randrange(1 << field.bits),
                choose.randrange(4),
                choose.choice(ends) - choose.randrange(40),
                choose.randrange(1, 40),
            )
        )
        word |= (value & ((1 << field.bits) - 1)) << shift
        shift += field.bits
    return word
