"""A program on the simulated Anda accelerator, beside the golden machine.

Without ``--program`` it is a transformer block with random weights and heavy-tailed activations.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.console import print_json, print_table, progress
from tilewright.errors import CommandError

if TYPE_CHECKING:
    import numpy as np

    from golden.anda_system.isa import Instruction
    from golden.params.anda_system import AndaParams

BENCH = "tilewright.bench.program.run"
DEFAULT_BLOCK = "anda:small"  # the paper's size takes minutes to build
LIMIT = 20_000_000  # cycles
EMPTY_LINES = 1024  # of the external memory where none is given


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("anda", f"a program, on {DEFAULT_BLOCK} without --block")
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
    import numpy as np

    from golden.anda_system.cycles import program_cycles
    from golden.anda_system.executor import Machine
    from golden.params.anda_system import AndaParams, Error
    from golden.params.resolve import resolve

    spec = args.on or DEFAULT_BLOCK
    params = resolve(spec)
    if not isinstance(params, AndaParams):
        raise CommandError(f"anda runs on a block anda, not {params.block}")
    if args.latency < 1:
        raise CommandError(f"latency must be at least 1, not {args.latency}")
    program, memory = _given(args, params) if args.program else _block(args, params)
    if len(program) > params.instructions:
        raise CommandError(
            f"{len(program)} instructions do not fit the {params.instructions} of {params.slug}"
        )
    with progress("anda", 2) as tick:
        tick("golden", steps=0)
        wanted = memory.copy()
        outcome = Machine(params, wanted).run(program)
        tick("simulation")
        got, numbers, failure = _simulate(args, spec, params, program, memory)
        tick()
    if failure is not None:
        print(failure)
        return 1
    expected = dict(outcome.counts)
    if outcome.error is Error.NONE:
        expected |= program_cycles(params, outcome, args.latency)
    status = {"error": outcome.error.name.lower(), "instruction": outcome.instruction}
    model = {counter.name.lower(): value for counter, value in expected.items()}
    halted = outcome.error is Error.NONE
    equal = np.array_equal(got, wanted) and numbers["status"] == status
    if halted:
        equal &= numbers["saturated"] == outcome.saturated
        equal &= all(numbers["counters"][name] == value for name, value in model.items())
    if args.save:
        np.savez(args.save, memory=got)
    result = {
        "block": params.slug,
        "program": str(args.program) if args.program else "transformer block",
        "instructions": len(program),
        "status": numbers["status"],
        "saturated": numbers["saturated"],
        "equal": bool(equal),
        "counters": numbers["counters"],
        "golden": model if halted else {},
    }
    print_json(result) if args.json else _print(result)
    return 0 if equal and halted else 1


def _given(
    args: argparse.Namespace, params: "AndaParams"
) -> tuple[list["Instruction"], "np.ndarray"]:
    import numpy as np

    from golden.anda_system.assembler import AssemblyError, assemble

    try:
        program = assemble(args.program.read_text())
    except OSError as problem:
        raise CommandError(f"{args.program}: {problem.strerror}") from None
    except AssemblyError as problem:
        raise CommandError(f"{args.program}, {problem}") from None
    if args.memory is None:
        return program, np.zeros(EMPTY_LINES * params.line_bytes, np.uint8)
    try:
        with np.load(args.memory) as given:
            if "memory" not in given:
                raise CommandError(f"{args.memory} has no array 'memory'")
            memory = given["memory"]
    except OSError as problem:
        raise CommandError(f"{args.memory}: {problem.strerror}") from None
    if memory.dtype != np.uint8 or memory.ndim != 1 or len(memory) % params.line_bytes:
        raise CommandError(f"{args.memory}: memory must be bytes, whole lines of 64")
    return program, memory


def _block(
    args: argparse.Namespace, params: "AndaParams"
) -> tuple[list["Instruction"], "np.ndarray"]:
    """A block of a size that fits the buffers."""
    import numpy as np

    from golden.anda_system.block import transformer_block

    if args.memory:
        raise CommandError("--memory goes with --program")
    width = 3 * params.group // 2
    block = transformer_block(
        params,
        np.random.default_rng(args.seed),
        tokens=params.rows,
        width=width,
        hidden=2 * width,
    )
    return block.builder.program, block.memory


def _simulate(
    args: argparse.Namespace,
    spec: str,
    params: "AndaParams",
    program: list["Instruction"],
    memory: "np.ndarray",
) -> tuple["np.ndarray", dict[str, Any], str | None]:
    import numpy as np

    from tilewright.bench.job import Job
    from tilewright.simulators import default_simulator, run_bench
    from tilewright.simulators.verilog import block_verilog

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
        print("\na value saturated in compression")
