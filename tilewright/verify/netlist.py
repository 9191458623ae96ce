"""A block's own bench on its mapped netlist: cells by function, without delays."""

from tilewright.synth.cell_models import cell_models
from tilewright.synth.flow import Synthesis
from tilewright.verify import cocotb_tests
from tilewright.verify.job import Job
from tilewright.verify.simulators import BenchResult, run_bench


def netlist_verilog(result: Synthesis) -> str:
    """The netlist with its cells and memories."""
    return result.verilog + cell_models(result.technology, result.netlist.cell_counts)


def bench_netlist(spec: str, result: Synthesis, *, simulator: str = "icarus") -> BenchResult:
    """Icarus Verilog starts at once, and shows what is not reset as unknown."""
    job = Job(spec, cases=60, stalls=(0.0, 0.5))  # gates are slow to simulate
    return run_bench(
        netlist_verilog(result),
        result.netlist.name,
        cocotb_tests(job.params),
        simulator=simulator,
        job=job.as_dict(),
    )
