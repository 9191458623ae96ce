"""Verilog of a RISC-V processor with an accelerator."""

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from amaranth.back import rtlil

from tilewright.golden.params.machine_axi import MachineAxiPorts
from tilewright.hw.shared import SharedModules
from tilewright.hw.soc.system import RiscvSystem
from tilewright.synth.emit import verilog_from_rtlil
from tilewright.verify.simulators.find import MissingToolError, package_command

__all__ = ["processor_verilog", "system_verilog"]

PACKAGE = "pythondata_cpu_picorv32"
_ZEROS = re.compile(r"^ *\\?\S+ ?\[\d+\] = \d+'[dh]0+;\n", re.MULTILINE)


def processor_verilog() -> str:
    """The source of PicoRV32, from the package that has it."""
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        command = package_command(PACKAGE.replace("_", "-"))
        raise MissingToolError(f"no sources of the processor PicoRV32; to get them: {command}")
    return (Path(found.origin).parent / "verilog" / "picorv32.v").read_text()


@cache  # a large design takes long to write, and runs that follow each other share it
def system_verilog(params: MachineAxiPorts, top: str, *, lines: int, latency: int) -> str:
    """Processor, accelerator and memory of so many lines; the module is called ``top``."""
    platform = SharedModules()
    system = RiscvSystem(params, lines=lines, latency=latency)
    text = rtlil.convert(system, name=top, platform=platform, emit_src=False)
    ours = verilog_from_rtlil(text + "".join(platform.modules.values()))
    # Memories begin with zeros anyhow, and simulators take long to read so many.
    return _ZEROS.sub("", ours) + processor_verilog()
