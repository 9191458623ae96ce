"""Clock gates: register enables that stop the clock instead of selecting the old value.

Yosys's ``clockgate`` gives the registers of an enable one gate; they are then split so that no
gated clock's slew exceeds ``SLOWEST`` times that of the ideal clock.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from tilewright.synth.technology import Cell, Technology

# Fewest registers on an enable that becomes a gate. An idle gate costs the energy of about one
# flip-flop, and its area is that of two to four multiplexers: from four bits on it saves both.
MIN_GROUP = 4

# Slew of a gated clock over that of the ideal clock, an inverter's with a fan-out of four. Steeper
# clocks take more gates, each with a clock pin of its own; at 2 a gate drives 50 flip-flops in
# ASAP7 and slows them by 6 ps.
SLOWEST = 2.0


class GateChoice(NamedTuple):
    """A gating cell and how many flip-flops it may drive."""

    cell: Cell
    registers: int


def find_clock_gate(technology: Technology) -> GateChoice | None:
    """The cell of least area per flip-flop that it may drive; None without one."""
    pins = [
        cell.inputs[cell.clock_pin]
        for cell in technology.cells.values()
        if cell.state is not None and cell.clock_gate is None and cell.clock_pin in cell.inputs
    ]
    if not pins:
        return None
    found = [
        GateChoice(cell, int(_steep_load(cell, technology) / max(pins)))
        for cell in technology.cells.values()
        if cell.clock_gate is not None and cell.arcs
        if not any(fnmatchcase(cell.name, pattern) for pattern in technology.dont_use)
    ]
    fitting = [choice for choice in found if choice.registers >= MIN_GROUP]
    return min(fitting, key=lambda c: (c.cell.area / c.registers, c.cell.name), default=None)


def _steep_load(cell: Cell, technology: Technology) -> float:
    slew = technology.clock_slew

    def is_steep(load: float) -> bool:
        edges = (edge for arc in cell.arcs for edge in (arc.rise, arc.fall))
        return all(edge.slew.at(slew, load) <= SLOWEST * slew for edge in edges)

    low, high = 0.0, cell.max_load if cell.max_load is not None else technology.output_load * 100
    if not is_steep(low):
        return 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if is_steep(middle) else (low, middle)
    return low


def has_registers(rtlil: str) -> bool:
    """Whether there is anything to gate: RTLIL has flip-flops as cells or as processes."""
    return re.search(r"^\s*(cell \$\w*(dff|DFF)|sync posedge )", rtlil, re.MULTILINE) is not None


def gate_modules(cell: Cell) -> str:
    """The gating cell as an empty Verilog module that declares its pins."""
    pins = [*(f"input {pin}" for pin in cell.inputs), *(f"output {pin}" for pin in cell.outputs)]
    return f"(* blackbox *)\nmodule {cell.name}({', '.join(pins)});\nendmodule\n"


def gate_commands(cell: Cell, min_group: int) -> Sequence[str]:
    """Yosys commands that insert the cell before registers with enables."""
    gate = cell.clock_gate
    assert gate is not None, f"{cell.name} is no clock gate"
    tied = f" -tie_lo {gate.test}" if gate.test else ""
    pins = f"{gate.enable}:{cell.clock_pin}:{gate.gated}"
    kinds = ("$_DFF_P_", "$_DFFE_PP_", "$_SDFF_PP?_", "$_SDFFCE_PP?P_")
    return (
        f"dfflegalize -mince {min_group} " + " ".join(f"-cell {kind} 01" for kind in kinds),
        "opt_merge",
        "opt_clean",  # the pass compares enables by name
        f"clockgate -pos {cell.name} {pins}{tied} -min_net_size {min_group}",
    )


_MODULE = re.compile(r"^module .*?^end\n", re.MULTILINE | re.DOTALL)
_CELL = re.compile(
    r"^(?:  attribute [^\n]*\n)*  cell (\S+) (\S+)\n(.*?)^  end\n", re.MULTILINE | re.DOTALL
)
_CONNECT = re.compile(r"^    connect (\S+) (.+)$", re.MULTILINE)


def divide_groups(rtlil: str, choice: GateChoice) -> str:
    """Split the groups of ``clockgate`` so that no gate drives more than it may."""
    return _MODULE.sub(lambda module: _divided(module[0], choice), rtlil)


def _divided(module: str, choice: GateChoice) -> str:
    kind, gate = f"\\{choice.cell.name}", choice.cell.clock_gate
    assert gate is not None
    gates = {}
    for match in _CELL.finditer(module):
        if match[1] == kind:
            pins = dict(_CONNECT.findall(match[3]))
            gates[pins[f"\\{gate.gated}"]] = pins
    if not gates:
        return module
    registers: dict[str, list[str]] = {net: [] for net in gates}
    for match in _CELL.finditer(module):
        clock = dict(_CONNECT.findall(match[3])).get("\\C")
        if clock in registers:
            registers[clock].append(match[2])
    clocks: dict[str, str] = {}  # one for each register
    added: list[str] = []
    for net, names in registers.items():
        ordered = sorted(names, key=_natural)
        count = -(-len(ordered) // choice.registers)
        for k in range(count):  # nearly equal sizes
            part = ordered[k * len(ordered) // count : (k + 1) * len(ordered) // count]
            name = part[0].partition("$_")[0] + f"$gate{len(added)}"
            clocks |= dict.fromkeys(part, name)
            pins = gates[net] | {f"\\{gate.gated}": name}
            connects = "".join(f"    connect {pin} {value}\n" for pin, value in pins.items())
            added.append(f"  cell {kind} {name}_cell\n{connects}  end\n")

    def moved(match: re.Match[str]) -> str:
        if match[1] == kind:
            return ""
        clock = clocks.get(match[2])
        if clock is None:
            return match[0]
        return re.sub(r"(?m)^(    connect \\C ).*$", lambda m: m[1] + clock, match[0])

    header, _, body = _CELL.sub(moved, module).partition("\n")
    wires = "".join(f"  wire {name}\n" for name in dict.fromkeys(clocks.values()))
    return "".join([header, "\n", wires, body.removesuffix("end\n"), *added, "end\n"])


def _natural(name: str) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
