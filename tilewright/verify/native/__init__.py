"""Accelerators with their external memory and host in C++, compiled into the Verilated model.

For whole programs: no Python runs in a cycle. The cocotb benches have the same memory and host
(``tilewright.verify.machine.host``) and give the same cycles.
"""

from tilewright.verify.native.build import NativeModel, build_native
from tilewright.verify.native.run import (
    CheckedProgram,
    NativeEnding,
    NativeMemory,
    NativeRun,
    run_as_golden,
    run_native,
)

__all__ = [
    "CheckedProgram",
    "NativeEnding",
    "NativeMemory",
    "NativeModel",
    "NativeRun",
    "build_native",
    "run_as_golden",
    "run_native",
]
