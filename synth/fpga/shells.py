"""Shells between a block and the pins of a package in a bitstream.

An accelerator behind AXI gets a memory and a serial line
(:class:`tilewright.hw.soc.serial_system.SerialSystem`), any other block a scan chain. Pins are
those of the ULX3S, a board with an ECP5 of the package CABGA381 and a serial port on USB.
"""

from dataclasses import dataclass

from amaranth.back import rtlil

from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.machine_axi import MachineAxiPorts
from tilewright.hw.shared import SharedModules
from tilewright.hw.soc.serial_system import SerialSystem
from tilewright.hw.soc.uart import LEAST_DIVIDER
from tilewright.synth.emit import to_rtlil
from tilewright.synth.fpga.harness import CLOCK, connected

SHELL = "shell"  # the top module
BAUD = 115_200
LINES = 512  # of the memory of an accelerator
_SCAN_SITES = {CLOCK: "G2", "serial_in": "B11", "shift": "A10", "apply": "C11", "serial_out": "A11"}
_SERIAL_SITES = {CLOCK: "G2", "rst": "T1", "rx": "M1", "tx": "L4"}


@dataclass(frozen=True)
class Shell:
    """A block with its shell: ``files`` for Yosys, and the ``sites`` of its ports on the board."""

    kind: str  # "scan" or "serial"
    files: dict[str, str]
    sites: dict[str, str]

    def constraints(self, mhz: float) -> str:
        """LPF text for nextpnr; every port is an input or output at 3.3 V."""
        lines = [f'FREQUENCY PORT "{CLOCK}" {mhz:g} MHZ;']
        for port, site in self.sites.items():
            lines.append(f'LOCATE COMP "{port}" SITE "{site}";')
            lines.append(f'IOBUF PORT "{port}" IO_TYPE=LVCMOS33;')
        return "\n".join(lines) + "\n"


def shell_of(params: BlockParams, mhz: float) -> Shell:
    """The shell of a block clocked at ``mhz``."""
    if not isinstance(params, MachineAxiPorts):
        text = to_rtlil(params)
        files = {"shell.v": scan_verilog(text, params.slug), "top.il": text}
        return Shell("scan", files, _SCAN_SITES)
    divider = round(mhz * 1e6 / BAUD)
    if divider < LEAST_DIVIDER:
        least = LEAST_DIVIDER * BAUD / 1e6
        raise ValueError(f"a serial line of {BAUD:,} baud needs a clock of {least:g} MHz or more")
    platform = SharedModules()
    system = SerialSystem(params, lines=LINES, divider=divider)
    text = rtlil.convert(system, name=SHELL, platform=platform, emit_src=False)
    return Shell("serial", {"top.il": text + "".join(platform.modules.values())}, _SERIAL_SITES)


def scan_verilog(rtlil_text: str, module: str) -> str:
    """Verilog of a scan chain around ``module``.

    While ``shift`` is high, ``serial_in`` goes into the chain of inputs, the last port's highest
    bit first, and ``serial_out`` shows the chain of outputs, the first port's lowest bit first.
    When ``apply`` rises, the block sees its inputs for one cycle, and the outputs of that cycle are
    taken. In every other cycle its inputs are 0, so streams stand still.
    """
    instance, given, result = connected(rtlil_text, module, "given", "result")
    given, result = max(1, given), max(1, result)
    return f"""module {SHELL} (input {CLOCK}, input serial_in, input shift, input apply,
    output serial_out);
  // Pins belong to no clock.
  reg [1:0] shifts, bits;
  reg [2:0] applies;
  always @(posedge {CLOCK}) begin
    shifts <= {{shifts[0], shift}};
    bits <= {{bits[0], serial_in}};
    applies <= {{applies[1:0], apply}};
  end
  wire step = applies[1] & ~applies[2];
  reg [{given}:0] chain;  // a bit more than there are inputs, so that it can shift
  reg [{result}:0] taken;
  wire [{given - 1}:0] given = step ? chain[{given - 1}:0] : {given}'d0;
  wire [{result - 1}:0] result;
  always @(posedge {CLOCK}) begin
    if (step) taken <= {{1'b0, result}};
    else if (shifts[1]) begin
      chain <= {{chain[{given - 1}:0], bits[1]}};
      taken <= {{1'b0, taken[{result}:1]}};
    end
  end
  assign serial_out = taken[0];
  {instance}
endmodule
"""
