"""Programs from external memory: loops, lengths, late and bad lines, and the watchdog.

Programs are random: vector operations and moves, within loops or not, longer than the instruction
memory; each halts as on golden, and without stalls in as many cycles.
"""

from random import Random
from typing import Any

import numpy as np

from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.machine import Error, Register
from tilewright.verify.machine.accelerators import accelerator_of, bench_side
from tilewright.verify.machine.check import check_program
from tilewright.verify.machine.host import Host
from tilewright.verify.session import Session, system_test

LINES = 64  # of external memory, without the program


def random_program(params: Any, name: str, choose: Random, length: int) -> str:
    """About ``length`` instructions of text; loops of several levels, some of a single line.

    ``name`` is the memory whose rows are moved; one of its rows takes a line at most.
    """
    moves = getattr(params, "beat_words", 1) == 1  # else tensors begin at some rows only
    lines = [f"load {name}, row=0, rows=64, line=0"]  # an earlier program may have left others
    while len(lines) < length:
        depth = choose.choice((0, 0, 1, 2, 3))
        for level in range(depth):
            strides = ", ".join(f"i{k}={choose.randrange(-1, 3)}" for k in range(1, 4))
            lines.append(f"loop count={choose.randrange(1, 4)}, {strides}")
            lines += [
                _plain(name, choose, moves) for _ in range(choose.randrange(2 if level else 3))
            ]
        lines += [_plain(name, choose, moves) for _ in range(choose.randrange(1, 6))]
        for _ in range(depth):
            lines.append("end")
            lines += [_plain(name, choose, moves) for _ in range(choose.randrange(2))]
            # Instructions after an inner loop, before the outer loop ends.
    return "\n".join([*lines, "halt"])


def _plain(name: str, choose: Random, moves: bool) -> str:
    index = choose.choice(("", "+i1", "+i2", "+i3"))
    of_tensor = index if moves else ""
    return choose.choice(
        (
            f"load {name}, row=16{index}, rows={choose.randrange(1, 4)}, line=16{index}",
            f"store {name}, row=20{index}, rows={choose.randrange(1, 3)}, line=40{index}",
            f"largest s{choose.randrange(8)}, r16{of_tensor}, elements={choose.randrange(1, 9)}",
            f"add s{choose.randrange(8)}, s{choose.randrange(8)}, #1.5",
        )
    )


@system_test
async def streamed_programs(s: Session) -> None:
    """Short ones and some that are several times as long as the instruction memory."""
    params, system = s.params, accelerator_of(s.params)
    choose, rng = Random(s.job.seed), np.random.default_rng(s.job.seed)
    memory = rng.integers(0, 256, LINES * params.line_bytes, np.uint8)
    lengths = (1, 5, 3 * params.instructions) if params.instructions <= 256 else (1, 60)
    for case, length in enumerate(lengths):
        text = random_program(params, bench_side(params).TENSORS, choose, length)
        program = system.assemble(text)
        for stall in (0.0, 0.4):
            for stream in (True, False) if len(program) <= params.instructions else (True,):
                seed = s.job.seed + case
                await check_program(s, program, memory, seed=seed, stall=stall, stream=stream)
        s.cases += 1


@system_test
async def bad_code(s: Session) -> None:
    """A line of instructions that is bad stops the program where it is reached, not before."""
    params, system = s.params, accelerator_of(s.params)
    each = params.line_instructions
    program = system.assemble("add s0, s0, #1\n" * (3 * each - 1) + "halt")
    memory = program_lines(params, program)
    for bad in range(4):  # the last one is after the halt
        host = Host(s.clock, params, memory, bad_lines=frozenset({bad}))
        await host.start()
        golden = system.machine(params, memory, {bad}).run_stream(0)
        for _ in range(2):  # the second start follows the state that the first has left
            status = await host.run_stream(0)
            assert (status.error, status.instruction) == (golden.error, golden.instruction)
        assert golden.error is (Error.BUS if bad < 3 else Error.NONE)
    # The memory ends after a program that does not.
    golden = system.machine(params, memory[: 2 * params.line_bytes]).run_stream(0)
    assert (golden.error, golden.instruction) == (Error.BUS, 2 * each)


@system_test
async def memory_without_answers(s: Session) -> None:
    """A memory that never answers stops the program, and nothing starts before a reset."""
    params, system = s.params, accelerator_of(s.params)
    limit, name = 1000, bench_side(params).TENSORS
    # A load in the foreground, one that a wait needs, a store, and a line of instructions.
    code = program_lines(params, system.assemble("add s0, s0, #1\nhalt"))
    memory = np.zeros(LINES * params.line_bytes, np.uint8)
    memory[: len(code)] = code
    for text, number in (
        (f"add s0, s0, #1\nload {name}, row=0, rows=1, line=5\nhalt", 1),
        (f"store {name}, row=0, rows=1, line=5\nhalt", 0),
        (None, 0),
    ):
        lost = frozenset({5} if text else {0})
        host = Host(s.clock, params, memory, lost_lines=lost)
        await host.start()
        assert await host.read(Register.LIMIT) == 1 << 20
        await host.write(Register.LIMIT, limit)
        if text is None:
            status = await host.run_stream(0, limit=10 * limit)
        else:
            status = await host.run_program(system.assemble(text), limit=10 * limit)
        assert (status.error, status.instruction) == (Error.WATCHDOG, number), f"{text}: {status}"
        assert not status.busy
        cycles = await host.read(Register.COUNTERS)
        assert limit <= cycles < limit + 100, f"stopped after {cycles} cycles"
        _, refused = await host.access(Register.CONTROL, 1)
        assert refused, "started without a reset"
    # After a reset programs run, also long ones with a limit that is short but not too short.
    host = Host(s.clock, params, memory)
    await host.start()
    await host.write(Register.LIMIT, 60)
    status = await host.run_program(
        system.assemble(f"largest s0, r0, elements=100\nload {name}, row=0, rows=9, line=0\nhalt")
    )
    assert (status.error, status.instruction) == (Error.NONE, 2)
