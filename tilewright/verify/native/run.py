"""Whole programs on an accelerator whose memory and host are C++, also against golden."""

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CheckError
from tilewright.golden.machine.instruction import BaseInstruction
from tilewright.golden.machine.moves import LATENCY, Latency, timing_of
from tilewright.golden.params.machine import Error
from tilewright.golden.params.resolve import resolve
from tilewright.verify.machine.accelerators import accelerator_of
from tilewright.verify.native.build import NativeModel, build_native
from tilewright.verify.simulators.run import SimulationError

LIMIT = 20_000_000  # cycles of one program
PATIENCE = 4_000_000  # above the accelerator's own watchdog, which names the error


@dataclass(frozen=True, kw_only=True)
class NativeMemory:
    """How the external memory answers.

    ``latency`` is how many cycles after a request, or a written line, its answer is offered; or it
    is the timing of DRAM, without ``rate`` and ``stall``. With ``rate`` (n, of), every channel
    offers lines in n of so many cycles. With ``stall``, the probability that a side waits, answers
    are also late, in any order, drawn from ``seed``. Lines beyond the memory, and ``bad_lines``,
    are answered with an error, ``lost_lines`` never.
    """

    latency: Latency = LATENCY
    rate: tuple[int, int] = (1, 1)
    stall: float = 0.0
    seed: int = 1
    bad_lines: frozenset[int] = frozenset()
    lost_lines: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        timing = timing_of(self.latency)
        if timing.latency < 1:
            raise ValueError(f"latency must be at least 1, not {timing.latency!r}")
        if timing.dram is not None and (self.stall or self.rate != (1, 1)):
            raise ValueError("DRAM has a rate of its own and does not stall")
        if not 0 <= self.stall <= 0.95:
            raise ValueError(f"stall must be 0..0.95, not {self.stall!r}")

    def options(self) -> dict[str, Any]:
        """As the simulation program takes them."""
        count, of = self.rate
        timing = timing_of(self.latency)
        dram = timing.dram
        return {
            "latency": timing.latency,
            "dram": ",".join(map(str, (*astuple(dram), timing.clock))) if dram else "",
            "rate": count,
            "rate_of": of,
            "stall": self.stall,
            "most_late": round(20 * self.stall),
            "seed": self.seed,
            "bad_lines": ",".join(map(str, sorted(self.bad_lines))),
            "lost_lines": ",".join(map(str, sorted(self.lost_lines))),
        }


@dataclass(frozen=True)
class NativeEnding:
    """How a program ended, and what the accelerator has counted."""

    error: Error
    instruction: int
    saturated: bool
    counters: dict[str, int]


@dataclass(frozen=True)
class NativeRun:
    """Programs that ran one after the other without a reset; the memory has what they left."""

    endings: tuple[NativeEnding, ...]
    cycles: int  # of the simulation, those of the host among them
    seconds: float


def run_native(
    model: NativeModel,
    programs: Sequence[int | Sequence[BaseInstruction]],
    memory: NDArray[np.uint8],
    answers: NativeMemory | None = None,
    *,
    limit: int = LIMIT,
    patience: int = PATIENCE,
    watchdog: int | None = None,
    tell: Callable[[int], None] | None = None,
) -> NativeRun:
    """Run ``programs``; ``memory`` is changed in place.

    A program is a line of the memory from where it streams, or instructions, which go into the
    instruction memory. ``watchdog`` is the accelerator's own limit of cycles without progress.
    One that takes more than ``limit`` cycles, or in which nothing moves for ``patience`` cycles,
    raises ``CheckError``. ``tell`` hears the cycles so far, once a second.
    """
    options = (answers or NativeMemory()).options() | {"limit": limit, "patience": patience}
    if watchdog is not None:
        options["watchdog"] = watchdog
    if tell is not None:
        options["show"] = 1
    with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
        folder = Path(name)
        image = folder / "memory"
        memory.tofile(image)
        words = [f"{key}={value}" for key, value in options.items() if value != ""]
        for number, program in enumerate(programs):
            if isinstance(program, int):
                words.append(f"stream={program}")
            else:
                path = folder / f"program{number}"
                path.write_bytes(b"".join(i.encode().to_bytes(16, "little") for i in program))
                words.append(f"words={path}")
        result = _run([str(model.program), str(image), *words], tell)
        memory[:] = np.fromfile(image, np.uint8)
    if result["verdict"] is not None:
        raise CheckError(result["verdict"])
    counters = [c.name.lower() for c in accelerator_of(resolve(model.block)).counter]
    endings = tuple(
        NativeEnding(
            Error(ending["error"]),
            ending["instruction"],
            bool(ending["events"] & 1),
            dict(zip(counters, ending["counters"], strict=True)),
        )
        for ending in result["programs"]
    )
    return NativeRun(endings, result["cycles"], result["seconds"])


def _run(command: list[str], tell: Callable[[int], None] | None) -> dict[str, Any]:
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        said = []
        for line in process.stderr:
            if tell is not None and line.strip().isdecimal():
                tell(int(line))
            else:
                said.append(line)
        out = process.stdout.read()
    if process.returncode:
        ending = "\n  ".join("".join(said).strip().splitlines()[-5:]) or "nothing printed"
        raise SimulationError(f"the simulation died (exit code {process.returncode}):\n  {ending}")
    result: dict[str, Any] = json.loads(out)
    return result


@dataclass(frozen=True)
class CheckedProgram:
    """A program that did what golden does."""

    counters: dict[str, int]
    golden_cycles: int  # with a memory whose channels bring lines in all cycles


def run_as_golden(
    block: str,
    programs: Sequence[int | Sequence[BaseInstruction]],
    memory: NDArray[np.uint8],
    answers: NativeMemory,
) -> list[CheckedProgram]:
    """Run ``programs`` as :func:`run_native` does.

    Any difference from golden raises ``CheckError``.

    Golden does not know channels that pause or stall: then only counts are compared, and no program
    is faster than golden's.
    """
    params: Any = resolve(block)
    system, wanted = accelerator_of(params), memory.copy()
    machine = system.machine(params, wanted)
    timed = answers.rate == (1, 1) and not answers.stall
    found = []
    endings = run_native(build_native(block), programs, memory, answers).endings
    for number, (program, ending) in enumerate(zip(programs, endings, strict=True)):
        outcome = machine.run_stream(program) if isinstance(program, int) else machine.run(program)
        got, want = (ending.error, ending.instruction), (outcome.error, outcome.instruction)
        if got != want or outcome.error is not Error.NONE:
            raise CheckError(f"program {number} ended with {got}, golden with {want}")
        times = system.program_cycles(params, outcome, answers.latency)
        expected = outcome.counts | (times if timed else {})
        golden_cycles = times[system.counter["CYCLES"]]
        labels = {counter.name.lower(): value for counter, value in expected.items()}
        wrong = {k: (ending.counters[k], v) for k, v in labels.items() if ending.counters[k] != v}
        if wrong or ending.counters["cycles"] < golden_cycles:
            raise CheckError(
                f"program {number}: counters (got, expected) {wrong}, golden {golden_cycles} cycles"
            )
        found.append(CheckedProgram(ending.counters, golden_cycles))
    if not np.array_equal(memory, wanted):
        raise CheckError("memory is not golden's")
    return found
