"""A GEMM from C: on a RISC-V processor that drives an accelerator, both as Verilog."""

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.base.errors import CheckError, CommandError
from tilewright.golden.params.machine import Error
from tilewright.golden.params.machine_axi import MachineAxiPorts
from tilewright.golden.params.resolve import resolve
from tilewright.hw.soc.line_memory import LEAST_LATENCY
from tilewright.studies.riscv.firmware import GemmImage, build_firmware
from tilewright.studies.riscv.system import system_verilog
from tilewright.studies.runs.simulation import DEFAULT, Simulation
from tilewright.verify.job import Job
from tilewright.verify.machine.accelerators import accelerator_of
from tilewright.verify.machine.workload import gemm_of
from tilewright.verify.simulators import default_simulator, run_bench

__all__ = ["RiscvGemm", "gemm_from_c"]

BENCH = "tilewright.verify.riscv"
LINES = 1024  # of the memory
LIMIT = 2_000_000  # cycles of the processor
MANTISSA = 5  # bits, of Anda


@dataclass(frozen=True)
class RiscvGemm:
    """What the firmware and golden say; all cycles are of the one clock."""

    block: str
    tokens: int
    inputs: int
    outputs: int
    latency: int  # of the memory
    stream: bool  # whether instructions came from memory
    firmware_bytes: int  # operands among them
    program_cycles: tuple[int, ...]  # as the accelerator counts each program, start to halt
    golden_cycles: tuple[int, ...]  # the same, predicted
    driver_cycles: int  # of the processor: load programs, start, wait, read the counter, print
    total_cycles: int  # of the processor, copying operands and reading the result among them
    result_hash: int  # of the result as the processor reads it
    equal: bool  # cycles and result are golden's; of memory, a difference is an error


def gemm_from_c(
    block: str = "anda:small",
    *,
    tokens: int = 4,
    inputs: int = 64,
    outputs: int = 32,
    latency: int = 20,
    stream: bool = False,
    simulation: Simulation = DEFAULT,
) -> RiscvGemm:
    """Run firmware that has ``block``, Anda or Harmonia, multiply random matrices.

    The memory afterwards is golden's byte for byte, or ``CheckError`` is raised.
    """
    params: Any = resolve(block)
    if params.block not in ("anda", "harmonia"):
        raise CommandError(f"the system takes a block anda or harmonia, not {params.block}")
    if latency < LEAST_LATENCY:
        raise CommandError(f"--latency must be at least {LEAST_LATENCY}, not {latency}")
    behind = resolve(params.block + "_axi" + block.removeprefix(params.block))
    assert isinstance(behind, MachineAxiPorts)
    options: dict[str, Any] = {"tokens": tokens, "inputs": inputs, "outputs": outputs}
    options |= {"from_memory": stream, "mantissa": MANTISSA, "latency": latency}
    programs, memory = gemm_of(params, np.random.default_rng(simulation.seed), options)
    if len(memory) > LINES * params.line_bytes:
        raise CommandError(
            f"the operands take {len(memory):,} bytes and the memory has"
            f" {LINES * params.line_bytes:,}; take a smaller GEMM"
        )
    wanted = memory.copy()
    expected = _golden(params, programs, wanted, latency)
    words = wanted.view("<u4")
    changed = np.flatnonzero(words != memory.view("<u4"))
    result = range(int(changed[0]), int(changed[-1]) + 1)
    firmware = build_firmware(GemmImage(block, memory, programs, result))
    top = f"riscv_{params.slug}"
    found = run_bench(
        system_verilog(behind, top, lines=LINES, latency=latency),
        top,
        BENCH,
        simulator=simulation.simulator or default_simulator(),
        job=Job(block, seed=simulation.seed).as_dict(),
        waves=simulation.waves,
        environment={"TILEWRIGHT_TASK": _task(firmware, wanted)},
    )
    if found.failure is not None:
        raise CheckError(found.failure)
    said = _values(found.numbers["said"])
    if found.numbers["code"]:
        raise CheckError(f"the firmware ended with code {found.numbers['code']}: {said}")
    ours = _hash(words[result.start : result.stop].tolist())
    counted, hashed = tuple(said["program"]), said["result"][0]
    return RiscvGemm(
        block,
        tokens,
        inputs,
        outputs,
        latency,
        stream,
        firmware.nbytes,
        counted,
        expected,
        said["driver"][0],
        found.numbers["cycles"],
        hashed,
        counted == expected and hashed == ours,
    )


def _golden(params: Any, programs: list[Any], memory: np.ndarray, latency: int) -> tuple[int, ...]:
    """Run the programs on the golden machine, which changes ``memory``; the cycles of each."""
    system, cycles = accelerator_of(params), []
    machine = system.machine(params, memory)
    for program in programs:
        streams = isinstance(program, int)
        outcome = machine.run_stream(program) if streams else machine.run(program)
        assert outcome.error is Error.NONE, f"golden stops with {outcome.error.name}"
        times = system.program_cycles(params, outcome, latency)
        cycles.append(times[system.counter["CYCLES"]])
    return tuple(cycles)


def _task(firmware: np.ndarray, memory: np.ndarray) -> str:
    return json.dumps(
        {
            "firmware": firmware.tobytes().hex(),
            "memory": memory.tobytes().hex(),
            "limit": LIMIT,
        }
    )


def _values(said: str) -> dict[str, list[int]]:
    """What the firmware printed: words, each with a hexadecimal number behind it."""
    values: dict[str, list[int]] = {}
    for name, value in re.findall(r"^(\w+) ([0-9a-f]{8})$", said, re.MULTILINE):
        values.setdefault(name, []).append(int(value, 16))
    return values


def _hash(words: list[int]) -> int:
    """As the firmware computes it."""
    found = 2166136261
    for word in words:
        found = (found ^ word) * 16777619 & 0xFFFFFFFF
    return found
