"""SRAM macros: memories that synthesis leaves whole (``tilewright.hw.sram``).

Their area and access time come from the technology's model, fitted to published macros, their
energy from the capacitance of word and bit lines; leakage is not modelled.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.synth.technology import Arc, Cell, Edge, Plane, State, Technology
from tilewright.synth.yosys import SynthesisError

_PREFIX = "sram_"
_NAME = re.compile(_PREFIX + r"(\d+)x(\d+)_1r1w(?:_g(\d+))?")


@dataclass(frozen=True)
class MemoryMacro:
    """One write port and one synchronous read port, as ``tilewright.hw.sram.Sram`` has them."""

    name: str
    depth: int
    width: int
    granularity: int  # bits written together

    @property
    def address_bits(self) -> int:
        return (self.depth - 1).bit_length()

    @property
    def bits(self) -> int:
        return self.depth * self.width

    @property
    def inputs(self) -> dict[str, int]:
        """Pins other than the clock, with their bits."""
        return {
            "write_enable": self.width // self.granularity,
            "write_address": self.address_bits,
            "write_data": self.width,
            "read_enable": 1,
            "read_address": self.address_bits,
        }


def find_macros(rtlil: str) -> list[MemoryMacro]:
    """The kinds of macro that a design instantiates."""
    names = sorted(set(re.findall(r"^\s*cell \\(sram_\S+) ", rtlil, re.MULTILINE)))
    return [parse_macro(name) for name in names]


def parse_macro(name: str) -> MemoryMacro:
    """The macro that ``name`` describes."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise SynthesisError(f"memory macro {name!r} is not called as hw.sram calls them")
    depth, width = int(match[1]), int(match[2])
    return MemoryMacro(name, depth, width, int(match[3] or width))


def macro_cell(macro: MemoryMacro, technology: Technology) -> Cell:
    """The macro as a cell: inputs like the driving cell's, outputs as strong as its output."""
    memory = technology.memory
    if memory is None:
        raise SynthesisError(f"{technology.name} has no model of memories, as {macro.name} needs")
    driver = technology.cells[technology.drive_cell]
    (capacitance,) = driver.inputs.values()
    pins = {pin: None for port, bits in macro.inputs.items() for pin in _bits(port, bits)}
    outputs = _bits("read_data", macro.width)
    access = memory.access_time(macro.depth, macro.width)
    read, write = memory.access_energy(macro.depth, macro.width, technology.supply)
    arcs = tuple(
        Arc("clk", pin, "*", _launch(arc.rise, access), _launch(arc.fall, access))
        for arc in driver.arcs
        for pin in outputs
    )
    return Cell(
        name=macro.name,
        area=memory.area(macro.depth, macro.width),
        leakage=0.0,
        inputs=dict.fromkeys(pins, capacitance) | {"clk": capacitance},
        outputs=dict.fromkeys(outputs, ""),
        arcs=arcs,
        state=State(("", ""), "clk", ""),
        clock_pin="clk",
        setup=dict.fromkeys(pins, memory.setup),
        memory_bits=macro.bits,
        read_energy=read,
        write_energy=write,
    )


def memory_entries(counts: Mapping[str, int], technology: Technology) -> dict[str, dict[str, Any]]:
    """Entries in a record of the macros among the cells of ``counts``."""
    memory, entries = technology.memory, {}
    for name, count in counts.items():
        if memory is None or not name.startswith(_PREFIX):
            continue
        macro = parse_macro(name)
        size = macro.depth, macro.width
        read, write = memory.access_energy(*size, technology.supply)
        entries[name] = {
            "count": count,
            "bits": macro.bits,
            "area_um2": round(memory.area(*size), 3),
            "access_ps": round(memory.access_time(*size), 1),
            "read_fj": round(read, 2),
            "write_fj": round(write, 2),
            "published_size": memory.is_published_size(*size),
        }
    return entries


def _bits(port: str, bits: int) -> list[str]:
    return [f"{port}[{k}]" for k in range(bits)]


def _launch(edge: Edge, access_time: float) -> Edge:
    delay, slew = edge.delay, edge.slew
    slope = delay.at(0.0, 1.0) - delay.at(0.0, 0.0)
    return Edge(
        Plane(access_time, slope, 0.0),
        Plane(slew.at(0.0, 0.0), slew.at(0.0, 1.0) - slew.at(0.0, 0.0), 0.0),
    )


def macro_port_module(macro: MemoryMacro) -> str:
    """An empty Verilog module that declares the macro's pins."""
    return _declaration(macro) + "endmodule\n"


def macro_model(macro: MemoryMacro) -> str:
    """Behavioural Verilog of the macro, for simulating netlists."""
    parts = macro.width // macro.granularity
    body = f"""\
  reg [{macro.width - 1}:0] words [0:{macro.depth - 1}];
  integer k;
  initial for (k = 0; k < {macro.depth}; k = k + 1) words[k] = 0;
  always @(posedge clk) begin
    if (read_enable) read_data <= words[read_address];
    for (k = 0; k < {parts}; k = k + 1)
      if (write_enable[k])
        words[write_address][k*{macro.granularity} +: {macro.granularity}]
          <= write_data[k*{macro.granularity} +: {macro.granularity}];
  end
endmodule
"""
    return _declaration(macro).replace("output [", "output reg [") + body


def _declaration(macro: MemoryMacro) -> str:
    ports = [f"input [{bits - 1}:0] {port}" for port, bits in macro.inputs.items()]
    every = ["input clk", *ports, f"output [{macro.width - 1}:0] read_data"]
    return f"module {macro.name}({', '.join(every)});\n"
