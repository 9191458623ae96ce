"""Power of a mapped netlist by OpenSTA, an independent tool, on the toggles that we counted.

OpenSTA 2.0.17 (Debian 12's) takes activities at the ports of a design only and derives those of all
other nets from the cells' functions. So that every net has the rate that was counted, its cells get
one more input for each output here: the rate comes in there from a port, the output's function is
that input, and the pin loads nothing. Timing arcs and energies are those of the technology, slews
and loads are the tool's own. A cell ``SOURCE`` drives every input, and the clock, so that what
inputs charge is counted.

Energies are tables without a state, the same for rise and fall. What a tool takes per transition,
their mean (as later versions do) or their sum (as 2.0.17 does), :func:`edges_counted` finds out on
a single inverter; internal power is divided by it.
"""

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.synth.activity import Activity
from tilewright.synth.condense import CellEnergy
from tilewright.synth.energy import energy_of
from tilewright.synth.netlist import Instance, Net, Netlist
from tilewright.synth.technology import Cell, Technology

__all__ = ["Components", "edges_counted", "opensta_power", "our_power"]

CellEnergies = Callable[[Cell, float, float], CellEnergy]  # at a slew and a load

_GRID = 8  # points of a table's axis
_SENSE = {"+": "positive", "-": "negative", "*": "non"}


@dataclass(frozen=True)
class Components:
    """fJ per clock cycle."""

    internal: float  # cells, clock pins of flip-flops included
    switching: float  # nets, those of inputs and clock included
    leakage: float

    @property
    def total(self) -> float:
        return self.internal + self.switching + self.leakage


def table_energy(cell: Cell, slew: float, load: float) -> CellEnergy:
    """What the compact table says, at whatever slew and load."""
    return CellEnergy(cell.energy, cell.input_energy, cell.clock_energy)


def our_power(
    netlist: Netlist, technology: Technology, activity: Activity, period: float, wire: float
) -> Components:
    """:func:`tilewright.synth.energy.energy_of`, divided as OpenSTA divides it."""
    energy = energy_of(netlist, technology, activity, period, wire=wire)
    in_flops = sum(instance.cell.clock_energy for instance in netlist.instances)
    cycles = activity.cycles
    return Components(
        energy.internal / cycles + in_flops,
        (energy.switching + energy.clock) / cycles - in_flops,
        energy.leakage / cycles,
    )


def opensta_power(
    netlist: Netlist,
    technology: Technology,
    activity: Activity,
    period: float,
    wire: float,
    energies: CellEnergies = table_energy,
) -> Components:
    """The same by OpenSTA; ``energies`` may be those of a full library."""
    cells = {i.cell.name: i.cell for i in netlist.instances}
    counted = _run(
        _library(technology, cells.values(), wire, energies),
        _verilog(netlist),
        _commands(netlist, technology, activity, period, wire),
        period,
    )
    return Components(counted.internal / edges_counted(), counted.switching, counted.leakage)


def edges_counted() -> float:
    """Energies of how many edges the installed OpenSTA takes at one transition: 1, or 2."""
    inverter = Cell("INV", 1.0, 0.0, {"A": 1.0}, {"Y": "!A"}, (), max_load=10.0, energy={"Y": 5.0})
    technology = Technology(
        "one", "", "", {"INV": inverter}, "INV", 1.0, 10.0, None, None, supply=1.0, max_slew=100.0
    )
    netlist = Netlist(
        "one", {"a": [2]}, {"y": [3]}, [Instance("u", inverter, {"A": 2, "Y": 3})], {}
    )
    activity = Activity(streams=1, cycles=1, toggles={2: 1, 3: 1}, results={})
    text = _library(technology, [inverter], 0.0, table_energy)
    commands = _commands(netlist, technology, activity, 1000.0, 0.0)
    return _run(text, _verilog(netlist), commands, 1000.0).internal / inverter.energy["Y"]


def _run(library: str, verilog: str, commands: str, period: float) -> Components:
    with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
        folder = Path(name)
        (folder / "cells.lib").write_text(library)
        (folder / "netlist.v").write_text(verilog)
        (folder / "power.tcl").write_text(commands)
        done = subprocess.run(
            ["sta", "-exit", "power.tcl"], cwd=folder, capture_output=True, text=True, check=True
        )
    found = re.search(r"^Total +(\S+) +(\S+) +(\S+) ", done.stdout, re.MULTILINE)
    if found is None or "Error" in done.stdout + done.stderr:
        raise RuntimeError(f"OpenSTA gave no power: {(done.stdout + done.stderr)[-500:]}")
    return Components(
        *(float(watts) * period * 1e3 for watts in found.groups())
    )  # W * ps is 1e3 fJ


