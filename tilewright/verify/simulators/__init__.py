"""Verilog under cocotb: finding the simulators, building (once) and running."""

from tilewright.verify.simulators.find import (
    MissingToolError,
    Simulator,
    default_simulator,
    find_icarus,
    find_verilator,
    require_simulator,
)
from tilewright.verify.simulators.run import (
    BenchResult,
    SimulationError,
    build_simulation,
    run_bench,
)

__all__ = [
    "BenchResult",
    "MissingToolError",
    "SimulationError",
    "Simulator",
    "build_simulation",
    "default_simulator",
    "find_icarus",
    "find_verilator",
    "require_simulator",
    "run_bench",
]
