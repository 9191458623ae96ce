"""A program on a simulated accelerator, beside the golden machine.

Without ``--program`` it is one of the accelerator's own: a transformer block of Anda's with random
weights, a head of attention and a linear layer of Harmonia's.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError

if TYPE_CHECKING:
    import numpy as np

    from tilewright.golden.machine.instruction import BaseInstruction

BENCH = "tilewright.verify.machine.run"
PRESET = "small"  # the paper's sizes take minutes to build
LIMIT = 20_000_000  # cycles
EMPTY_LINES = 1024  # of the external memory where none is given


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "anda, harmonia", f"a program, on the preset {PRESET} without --block"
    )
    group.add_argument("--program", type=Path, metavar="FILE", help="assembly text")
    group.add_argument(
        "--memory",
        type=Path,
        metavar="FILE.npz",
        help="external memory: an array 'memory' of bytes",
    )
    group.add_argument(
        "--save", type=Path, metavar="FILE.npz", help="write the external memory after the program"
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.golden.params.resolve import resolve

    spec = args.on or f"{args.block}:{PRESET}"
    params = resolve(spec)
    if params.block != args.block:
        raise CommandError(f"{args.block} runs on a block {args.block}, not {params.block}")
    if args.latency < 1:
        raise CommandError(f"latency must be at least 1, not {args.latency}")
    program, memory = _given(args, params) if args.program else _own(args, params)
    with progress(args.block, 1) as tick:
        tick("simulation", steps=0)
        done = run_program(args, spec, program, memory)
        tick()
    if done is None:
        return 1
    got, result = done
    if args.save:
        import numpy as np

        np.savez(args.save, memory=got)
    result["program"] = str(args.program) if args.program else OWN[args.block]
    print_json(result) if args.json else _print(result)
    return 0 if result["equal"] and result["status"]["error"] == "none" else 1


def run_program(
    args: argparse.Namespace, spec: str, program: list["BaseInstruction"], memory: "np.ndarray"
) -> tuple["np.ndarray", dict[str, Any]] | None:
    """The memory that the simulated accelerator leaves, and how its run compares with golden's.

    ``equal`` holds for memory, status and, of a program that halts, events, counters and cycles.
    A bench that fails is told on the spot; the result is None then.
    """
    import numpy as np

    from tilewright.golden.params.machine import Error
    from tilewright.golden.params.resolve import resolve
    from tilewright.verify.machine.accelerators import accelerator_of

    params: Any = resolve(spec)
    system = accelerator_of(params)
    if len(program) > params.instructions:
        raise CommandError(
            f"{len(program)} instructions do not fit the {params.instructions} of {params.slug}"
        )
    wanted = memory.copy()
    outcome = system.machine(params, wanted).run(program)
    got, numbers, failure = _simulate(args, spec, params, program, memory)
    if failure is not None:
        print(failure)
        return None
    expected = dict(outcome.counts)
    halted = outcome.error is Error.NONE
    if halted:
        expected |= system.program_cycles(params, outcome, args.latency)
    status = {"error": outcome.error.name.lower(), "instruction": outcome.instruction}
    model = {counter.name.lower(): value for counter, value in expected.items()}
    equal = np.array_equal(got, wanted) and numbers["status"] == status
    if halted:
        equal &= numbers["saturated"] == outcome.saturated
        equal &= all(numbers["counters"][name] == value for name, value in model.items())
    return got, {
        "block": params.slug,
        "instructions": len(program),
        "status": numbers["status"],
        "saturated": numbers["saturated"],
        "equal": bool(equal),
        "counters": numbers["counters"],
        "golden": model if halted else {},
    }


def _given(args: argparse.Namespace, params: Any) -> tuple[list["BaseInstruction"], "np.ndarray"]:
    import numpy as np

    from tilewright.golden.machine.assembly import AssemblyError
    from tilewright.verify.machine.accelerators import accelerator_of

    system = accelerator_of(params)
    try:
        program = system.assemble(args.program.read_text())
    except OSError as problem:
        raise CommandError(f"{args.program}: {problem.strerror}") from None
    except AssemblyError as problem:
        raise CommandError(f"{args.program}, {problem}") from None
    hazard = system.first_hazard(params, program)
    if hazard:
        raise CommandError(f"{args.program}: {hazard}")
    if args.memory is None:
        return program, np.zeros(EMPTY_LINES * params.line_bytes, np.uint8)
    try:
        given = np.load(args.memory)
    except FileNotFoundError as problem:
        raise CommandError(f"{args.memory}: {problem.strerror}") from None
    except (OSError, ValueError, EOFError, BadZipFile):  # by what numpy takes it for
        given = None
    if not isinstance(given, np.lib.npyio.NpzFile):
        raise CommandError(f"{args.memory} is no .npz file")
    with given:
        if "memory" not in given:
            raise CommandError(f"{args.memory} has no array 'memory'")
        memory = given["memory"]
    if memory.dtype != np.uint8 or memory.ndim != 1 or len(memory) % params.line_bytes:
        raise CommandError(f"{args.memory}: memory must be bytes, whole lines of 64")
    return program, memory


OWN = {"anda": "transformer block", "harmonia": "head of attention"}


def _own(args: argparse.Namespace, params: Any) -> tuple[list["BaseInstruction"], "np.ndarray"]:
    """A program of a size that fits the memories."""
    if args.memory:
        raise CommandError("--memory goes with --program")
    if params.block == "anda":
        import numpy as np

        from tilewright.golden.anda_machine.block import transformer_block

        width = 3 * params.group // 2
        builder = transformer_block(
            params,
            np.random.default_rng(args.seed),
            tokens=params.rows,
            width=width,
            hidden=2 * width,
        ).builder
        return builder.program, builder.memory
    from tilewright.golden.harmonia_machine.attention import random_attention

    builder = random_attention(params, args.seed).builder
    return builder.program, builder.memory


def _simulate(
    args: argparse.Namespace,
    spec: str,
    params: Any,
    program: list["BaseInstruction"],
    memory: "np.ndarray",
) -> tuple["np.ndarray", dict[str, Any], str | None]:
    import numpy as np

    from tilewright.verify.job import Job
    from tilewright.verify.simulators import default_simulator, run_bench
    from tilewright.verify.simulators.verilog import block_verilog

    words = [instruction.encode() for instruction in program]
    halves = [[word & ((1 << 64) - 1), word >> 64] for word in words]
    with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
        folder = Path(name)
        np.savez(
            folder / "task.npz",
            memory=memory,
            program=np.array(halves, np.uint64).reshape(-1, 2),
        )
        task = {"folder": name, "latency": args.latency, "limit": LIMIT}
        result = run_bench(
            block_verilog(spec),
            params.slug,
            BENCH,
            simulator=args.simulator or default_simulator(),
            job=Job(spec, 1, args.seed, stalls=(0.0,)).as_dict(),
            waves=args.waves,
            environment={"TILEWRIGHT_TASK": json.dumps(task)},
        )
        if not result.passed:
            return memory, {}, result.failure
        return np.load(folder / "memory.npy"), result.numbers, None


def _print(result: dict[str, Any]) -> None:
    status = result["status"]
    ending = "halted" if status["error"] == "none" else f"stopped with error {status['error']}"
    verdict = "as golden does" if result["equal"] else "NOT as golden does"
    print(
        f"{result['program']} on {result['block']}:"
        f" {ending} at instruction {status['instruction']}, {verdict}\n"
    )
    print_table(
        ("COUNTER", "VALUE", "GOLDEN"),
        [
            (name, f"{value:,}", f"{result['golden'][name]:,}" if name in result["golden"] else "-")
            for name, value in result["counters"].items()
        ],
    )
    if result["saturated"]:
        print("\na value saturated in conversion")
