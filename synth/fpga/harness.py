"""Registers around a block, so that it is timed at its ports and needs two pins of a package.

A block has hundreds of ports, a package fewer pins, and a path that begins at a pin belongs to no
clock. The harness shifts the block's inputs in through one pin and takes its outputs into registers
that nobody reads, which are kept all the same. It adds one register for each bit of a port and no
logic: what it adds is told apart by the names of its registers.
"""

import re
from typing import NamedTuple

__all__ = ["GIVEN", "TAKEN", "TOP", "harness_verilog", "ports_of"]

TOP = "harness"  # the top module
GIVEN, TAKEN = "given", "taken"  # the registers before the inputs and behind the outputs
_CLOCK = "clk"

_PORT = re.compile(r"^  wire (?:width (\d+) )?(?:signed )?(input|output) \d+ +\\(\S+)$", re.M)


class Wire(NamedTuple):
    """A port of a module."""

    name: str
    direction: str
    bits: int


def ports_of(rtlil: str, module: str) -> list[Wire]:
    """Every port of one module of an RTLIL text."""
    start = rtlil.index(f"\nmodule \\{module}\n") + 1
    body = rtlil[start : rtlil.index("\nend\n", start)]
    return [Wire(name, way, int(width or 1)) for width, way, name in _PORT.findall(body)]


def harness_verilog(rtlil: str, module: str) -> str:
    """Verilog of the module ``TOP`` around ``module``."""
    ports = [port for port in ports_of(rtlil, module) if port.bits]
    inputs = [port for port in ports if port.direction == "input" and port.name != _CLOCK]
    outputs = [port for port in ports if port.direction == "output"]
    clocked = any(port.name == _CLOCK for port in ports)
    connections = [f".{_CLOCK}({_CLOCK})"] if clocked else []
    widths = {}
    for name, group in ((GIVEN, inputs), (TAKEN, outputs)):
        lowest, source = 0, name if name == GIVEN else "result"
        for port in group:
            high = lowest + port.bits - 1
            connections.append(f".\\{port.name} ({source}[{high}:{lowest}])")
            lowest += port.bits
        widths[name] = lowest
    given, taken = widths[GIVEN], widths[TAKEN]
    lines = [f"module {TOP} (input {_CLOCK}, input serial);"]
    if given:
        shifted = f"{{{GIVEN}[{given - 2}:0], serial}}" if given > 1 else "serial"
        lines += [
            f"  (* keep *) reg [{given - 1}:0] {GIVEN};",
            f"  always @(posedge {_CLOCK}) {GIVEN} <= {shifted};",
        ]
    if taken:
        lines += [
            f"  wire [{taken - 1}:0] result;",
            f"  (* keep *) reg [{taken - 1}:0] {TAKEN};",
            f"  always @(posedge {_CLOCK}) {TAKEN} <= result;",
        ]
    lines += [f"  \\{module} block ({', '.join(connections)});", "endmodule", ""]
    return "\n".join(lines)