def _library(
    technology: Technology,
    cells: Iterable[Cell],
    wire: float,
    energies: CellEnergies,
) -> str:
    volts, (low, high) = technology.supply, technology.slew_thresholds
    lines = [
        "library (cells) {",
        "  delay_model : table_lookup;",
        '  time_unit : "1ps"; voltage_unit : "1V"; current_unit : "1mA";',
        '  leakage_power_unit : "1nW"; pulling_resistance_unit : "1kohm";',
        "  capacitive_load_unit (1, ff);",
        f"  nom_voltage : {volts}; nom_temperature : 25; nom_process : 1;",
        f"  operating_conditions (typical) {{ process : 1; temperature : 25; voltage : {volts}; }}",
        "  default_operating_conditions : typical;",
        "  lu_table_template (grid) { variable_1 : input_net_transition;",
        "    variable_2 : total_output_net_capacitance;",
        '    index_1 ("0, 1"); index_2 ("0, 1"); }',
        "  power_lut_template (energy) { variable_1 : input_transition_time;",
        "    variable_2 : total_output_net_capacitance;",
        '    index_1 ("0, 1"); index_2 ("0, 1"); }',
    ]
    for edge in ("rise", "fall"):
        lines += [f"  {side}_threshold_pct_{edge} : 50;" for side in ("input", "output")]
        lines.append(f"  slew_lower_threshold_pct_{edge} : {low};")
        lines.append(f"  slew_upper_threshold_pct_{edge} : {high};")
    source = Cell("SOURCE", 0.0, 0.0, {}, {"Y": ""}, (), max_load=1e6)
    for cell in (source, *cells):
        lines += _cell(cell, technology, wire, energies)
    return "\n".join([*lines, "}", ""])


def _cell(cell: Cell, technology: Technology, wire: float, energies: CellEnergies) -> Iterator[str]:
    usual = energies(cell, technology.clock_slew, technology.fanout_of_four_load)
    yield f"  cell ({cell.name}) {{ area : {cell.area}; cell_leakage_power : {cell.leakage};"
    for pin, capacitance in cell.inputs.items():
        clock = pin == cell.clock_pin
        yield f"    pin ({pin}) {{ direction : input; capacitance : {capacitance + wire};"
        if clock:
            yield "      clock : true;"
        energy = usual.clock / 2 if clock else usual.inputs.get(pin, 0.0)
        if energy:
            yield from _power("", _scalar(energy))
        yield "    }"
    slews = _axis(technology.max_slew)
    loads = _axis(2 * (cell.max_load or 1.0))  # ABC loads some beyond their largest
    for pin in cell.outputs:
        yield f"    pin (rate_{pin}) {{ direction : input; capacitance : 0; }}"
        yield f'    pin ({pin}) {{ direction : output; function : "rate_{pin}";'
        slew = technology.clock_slew if cell.name == "SOURCE" else 0.0
        start = [_scalar(0.0), _scalar(slew)] * 2
        yield from _timing(f"rate_{pin}", "positive", "combinational", start)
        for arc in cell.arcs:
            if arc.target == pin:
                shapes = (arc.rise.delay, arc.rise.slew, arc.fall.delay, arc.fall.slew)
                rows = ([[f.at(s, x) for x in loads] for s in slews] for f in shapes)
                tables = (_table("grid", r, slews, loads) for r in rows)
                kind = "rising_edge" if arc.source == cell.clock_pin else "combinational"
                yield from _timing(arc.source, _SENSE[arc.sense], kind, tables)
        if pin in usual.outputs:
            values = [[energies(cell, s, x).outputs[pin] for x in loads] for s in slews]
            related = next(
                (a.source for a in cell.arcs if a.target == pin), next(iter(cell.inputs))
            )
            yield from _power(f"related_pin : {related};", _table("energy", values, slews, loads))
        yield "    }"
    yield "  }"


def _axis(last: float) -> tuple[float, ...]:
    """From 0 to ``last``, denser at the beginning."""
    return tuple(last * (k / (_GRID - 1)) ** 2 for k in range(_GRID))


_Rows = Sequence[Sequence[float]]
_NAMES = ("cell_rise", "rise_transition", "cell_fall", "fall_transition")


