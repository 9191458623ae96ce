"""A block's own bench on its netlist, of standard cells or for an FPGA: cells without delays."""

import re
from pathlib import Path

from tilewright.golden.params.machine import MachineParams
from tilewright.golden.params.resolve import resolve
from tilewright.synth.cell_models import cell_models
from tilewright.synth.emit import to_rtlil
from tilewright.synth.flow import Synthesis
from tilewright.synth.fpga.devices import DEFAULT_DEVICE, find_device
from tilewright.synth.yosys import SynthesisError, without_banner, yosys_files
from tilewright.verify import cocotb_tests
from tilewright.verify.job import Job
from tilewright.verify.simulators import BenchResult, run_bench

# Kind of cell -> its model, where Yosys has none.
OWN_MODELS = {
    model[1]: model[0]
    for model in re.finditer(
        r"^module (\w+).*?^endmodule\n",
        Path(__file__).with_name("fpga_cells.v").read_text(),
        re.DOTALL | re.MULTILINE,
    )
}
# Verilog of the cells of each family, from Yosys.
MODELS = {f"synth_{name}": f"+/{name}/cells_sim.v" for name in ("ecp5", "nexus", "gatemate")}
_MAPPED, _OPENED, _OWN = "mapped.v", "opened.v", "own.v"


def fpga_netlist_verilog(spec: str, device: str = DEFAULT_DEVICE) -> str:
    """The block as the family's cells, each opened to what Yosys says that it does.

    Mapped as :func:`tilewright.synth.fpga.route.place_and_route` maps it, without the harness.
    """
    family = find_device(device).family
    models = MODELS[family.synthesis.split()[0]]
    params = resolve(spec)
    mapped = yosys_files(
        [
            "read_rtlil top.il",
            f"{family.synthesis} -top {params.slug}",
            f"write_verilog -noattr -norename {_MAPPED}",
        ],
        {"top.il": to_rtlil(params)},
        (_MAPPED,),
    )
    for kind in (*family.block_ram, *family.multiplier):
        used = re.search(rf"^  {kind} ", mapped[_MAPPED], re.MULTILINE)
        if used and kind not in OWN_MODELS:
            raise SynthesisError(f"{spec} has a {kind}, of which there is no model")
    return open_cells(mapped[_MAPPED], params.slug, models)


def open_cells(mapped: str, top: str, models: str) -> str:
    """Verilog in cells of a family with each cell replaced by its model, as one module."""
    opened = yosys_files(
        [
            f"read_verilog -overwrite {models}",
            f"read_verilog -overwrite {_OWN}",
            f"read_verilog {_MAPPED}",
            f"hierarchy -check -top {top}",
            *("proc", "flatten", "opt_clean -purge", "pmuxtree"),
            f"write_verilog -noattr -norename {_OPENED}",
        ],
        {_MAPPED: mapped, _OWN: "".join(OWN_MODELS.values())},
        (_OPENED,),
    )[_OPENED]
    return without_banner(opened)


def netlist_verilog(result: Synthesis) -> str:
    """The netlist with its cells and memories."""
    return result.verilog + cell_models(result.technology, result.netlist.cell_counts)


def bench_netlist(spec: str, result: Synthesis, *, simulator: str = "icarus") -> BenchResult:
    """Icarus Verilog starts at once, and shows what is not reset as unknown."""
    return _bench(spec, netlist_verilog(result), simulator)


def bench_fpga_netlist(
    spec: str, device: str = DEFAULT_DEVICE, *, verilog: str | None = None
) -> BenchResult:
    """Run the bench of the block on its netlist, or on ``verilog`` in its place.

    A whole accelerator, hours in Icarus Verilog, runs 2 programs in Verilator.
    """
    verilog = fpga_netlist_verilog(spec, device) if verilog is None else verilog
    if isinstance(resolve(spec), MachineParams):
        return _bench(spec, verilog, "verilator", cases=2)
    return _bench(spec, verilog, "icarus")


def _bench(spec: str, verilog: str, simulator: str, cases: int = 60) -> BenchResult:
    job = Job(spec, cases=cases, stalls=(0.0, 0.5))  # gates are slow to simulate
    tests = cocotb_tests(job.params)
    return run_bench(verilog, job.params.slug, tests, simulator=simulator, job=job.as_dict())
