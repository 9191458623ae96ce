"""C to an image of the processor's memory, by a cross compiler for RISC-V."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.machine.instruction import BaseInstruction
from tilewright.hw.soc.system import FIRMWARE_BYTES, Base
from tilewright.studies.driver_header import driver_header
from tilewright.verify.simulators.find import MissingToolError

__all__ = ["GemmImage", "build_firmware", "find_cross_compiler"]

SOURCES = Path(__file__).parent / "src"
PREFIXES = ("riscv64-unknown-elf-", "riscv32-unknown-elf-", "riscv-none-elf-")
FLAGS = (
    *("-march=rv32im", "-mabi=ilp32", "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror"),
    # No loop becomes a call of memcpy, which is nowhere.
    *("-ffreestanding", "-nostdlib", "-fno-tree-loop-distribute-patterns", "-fno-pic"),
)
ROOM = 8 * 1024  # bytes of the firmware that are not operands, its stack included


@dataclass(frozen=True)
class GemmImage:
    """A GEMM for the firmware: what its memory has at first, and what to run."""

    block: str  # the accelerator, such as anda:small
    memory: NDArray[np.uint8]
    programs: list[Any]  # of instructions; or lines of the memory, from where they stream
    result: range  # words of the memory that the firmware reads at the end


def find_cross_compiler() -> str:
    """The compiler's path: ``$TILEWRIGHT_RISCV_GCC`` where set, else the first on PATH."""
    chosen = os.environ.get("TILEWRIGHT_RISCV_GCC")
    for name in [chosen] if chosen else [f"{prefix}gcc" for prefix in PREFIXES]:
        if path := shutil.which(name):
            return path
    missing = f"TILEWRIGHT_RISCV_GCC: no compiler {chosen!r}" if chosen else "no GCC for RISC-V"
    raise MissingToolError(f"{missing}; to get one: apt-get install gcc-riscv64-unknown-elf")


def build_firmware(gemm: GemmImage) -> NDArray[np.uint32]:
    """The words of the processor's memory, from its start on."""
    if len(gemm.memory) + ROOM > FIRMWARE_BYTES:
        most = FIRMWARE_BYTES - ROOM
        raise CommandError(
            f"the operands take {len(gemm.memory):,} bytes and the firmware holds {most:,};"
            " take a smaller GEMM"
        )
    compiler = find_cross_compiler()
    with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
        folder = Path(name)
        (folder / "driver.h").write_text(driver_header(gemm.block))
        (folder / "gemm.h").write_text(_gemm_header(gemm))
        script = _constants() + (SOURCES / "firmware.ld").read_text()
        (folder / "firmware.ld").write_text(script)
        files = [str(SOURCES / "start.S"), str(SOURCES / "main.c")]
        words = [*FLAGS, "-I.", *files, "-T", "firmware.ld", "-o", "firmware.elf"]
        _run([compiler, *words], folder)
        copier = compiler.removesuffix("gcc") + "objcopy"
        _run([copier, "-O", "binary", "firmware.elf", "firmware.bin"], folder)
        content = (folder / "firmware.bin").read_bytes()
    return np.frombuffer(content + bytes(-len(content) % 4), "<u4")


def _run(words: list[str], folder: Path) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        ending = "\n  ".join((done.stdout + done.stderr).strip().splitlines()[-10:])
        raise CommandError(f"{Path(words[0]).name} refused the firmware:\n  {ending}")


def _constants() -> str:
    """Of the linker script."""
    addresses = [f"{base.name}_BASE = {int(base):#x};\n" for base in Base]
    return "".join([*addresses, f"FIRMWARE_BYTES = {FIRMWARE_BYTES:#x};\n"])


def _gemm_header(gemm: GemmImage) -> str:
    name = gemm.block.partition(":")[0]
    image = np.frombuffer(gemm.memory.tobytes() + bytes(-len(gemm.memory) % 4), "<u4")
    lines = [
        '#include "driver.h"',
        f"#define DRIVER(name) {name}_##name",
        f"#define CODE(name) {name.upper()}_##name",
        *(f"#define {base.name}_BASE {int(base):#x}u" for base in Base),
        f"#define IMAGE_WORDS {len(image)}u",
        f"#define PROGRAMS {len(gemm.programs)}u",
        f"#define RESULT_WORD {gemm.result.start}u",
        f"#define RESULT_WORDS {len(gemm.result)}u",
        _array("uint32_t", "image", image.tolist()),
    ]
    if all(isinstance(program, int) for program in gemm.programs):
        lines += ["#define STREAMS", _array("uint32_t", "program_lines", gemm.programs)]
    else:
        lines += [
            _array("uint64_t", "instructions", _halves(gemm.programs), "ull"),
            _array("uint32_t", "lengths", [len(program) for program in gemm.programs]),
        ]
    return "\n".join([*lines, ""])


def _halves(programs: Iterable[Iterable[BaseInstruction]]) -> list[int]:
    """Every instruction as two words of 64 bits, the low one first."""
    words = [instruction.encode() for program in programs for instruction in program]
    return [word >> shift & ((1 << 64) - 1) for word in words for shift in (0, 64)]


def _array(kind: str, name: str, values: Iterable[int], suffix: str = "u") -> str:
    body = ", ".join(f"{value:#x}{suffix}" for value in values)
    return f"static const {kind} {name}[] = {{{body}}};"
