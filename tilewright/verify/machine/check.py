"""One program on the accelerator and on the golden machine: memory, events, counters, cycles."""

from typing import Any

import numpy as np

from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.machine import Error, Register
from tilewright.verify.machine.accelerators import accelerator_of
from tilewright.verify.machine.host import Host
from tilewright.verify.session import Session

LATENCIES = (1, 4, 30)  # cycles of the memory, in turn


async def check_program(
    s: Session,
    program: list,
    memory: np.ndarray,
    *,
    seed: int | None = None,
    stall: float = 0.0,
    stream: bool = False,
    line: int | None = None,
) -> dict:
    """Check a program that halts; without stalls, cycle for cycle. Returns its counters.

    ``seed``, by default the job's, decides the memory's latency and stalls. With ``stream`` the
    program is written to external memory, after ``memory``; with ``line`` it lies there already.
    """
    params, system = s.params, accelerator_of(s.params)
    seed = s.job.seed if seed is None else seed
    if stream:
        line = len(memory) // params.line_bytes
        memory = np.concatenate([memory, program_lines(params, program)])
    memory, wanted = memory.copy(), memory.copy()
    machine = system.machine(params, wanted)
    outcome = machine.run(program) if line is None else machine.run_stream(line)
    assert outcome.error is Error.NONE, f"golden stops with {outcome.error.name}"
    latency = LATENCIES[seed % len(LATENCIES)]
    host = Host(s.clock, params, memory, latency=latency, stall=stall, seed=seed)
    await host.start()
    status = await (host.run_program(program) if line is None else host.run_stream(line))
    assert (status.error, status.instruction) == (Error.NONE, outcome.instruction), (
        f"ended with {status.error.name} at instruction {status.instruction},"
        f" expected a halt at {outcome.instruction}"
    )
    require_memory(memory, wanted, params.line_bytes)
    saturated = await host.read(Register.EVENTS)
    assert saturated == outcome.saturated, f"saturated is {saturated}, not {outcome.saturated}"
    expected = dict(outcome.counts)
    if not stall:
        expected |= system.program_cycles(params, outcome, latency)
    counters = await host.counters()
    wrong = {c.name: (counters[c], want) for c, want in expected.items() if counters[c] != want}
    assert not wrong, f"counters (got, expected): {wrong}"
    return counters


def require_memory(memory: np.ndarray, wanted: np.ndarray, line_bytes: int) -> None:
    """Require every byte of external memory to be as wanted."""
    different = np.flatnonzero(memory != wanted)
    if not len(different):
        return
    first = int(different[0])
    raise AssertionError(
        f"{len(different)} bytes differ, the first at {first:#x} (line {first // line_bytes}):"
        f" got {memory[first]:#04x}, expected {wanted[first]:#04x}"
    )


async def check_stop(
    host: Host, name: str, program: list, error: Any, memory: np.ndarray, bad_lines: frozenset[int]
) -> None:
    """Check that golden and the accelerator stop with ``error`` at the same instruction."""
    system = accelerator_of(host.params)
    golden = system.machine(host.params, memory, bad_lines).run(program)
    assert golden.error is error, f"{name}: golden says {golden.error.name}"
    # Instructions of an earlier, longer program must not be reached.
    status = await host.run_program(program)
    got, want = (status.error, status.instruction), (golden.error, golden.instruction)
    assert got == want, f"{name}: got {got}, expected {want}"
