"""Energy of a laid-out block on a workload: its own cells, wires and clock tree.

Buffers of the clock tree are removed from the simulated netlist, and counted by their pulses.
"""

import json
import re
from collections import defaultdict
from dataclasses import dataclass, replace

from tilewright.synth.activity import Activity
from tilewright.synth.emit import CLOCK
from tilewright.synth.energy import energy_of
from tilewright.synth.layout.layout import Layout
from tilewright.synth.layout.library import layout_table
from tilewright.synth.memory import find_macros, macro_cell
from tilewright.synth.netlist import Instance, Net, Netlist, read_netlist
from tilewright.synth.technology import Technology
from tilewright.synth.yosys import yosys_files


@dataclass(frozen=True)
class LaidOut:
    """A netlist without its clock tree, the tree's buffers, and the wire of every net."""

    netlist: Netlist
    tree: list[tuple[Instance, Net]]  # each with the clock it repeats: a port or what a gate passes
    clocks: dict[Net, Net]  # the clock of every net of the trees
    wires: dict[Net, float]  # fF


def read_layout(layout: Layout) -> LaidOut:
    """The netlist and the wires of the last step, which must have routes."""
    technology, last, top = layout.synthesis.technology, layout.last, layout.params.slug
    table = layout_table(technology.name)
    unseen = "|".join(sorted({table["tap"]["cell"], *table["fillers"]}))  # cells without pins
    verilog = re.sub(rf"(?m)^ *({unseen}) \S+ *\(\);\n", "", last.file("verilog").read_text())
    commands = ("read_verilog netlist.v", "opt_clean", "write_json netlist.json")
    written = yosys_files(commands, {"netlist.v": verilog}, ("netlist.json",))["netlist.json"]
    macros = {m.name: macro_cell(m, technology) for m in find_macros(layout.rtlil)}
    netlist = read_netlist(written, top, technology, macros)
    names = {
        called: net
        for name, entry in json.loads(written)["modules"][top]["netnames"].items()
        for k, net in enumerate(entry["bits"])
        # A one-bit bus has either name.
        for called in ([f"{name}[{k}]"] if len(entry["bits"]) > 1 else [name, f"{name}[0]"])
    }
    wires: dict[Net, float] = defaultdict(float)
    for name, capacitance in wire_capacitances(last.file("spef").read_text()).items():
        if name not in names:
            raise ValueError(f"the netlist of {top} has no net {name}")
        wires[names[name]] += capacitance
    return without_clock_tree(netlist, dict(wires))


def wire_capacitances(spef: str) -> dict[str, float]:
    """fF of every net of a SPEF file, by its name."""
    unit = re.search(r"^\*C_UNIT ([\d.]+) (FF|PF)$", spef, re.MULTILINE)
    if unit is None:
        raise ValueError("a SPEF file without a unit of capacitance")
    scale = float(unit[1]) * {"FF": 1.0, "PF": 1000.0}[unit[2]]
    names = dict(re.findall(r"^(\*\d+) (\S+)$", spef, re.MULTILINE))
    return {
        names.get(net, net).replace("\\", ""): scale * float(value)
        for net, value in re.findall(r"^\*D_NET (\S+) (\S+)$", spef, re.MULTILINE)
    }


def without_clock_tree(netlist: Netlist, wires: dict[Net, float]) -> LaidOut:
    """Bypass the clock tree's buffers to registers and gates."""
    repeaters: dict[Net, list[Instance]] = defaultdict(list)
    for instance in netlist.instances:
        cell = instance.cell
        if len(cell.inputs) == len(cell.outputs) == 1 and cell.state is None:
            (source,) = cell.inputs
            repeaters[instance.pins[source]].append(instance)
    roots = [*netlist.inputs.get(CLOCK, []), *netlist.clock_gates]
    clocks: dict[Net, Net] = {root: root for root in roots}
    tree: list[tuple[Instance, Net]] = []
    reached = list(roots)
    for net in reached:  # extended while it is iterated
        for buffer in repeaters[net]:
            (target,) = buffer.cell.outputs
            tree.append((buffer, clocks[net]))
            if target in buffer.pins:  # not for a cell that is only a load
                clocks[buffer.pins[target]] = clocks[net]
                reached.append(buffer.pins[target])
    names = {buffer.name for buffer, _ in tree}
    kept = [
        replace(i, pins={pin: clocks.get(net, net) for pin, net in i.pins.items()})
        for i in netlist.instances
        if i.name not in names
    ]
    return LaidOut(replace(netlist, instances=kept), tree, clocks, wires)


def energy_laid_out(
    laid: LaidOut, technology: Technology, activity: Activity, period: float
) -> float:
    """fJ, as :func:`tilewright.synth.energy.energy_of`, with the layout's wires and clock tree."""
    netlist, half_square = laid.netlist, technology.supply**2 / 2
    total = energy_of(netlist, technology, activity, period, wire=0.0).total
    gates = netlist.clock_gates

    def pulses(clock: Net) -> float:
        passed = activity.pulses[gates[clock].name] if clock in gates else None
        return activity.cycles if passed is None else passed / activity.streams

    for net, capacitance in laid.wires.items():
        if net in laid.clocks:
            transitions = 2 * pulses(laid.clocks[net])
        else:
            transitions = activity.toggles.get(net, 0) / activity.streams
        total += half_square * capacitance * transitions
    for buffer, clock in laid.tree:
        (load,) = buffer.cell.inputs.values()
        (target,) = buffer.cell.outputs
        once = buffer.cell.energy.get(target, 0.0) + half_square * load
        total += 2 * pulses(clock) * once
        total += activity.cycles * buffer.cell.leakage * period * 1e-6  # nW * ps is 1e-6 fJ
    return total
