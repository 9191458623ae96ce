"""Verilog under cocotb: finding the simulators, building (once) and running."""

from tilewright.verify.simulators.find import (
    MissingToolError,
    default_simulator,
    require_simulator,
)
from tilewright.verify.simulators.run import BenchResult, SimulationError, run_bench

__all__ = [
    "BenchResult",
    "MissingToolError",
    "SimulationError",
    "default_simulator",
    "require_simulator",
    "run_bench",
]
