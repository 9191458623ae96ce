"""A program on a simulated accelerator and on the golden machine.

Where none is given, it is a decoder layer with random weights: one token of each of some sequences.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tilewright.base.console import progress
from tilewright.base.errors import CommandError
from tilewright.compiler.machine import machine_of
from tilewright.compiler.sizes import Step
from tilewright.golden.llm.tiny import tiny_model
from tilewright.golden.machine.assembly import AssemblyError, instruction_lines
from tilewright.golden.machine.instruction import BaseInstruction
from tilewright.golden.machine.moves import LATENCY, Latency, timing_of
from tilewright.golden.machine.port import memory_timing
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.machine import Error
from tilewright.golden.params.resolve import resolve
from tilewright.sim.accelerator import BUILT
from tilewright.studies.runs.simulation import DEFAULT, Simulation, resolve_block
from tilewright.verify.machine.accelerators import accelerator_of
from tilewright.verify.machine.model_workload import ModelWork, layer_shape
from tilewright.verify.native import NativeMemory, build_native, run_native

BENCH = "tilewright.verify.machine.run"
PRESET = "small"  # the paper's sizes take minutes to build
LIMIT = 20_000_000  # cycles
EMPTY_LINES = 1024  # of the external memory where none is given
OWN = "decoder layer"
SEQUENCES = 4  # of the decoder layer, at most

Memory: TypeAlias = NDArray[np.uint8]
Program: TypeAlias = Sequence[BaseInstruction]


@dataclass(frozen=True)
class ProgramRun:
    """A program that ran on the simulated accelerator, compared with the golden machine."""

    program: str
    block: str
    instructions: int
    streamed: bool  # from external memory; the others are in the instruction memory
    status: dict[str, Any]  # the error, or ``none``, and the instruction it ended at
    saturated: bool  # whether a value saturated in conversion
    equal: bool  # memory, status and, of a program that halts, events, counters and cycles
    counters: dict[str, int]
    golden_counters: dict[str, int]  # the same counters of the golden machine, none without a halt

    @property
    def halted(self) -> bool:
        """Whether the program came to its end without an error."""
        return bool(self.status["error"] == "none")


def program_on_machine(
    machine: str,
    block: str | None = None,
    *,
    program: Path | None = None,
    memory: Path | None = None,
    latency: int | None = None,
    dram: str | None = None,
    stream: bool = False,
    simulation: Simulation = DEFAULT,
) -> tuple[Memory, ProgramRun]:
    """Run a program on ``machine``, which is ``anda`` or ``harmonia``.

    ``block`` is by default its preset ``small``. ``program`` is a file of assembly text and
    ``memory`` an ``.npz`` file with an array ``memory`` of bytes, by default zeros; without a
    program the accelerator's own runs. Its timing is that of ``dram`` by name, or flat with
    ``latency``. With ``stream``, and always where the instruction memory is
    too small for it, the program lies in external memory after everything else. Returns the memory
    after the program, and its result.
    """
    block = block or f"{machine}:{PRESET}"
    params = resolve_block(block, machine, machine)
    if memory and not program:
        raise CommandError("--memory goes with --program")
    if program:
        instructions, content = _read_program(params, program), _read_memory(params, memory)
    else:
        instructions, content = own_program(params, simulation.seed)
    name = str(program) if program else OWN
    with progress(machine) as tick:
        tick("simulation", steps=0)
        timing = timing_at(params, dram, latency)
        options: dict[str, Any] = {"latency": timing, "stream": stream, "simulation": simulation}
        done = run_program(name, block, instructions, content, **options)
        tick()
    return done


def run_program(
    name: str,
    block: str,
    program: Program,
    memory: Memory,
    *,
    latency: Latency = LATENCY,
    stream: bool = False,
    simulation: Simulation = DEFAULT,
) -> tuple[Memory, ProgramRun]:
    """Return the memory that the simulated accelerator leaves, and how its run compares.

    ``name`` is what the result calls the program; ``latency`` is that of the memory, in cycles.
    The program is fetched from external memory with ``stream``, or if it does not fit the
    instruction memory.
    """
    params: Any = resolve(block)
    accelerator = accelerator_of(params)
    streamed = stream or len(program) > params.instructions
    size, line = len(memory), len(memory) // params.line_bytes
    if streamed:
        memory = np.concatenate([memory, program_lines(params, program)])
    wanted = memory.copy()
    machine = accelerator.machine(params, wanted)
    outcome = machine.run_stream(line) if streamed else machine.run(program)
    start = line if streamed else program
    got, numbers = simulate_program(block, start, memory, latency, simulation)
    expected = dict(outcome.counts)
    halted = outcome.error is Error.NONE
    if halted:
        expected |= accelerator.program_cycles(params, outcome, latency)
    status = {"error": outcome.error.name.lower(), "instruction": outcome.instruction}
    model = {counter.name.lower(): value for counter, value in expected.items()}
    equal = np.array_equal(got, wanted) and numbers["status"] == status
    if halted:
        equal &= numbers["saturated"] == outcome.saturated
        equal &= all(numbers["counters"][counter] == value for counter, value in model.items())
    return got[:size], ProgramRun(
        program=name,
        block=params.slug,
        instructions=len(program),
        streamed=streamed,
        status=numbers["status"],
        saturated=numbers["saturated"],
        equal=bool(equal),
        counters=numbers["counters"],
        golden_counters=model if halted else {},
    )


def timing_at(params: Any, memory: str | None, latency: int | None) -> Latency:
    """Timing of a memory by name at an accelerator with its published clock."""
    return memory_timing(memory, latency, params, BUILT[params.block](params).clock)


def _read_program(params: Any, path: Path) -> Program:
    accelerator = accelerator_of(params)
    try:
        text = path.read_text()
        program: Program = accelerator.assemble(text)
    except OSError as problem:
        raise CommandError(f"{path}: {problem.strerror}") from None
    except AssemblyError as problem:
        raise CommandError(f"{path}, {problem}") from None
    hazard = accelerator.first_hazard(params, program)
    if hazard:
        number = instruction_lines(text)[hazard.instruction]
        raise CommandError(f"{path}, line {number}: {hazard.reason}")
    return program


def _read_memory(params: Any, path: Path | None) -> Memory:
    if path is None:
        return np.zeros(EMPTY_LINES * params.line_bytes, np.uint8)
    try:
        given = np.load(path)
    except FileNotFoundError as problem:
        raise CommandError(f"{path}: {problem.strerror}") from None
    except (OSError, ValueError, EOFError, BadZipFile):  # by what numpy takes it for
        given = None
    if not isinstance(given, np.lib.npyio.NpzFile):
        raise CommandError(f"{path} is no .npz file")
    with given:
        if "memory" not in given:
            raise CommandError(f"{path} has no array 'memory'")
        memory: Memory = given["memory"]
    if memory.dtype != np.uint8 or memory.ndim != 1 or len(memory) % params.line_bytes:
        raise CommandError(f"{path}: memory must be bytes, whole lines of {params.line_bytes}")
    return memory


def own_program(params: Any, seed: int) -> tuple[Program, Memory]:
    """Return the program of a decoder layer, and its external memory."""
    machine = machine_of(params)
    model = tiny_model(seed=seed, config=layer_shape(machine))
    lengths = dict(enumerate(range(min(params.rows, SEQUENCES))))
    work = ModelWork(machine, model, context=SEQUENCES, sequences=len(lengths), seed=seed)
    for sequence, tokens in lengths.items():
        work.feed(sequence, tokens)
    memory = work.memory
    return work.step(Step.batch(lengths)).program.instructions, memory


def simulate_program(
    block: str, program: Program | int, memory: Memory, latency: Latency, simulation: Simulation
) -> tuple[Memory, dict[str, Any]]:
    """Return the memory that a program leaves, and its status, events and counters.

    It runs from the instruction memory, or from a line of the external memory.
    """
    if simulation.host == "native":
        return _simulate_natively(block, program, memory, latency, simulation)
    line = program if isinstance(program, int) else None
    words = [] if isinstance(program, int) else [x.encode() for x in program]
    halves = np.array([[word & ((1 << 64) - 1), word >> 64] for word in words], np.uint64)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
        folder = Path(name)
        np.savez(folder / "task.npz", memory=memory, program=halves.reshape(-1, 2))
        timing = timing_of(latency)
        task = {"folder": name, "latency": timing.latency, "limit": LIMIT, "line": line}
        if timing.dram is not None:
            task |= {"dram": asdict(timing.dram), "clock": timing.clock}
        numbers = simulation.run(block, BENCH, cases=1, stalls=(0.0,), task=task)
        return np.load(folder / "memory.npy"), numbers


def _simulate_natively(
    block: str, program: Program | int, memory: Memory, latency: Latency, simulation: Simulation
) -> tuple[Memory, dict[str, Any]]:
    memory = memory.copy()
    with progress(block) as tick:
        tick("building the simulation", steps=0)
        model, answers = build_native(block), NativeMemory(latency=latency, seed=simulation.seed)
        tick("simulation", steps=0)

        def tell(cycles: int) -> None:
            tick(f"{cycles:,} cycles", steps=0)

        run = run_native(model, [program], memory, answers, limit=LIMIT, tell=tell)
        tick()
    (ending,) = run.endings
    return memory, {
        "cycles": run.cycles,
        "seconds": run.seconds,
        "status": {"error": ending.error.name.lower(), "instruction": ending.instruction},
        "saturated": ending.saturated,
        "counters": ending.counters,
    }
