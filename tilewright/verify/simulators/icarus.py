"""Verilog to a program for Icarus Verilog's virtual machine."""

from functools import partial
from pathlib import Path

from tilewright.base.cache import get_or_make_folder
from tilewright.verify.simulators.find import Simulator
from tilewright.verify.simulators.programs import run_program


def build_icarus(icarus: Simulator, verilog: str, top: str, *, waves: str | None) -> Path:
    """The vvp program of module ``top``; ``waves`` names the format it dumps."""
    tops = [top]
    if waves:
        tops.append("tilewright_waves")
        verilog += (
            "\nmodule tilewright_waves;\n  initial begin\n"
            f'    $dumpfile("waves.{waves}");\n    $dumpvars(0, \\{top} );\n'
            "  end\nendmodule\n"
        )
    options = ["-g2012", *(word for name in tops for word in ("-s", name))]
    make = partial(_make, icarus=icarus, verilog=verilog, options=options)
    return get_or_make_folder("sim", [verilog, icarus.fingerprint, *options], make) / "sim.vvp"


def _make(folder: Path, *, icarus: Simulator, verilog: str, options: list[str]) -> None:
    # A time unit of 1 ns and a precision of 1 ps, as cocotb's clocks are given in ns.
    (folder / "top.v").write_text(f"`timescale 1ns/1ps\n{verilog}")
    run_program([icarus.path, *options, "-o", "sim.vvp", "top.v"], folder)
