"""The committed runs of a GEMM from C: each accelerator, programs loaded and streamed."""

from tilewright.studies.measured import write_measured
from tilewright.studies.riscv.gemm import RiscvGemm, gemm_from_c
from tilewright.studies.runs.simulation import DEFAULT, Simulation

__all__ = ["BLOCKS", "RECORD", "update_record"]

BLOCKS = ("anda:small", "harmonia:small")
RECORD = "riscv_gemm"


def update_record(
    name: str,
    *,
    tokens: int,
    inputs: int,
    outputs: int,
    latency: int,
    simulation: Simulation = DEFAULT,
) -> list[RiscvGemm]:
    """Run them all and write them down, with the command of the workload ``name`` that does it."""
    sizes = {"tokens": tokens, "inputs": inputs, "outputs": outputs, "latency": latency}
    runs = [
        gemm_from_c(block, stream=stream, simulation=simulation, **sizes)
        for block in BLOCKS
        for stream in (False, True)
    ]
    options = " ".join(f"--{option} {value}" for option, value in sizes.items())
    command = f"tilewright simulate {name} {options} --update-record"
    write_measured(RECORD, {"command": command, "runs": runs})
    return runs
