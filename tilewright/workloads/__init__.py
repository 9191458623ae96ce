"""Whole computations that run on simulated blocks: ``tilewright simulate SYSTEM.WORKLOAD``.

Each module has ``add_arguments(parser)`` for its own options and ``run(args)``, which returns the
exit code of the command.
"""

__all__ = ["WORKLOADS"]

WORKLOADS = {  # by name, the module; imported when it is asked for
    "deca.gemm": "tilewright.workloads.deca_gemm",
    "deca.cycles": "tilewright.workloads.deca_cycles",
    "deca.coverage": "tilewright.workloads.deca_coverage",
    "deca.block": "tilewright.workloads.deca_block",
    "anda": "tilewright.workloads.program",
    "anda.block": "tilewright.workloads.anda_block",
    "harmonia": "tilewright.workloads.program",
    "harmonia.block": "tilewright.workloads.harmonia_block",
}
