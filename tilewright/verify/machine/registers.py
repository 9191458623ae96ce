"""Registers: what they hold, what they refuse, and that a program's counters start at zero."""

import numpy as np

from tilewright.golden.params.machine import INSTRUCTION_BASE, SCALARS, Error, Register
from tilewright.verify.machine.accelerators import accelerator_of, bench_side
from tilewright.verify.machine.host import Host
from tilewright.verify.session import Session, system_test


@system_test
async def registers_hold_and_refuse(s: Session) -> None:
    params = s.params
    system, own = accelerator_of(params), bench_side(params)
    assemble, counter = system.assemble, system.counter
    rng = np.random.default_rng(s.job.seed)
    host = Host(s.clock, params, np.zeros(64 * params.line_bytes, np.uint8))
    await host.start()
    identity = await host.read(Register.IDENTITY)
    assert identity == params.rows | params.columns << 8 | params.group << 16 | SCALARS << 24
    status = await host.status()
    assert not status.busy and not status.done

    # The instruction memory keeps both halves of every word, up to its end.
    places = [0, 1, params.instructions - 1]
    words = {16 * k + 8 * half: int(rng.integers(1 << 63)) for k in places for half in range(2)}
    for offset, word in words.items():
        await host.write(INSTRUCTION_BASE + offset, word)
    for offset, word in words.items():
        assert await host.read(INSTRUCTION_BASE + offset) == word

    beyond = INSTRUCTION_BASE + 16 * params.instructions
    refused = [
        (Register.IDENTITY, 1),
        (Register.STATUS, 1),
        (Register.COUNTERS, 1),
        (Register.COUNTERS + 8 * len(counter), None),
        (0x40, None),
        (Register.CONTROL + 1, 1),
        (INSTRUCTION_BASE + 4, None),
    ]
    if beyond < 1 << 16:
        refused += [(beyond, None), (beyond, 1)]
    for address, value in refused:
        _, error = await host.access(address, value)
        assert error, f"access to {address:#x} was not refused"

    # A program at work cannot be changed or started again.
    moves = [f"load {own.TENSORS}, row={k}, rows=4, line=0" for k in range(20)]
    program = assemble("\n".join([*moves, "halt"]))
    await host.load_program(program)
    await host.write(Register.CONTROL, 0)
    assert not (await host.status()).busy
    await host.write(Register.CONTROL, 1)
    for address, value in ((Register.CONTROL, 1), (INSTRUCTION_BASE, 0), (INSTRUCTION_BASE, None)):
        _, error = await host.access(address, value)
        assert error, f"access to {address:#x} while a program runs was not refused"
    assert (await host.status()).busy
    while (await host.status()).busy:
        pass
    first = await host.counters()
    assert first[counter["INSTRUCTIONS"]] == 21 and first[counter["LINES_READ"]] >= 20

    status = await host.run_program(assemble("halt"))
    assert (status.error, status.instruction) == (Error.NONE, 0)
    counters = await host.counters()
    assert counters[counter["INSTRUCTIONS"]] == 1 and counters[counter["LINES_READ"]] == 0

    # An infinity that is converted is remembered until it is forgiven.
    assert await host.read(Register.EVENTS) == 0
    await host.run_program(assemble(own.OVERFLOW + "halt"))
    assert await host.read(Register.EVENTS) == 1
    await host.run_program(assemble("halt"))
    assert await host.read(Register.EVENTS) == 1
    await host.write(Register.EVENTS, 1)
    assert await host.read(Register.EVENTS) == 0
