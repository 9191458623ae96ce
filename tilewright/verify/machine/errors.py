"""Wrong instructions stop the machine with golden's code and number, and the next program runs."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from tilewright.golden.params.block import Field
from tilewright.golden.params.machine import OPCODE_BITS, Error
from tilewright.verify.machine.accelerators import accelerator_of, bench_side
from tilewright.verify.machine.check import check_program, check_stop
from tilewright.verify.machine.host import Host
from tilewright.verify.machine.wrong import BAD_LINE, empty_memory
from tilewright.verify.session import Session, system_test

LONG = 1000  # cases of a long run
OF_WORDS = {Error.OPCODE, Error.OPERAND, Error.SIZE, Error.MANTISSA, Error.ADDRESS}


@system_test
async def every_error(s: Session) -> None:
    """Every error once at least, and a right program after them; in long runs with each stall."""
    params, system, bad = s.params, accelerator_of(s.params), frozenset({BAD_LINE})
    for stall in s.job.stalls[: None if s.job.cases >= LONG else 1]:
        host = Host(s.clock, params, empty_memory(params), bad_lines=bad, stall=stall)
        await host.start()
        seen = set()
        for name, (program, error) in bench_side(params).wrong_programs(params).items():
            await check_stop(host, name, program, error, empty_memory(params), bad)
            seen.add(error)
            s.cases += 1
        assert seen == set(system.errors) - {Error.NONE, Error.WATCHDOG}
        status = await host.run_program(system.assemble("add s0, s0, #1\nhalt"))
        assert (status.error, status.instruction) == (Error.NONE, 1)


@system_test
async def last_rows_are_usable(s: Session) -> None:
    """The first row beyond a memory is an error, its last row is not.

    A program whose ranges end exactly where the memories do halts, with golden's results.
    """
    await check_program(s, bench_side(s.params).last_rows(s.params), empty_memory(s.params))


@system_test
async def random_words(s: Session) -> None:
    """Instructions of random fields, many at the ends of their ranges: each stops as in golden."""
    params, system, choose = s.params, accelerator_of(s.params), Random(s.job.seed)
    golden = system.machine(params, empty_memory(params))
    ends = [params.depth(memory) for memory in system.memory]
    host = Host(s.clock, params, empty_memory(params))
    await host.start()
    tried: dict[Error, int] = {}
    for _ in range(s.job.cases):
        word = _random_word(golden.INSTRUCTION.FIELDS, ends, choose)
        error = golden.verdict(word)
        if error is Error.NONE:
            continue  # valid instructions are tested elsewhere
        status = await host.run_program([word])
        got = (status.error, status.instruction)
        assert got == (error, 0), f"{word:#034x}: got {got}, expected {error!r} at 0"
        tried[error] = tried.get(error, 0) + 1
        s.cases += 1
    if s.job.cases >= 300:
        assert len(tried) >= len(OF_WORDS & set(system.errors)), f"only these came up: {tried}"


def _random_word(fields: Mapping[Any, Sequence[Field]], ends: Sequence[int], choose: Random) -> int:
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
