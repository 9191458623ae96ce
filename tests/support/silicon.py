"""Instructions of the processor that runs the tests, where it has them: AMX, FMA that flushes."""

import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SOURCE = Path(__file__).with_name("amx.c")
FMA_SOURCE = Path(__file__).with_name("fma.c")
FLAGS = {"amx_tile", "amx_bf16", "amx_int8"}


def why_not(name: str = "AMX", flags: set[str] = FLAGS) -> str | None:
    """Why instructions cannot be tried here, or None where they can."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return f"{name} needs Linux on x86-64"
    if not set(Path("/proc/cpuinfo").read_text().split()) >= flags:
        return f"this processor has no {name}"
    if shutil.which("cc") is None:
        return "no C compiler"
    return None


def fma_that_flushes(c: NDArray, a: NDArray, b: NDArray, folder: Path) -> NDArray[np.uint32]:
    """a * b + c of fp32 patterns by the processor, flush-to-zero and denormals-are-zero set."""
    program = folder / "fma"
    subprocess.run(["cc", "-O2", "-mfma", str(FMA_SOURCE), "-o", str(program)], check=True)
    stream = np.stack([x.ravel() for x in (c, a, b)], axis=1).astype(np.uint32).tobytes()
    done = subprocess.run([program], input=stream, stdout=subprocess.PIPE, check=True)
    return np.frombuffer(done.stdout, np.uint32).reshape(c.shape)


class Amx:
    """Multiplications of full tiles: (tiles, 16, 64 bytes) each.

    They run in a process of their own: tile registers enlarge what a signal saves, beyond the
    signal stack that pytest's fault handler has set up in this one.
    """

    def __init__(self, folder: Path):
        self._program = folder / "amx"
        flags = ["-O2", "-mamx-tile", "-mamx-bf16", "-mamx-int8"]
        subprocess.run(["cc", *flags, str(SOURCE), "-o", str(self._program)], check=True)

    def tdpbf16ps(self, c: NDArray, a: NDArray, b: NDArray) -> NDArray[np.uint32]:
        return self._run("tdpbf16ps", c.astype(np.uint32), a, b)

    def tdpbssd(self, c: NDArray, a: NDArray, b: NDArray) -> NDArray[np.int32]:
        return self._run("tdpbssd", c.astype(np.int32), a, b)

    def _run(self, instruction: str, c: NDArray, a: NDArray, b: NDArray) -> NDArray:
        parts = [np.ascontiguousarray(x).view(np.uint8).reshape(len(c), -1) for x in (c, a, b)]
        for part in parts:
            if part.shape[1] != 1024:
                raise ValueError(f"tiles of {part.shape[1]} bytes are not full")
        done = subprocess.run(
            [self._program, instruction],
            input=np.concatenate(parts, axis=1).tobytes(),
            stdout=subprocess.PIPE,
            check=True,
        )
        return np.frombuffer(done.stdout, c.dtype).reshape(c.shape)
