"""Registers around a block, so that it is timed at its ports and needs only two pins.

The block's inputs are shifted in through one pin; its outputs go to registers that nothing reads
but no tool removes. There is one register per port bit and no logic.
"""

import re
from typing import NamedTuple

TOP = "harness"  # the top module
GIVEN, TAKEN = "given", "taken"  # registers at inputs and outputs
CLOCK = "clk"

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


def connected(rtlil: str, module: str, inputs: str, outputs: str) -> tuple[str, int, int]:
    """An instance of ``module`` between two vectors, lowest bits first, and the width of each."""
    connections, widths = [], []
    ports = [port for port in ports_of(rtlil, module) if port.bits]
    if any(port.name == CLOCK for port in ports):
        connections.append(f".{CLOCK}({CLOCK})")
    for vector, direction in ((inputs, "input"), (outputs, "output")):
        width = 0
        for port in ports:
            if port.direction == direction and port.name != CLOCK:
                place = f"{vector}[{width + port.bits - 1}:{width}]"
                connections.append(f".\\{port.name} ({place})")
                width += port.bits
        widths.append(width)
    return f"\\{module} block ({', '.join(connections)});", widths[0], widths[1]


def harness_verilog(rtlil: str, module: str) -> str:
    """Verilog of the module ``TOP`` around ``module``."""
    instance, given, taken = connected(rtlil, module, GIVEN, "result")
    lines = [f"module {TOP} (input {CLOCK}, input serial);"]
    if given:
        shifted = f"{{{GIVEN}[{given - 2}:0], serial}}" if given > 1 else "serial"
        lines += [
            f"  (* keep *) reg [{given - 1}:0] {GIVEN};",
            f"  always @(posedge {CLOCK}) {GIVEN} <= {shifted};",
        ]
    if taken:
        lines += [
            f"  wire [{taken - 1}:0] result;",
            f"  (* keep *) reg [{taken - 1}:0] {TAKEN};",
            f"  always @(posedge {CLOCK}) {TAKEN} <= result;",
        ]
    return "\n".join([*lines, f"  {instance}", "endmodule", ""])