def _timing(source: str, sense: str, kind: str, tables: Iterable[str]) -> Iterator[str]:
    """An arc; ``tables`` are of delay and slew to a rise, then to a fall."""
    yield f"      timing () {{ related_pin : {source};"
    yield f"        timing_sense : {sense}_unate; timing_type : {kind};"
    for name, text in zip(_NAMES, tables, strict=True):
        yield f"        {name} {text}"
    yield "      }"


def _power(related: str, table: str) -> Iterator[str]:
    """Energy of every transition, whatever the state."""
    yield f'      internal_power () {{ {related} when : "1";'
    yield from (f"        {edge}_power {table}" for edge in ("rise", "fall"))
    yield "      }"


def _scalar(value: float) -> str:
    return f'(scalar) {{ values ("{value:.7g}"); }}'


def _table(template: str, rows: _Rows, slews: Sequence[float], loads: Sequence[float]) -> str:
    axes = f"index_1 ({_quoted(slews)}); index_2 ({_quoted(loads)});"
    return f"({template}) {{ {axes} values ({', '.join(map(_quoted, rows))}); }}"


def _quoted(values: Sequence[float]) -> str:
    return '"' + ", ".join(f"{value:.7g}" for value in values) + '"'


def _inputs(netlist: Netlist) -> Iterator[tuple[str, Net]]:
    for port, nets in netlist.inputs.items():
        for k, net in enumerate(nets):
            yield f"{port}_{k}", net


def _drivers(netlist: Netlist) -> Iterator[tuple[str, str, Net]]:
    """Instance and pin of every net that is driven."""
    for k, (_, net) in enumerate(_inputs(netlist)):
        yield f"source{k}", "Y", net
    for k, instance in enumerate(netlist.instances):
        for pin in instance.cell.outputs:
            if pin in instance.pins:
                yield f"u{k}", pin, instance.pins[pin]


def _verilog(netlist: Netlist) -> str:
    outputs = [
        (f"{port}_{k}", net) for port, nets in netlist.outputs.items() for k, net in enumerate(nets)
    ]
    rates = [f"rate_{name}_{pin}" for name, pin, _ in _drivers(netlist)]
    ports = [*rates, *(name for name, _ in outputs)]
    connections: dict[str, list[str]] = {}
    for name, pin, net in _drivers(netlist):
        connections.setdefault(name, []).extend(
            [f".rate_{pin}(rate_{name}_{pin})", f".{pin}({_wire(net)})"]
        )
    kinds = {f"u{k}": i.cell.name for k, i in enumerate(netlist.instances)}
    for k, instance in enumerate(netlist.instances):
        own = connections.setdefault(f"u{k}", [])
        own += [f".{pin}({_wire(instance.pins[pin])})" for pin in instance.cell.inputs]
    nets = sorted({_wire(net) for _, _, net in _drivers(netlist)})
    return "\n".join(
        [
            f"module top({', '.join(ports)});",
            *(f"  input {name};" for name in rates),
            *(f"  output {name};" for name, _ in outputs),
            *(f"  wire {net};" for net in nets),
            *(f"  {kinds.get(n, 'SOURCE')} {n}({', '.join(c)});" for n, c in connections.items()),
            *(f"  assign {name} = {_wire(net)};" for name, net in outputs),
            "endmodule",
            "",
        ]
    )


def _wire(net: Net) -> str:
    return f"n{net}" if isinstance(net, int) else f"1'b{0 if net == 'x' else net}"


def _commands(
    netlist: Netlist, technology: Technology, activity: Activity, period: float, wire: float
) -> str:
    clocks = {net for name, net in _inputs(netlist) if name == "clk_0"}
    lines = ["read_liberty cells.lib", "read_verilog netlist.v", "link_design top"]
    ports, rates = [], []
    for name, pin, net in _drivers(netlist):
        port = f"rate_{name}_{pin}"
        if net in clocks:
            lines.append(f"create_clock -name clk -period {period} [get_ports {port}]")
            lines.append(f"set_clock_transition {technology.clock_slew} [get_clocks clk]")
        else:
            rate = activity.toggles.get(net, 0) / activity.streams / activity.cycles
            ports.append(port)
            rates.append(f"set_power_activity -input_ports {port} -activity {rate} -duty 0.5")
    if not clocks:
        lines.append(f"create_clock -name clk -period {period}")
    return "\n".join(
        [
            *lines,
            f"set_input_delay 0 -clock clk [get_ports {{{' '.join(ports)}}}]",
            f"set_load {technology.output_load + wire} [all_outputs]",
            "set_output_delay 0 -clock clk [all_outputs]",
            *rates,
            "report_power -digits 9",
            "exit",
            "",
        ]
    )
