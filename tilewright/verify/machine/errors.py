"""Wrong instructions on any accelerator: golden's code and number, and the next program runs."""

import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from tilewright.golden.params.block import Field
from tilewright.golden.params.machine import OPCODE_BITS, Error
from tilewright.golden.params.vector import OPERATION_BITS
from tilewright.verify import job
from tilewright.verify.machine.accelerators import accelerator_of
from tilewright.verify.machine.check import check_program, check_stop
from tilewright.verify.machine.host import Host
from tilewright.verify.streams import Harness

__all__ = [
    *("BAD_LINE", "LINES", "check_errors", "check_last_rows", "check_random_words"),
    *("empty_memory", "stopping_programs"),
]

LINES = 64  # of external memory
BAD_LINE = 5
Programs = dict[str, tuple[list, Error]]  # by what is wrong with them: program, error


def stopping_programs(
    params: Any,
    texts: Mapping[str, tuple[str, Error]],
    changed: Mapping[str, tuple[Any, str, int]],
    harmless: str,
) -> Programs:
    """Programs of ``texts``; instructions with a wrong field; words that are none; no halt.

    ``changed`` has an instruction, a field and its wrong value; ``harmless`` is an instruction.
    """
    system = accelerator_of(params)
    (halt,) = system.assemble("halt")
    programs: Programs = {
        name: ([*system.assemble(text), halt], error) for name, (text, error) in texts.items()
    }
    (reduction,) = system.assemble("largest s0, r0, elements=4")
    wrong_fields = {
        "unknown operation": (reduction, "operation", (1 << OPERATION_BITS) - 1),
        "kind 3": (reduction, "a_kind", 3),
        "reduction of a scalar": (reduction, "a_kind", 1),
        **changed,
    }
    for name, (instruction, field, value) in wrong_fields.items():
        wrong = type(instruction)(instruction.opcode, instruction.fields | {field: value})
        programs[name] = [wrong], Error.OPERAND
    inner = "loop count=2\n" * 4 + "add s0, s0, #1\n" + "end\n" * 4
    programs["loop within three"] = system.assemble(inner), Error.LOOP
    crossing = "loop count=2, body=2\nloop count=2, body=2\nadd s0, s0, #1\nhalt"
    programs["loop that crosses another"] = system.assemble(crossing), Error.LOOP
    for name, fields in (
        ("no iterations", "count=0, body=1"),
        ("no body", "count=1, body=1"),
        ("a long body", f"count=1, body={params.longest_loop + 1}"),
    ):
        (loop,) = system.assemble(f"loop {fields}")
        wrong = {"body": 0} if name == "no body" else {}
        loop = type(loop)(loop.opcode, loop.fields | wrong)
        programs[f"loop with {name}"] = [loop, halt], Error.SIZE
    far = f"loop count=3, i1={1 << 14}\nlargest s0, r0+i1, elements=4\nend\nhalt"
    programs["index beyond the memory"] = system.assemble(far), Error.ADDRESS
    programs["empty memory"] = [0], Error.OPCODE
    programs["opcode 15"] = [15], Error.OPCODE
    programs["no halt"] = system.assemble(harmless) * params.instructions, Error.END
    return programs


async def check_errors(dut: Any, wrong_programs: Callable[[Any], Programs]) -> None:
    """Every error once at least, and a right program after them."""
    asked, start = job.load(), time.perf_counter()
    params, clock = asked.params, Harness(dut)
    system, bad = accelerator_of(params), frozenset({BAD_LINE})
    host = Host(clock, params, empty_memory(params), bad_lines=bad)
    await host.start()
    seen = set()
    for name, (program, error) in wrong_programs(params).items():
        await check_stop(host, name, program, error, empty_memory(params), bad)
        seen.add(error)
    assert seen == set(system.errors) - {Error.NONE, Error.WATCHDOG}
    status = await host.run_program(system.assemble("add s0, s0, #1\nhalt"))
    assert (status.error, status.instruction) == (Error.NONE, 1)
    job.report(cases=len(seen), cycles=clock.cycle, seconds=time.perf_counter() - start)


async def check_last_rows(dut: Any, program: Callable[[Any], list]) -> None:
    """A program whose ranges end exactly where the memories do halts, with golden's results."""
    asked = job.load()
    params = asked.params
    await check_program(
        Harness(dut), params, program(params), empty_memory(params), seed=asked.seed, stall=0.0
    )


async def check_random_words(
    dut: Any,
    check: Callable[[Any, int], Error],
    fields: Mapping[Any, Sequence[Field]],
    ends: Callable[[Any], tuple[int, ...]],
    kinds: int,
) -> None:
    """Instructions of random fields, many at the ends of their ranges: each stops as in golden.

    ``check`` is golden's word on a word, ``ends`` the sizes of the memories; of many words at least
    ``kinds`` errors must come.
    """
    asked, start = job.load(), time.perf_counter()
    params, clock = asked.params, Harness(dut)
    choose = Random(asked.seed)
    host = Host(clock, params, empty_memory(params))
    await host.start()
    tried: dict[Error, int] = {}
    for _ in range(asked.cases):
        word = _random_word(fields, ends(params), choose)
        error = check(params, word)
        if error is Error.NONE:
            continue  # what right instructions do is tested elsewhere
        status = await host.run_program([word])
        got = (status.error, status.instruction)
        assert got == (error, 0), f"{word:#034x}: got {got}, expected {error!r} at 0"
        tried[error] = tried.get(error, 0) + 1
    if asked.cases >= 300:
        assert len(tried) >= kinds, f"only these errors came up: {tried}"
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


def empty_memory(params: Any) -> np.ndarray:
    """Return the external memory of programs that stop."""
    return np.zeros(LINES * params.line_bytes, np.uint8)
