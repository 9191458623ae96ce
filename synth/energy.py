"""Energy of a mapped netlist on a workload: internal, switching, clock and leakage.

- internal: what a cell itself uses, per transition of an output and of a flip-flop's data pins,
  from its table
- switching: half C V^2 per transition of a net; C is the pins it drives, what a port drives, and
  its wire
- clock: per flip-flop and clock pulse that reaches it, its internal energy without a change and
  twice half C V^2 of its clock pin and wire; the same per clock gate and cycle, and what each
  passed pulse adds inside the gate; there is no clock tree
- memory: of macros, per read and per write, from the technology's model; their clock pins count
  as those of flip-flops
- leakage: of every cell, over the clock period

There is no placement, so wires are estimated: every sink costs one connection of Donath's average
length (W. E. Donath, IEEE Trans. Circuits and Systems 26(4), 1979), in pitches of the average cell
at ``UTILISATION``, times the technology's capacitance per length.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.synth.activity import Activity
from tilewright.synth.netlist import Instance, Net, Netlist, gate_of_each
from tilewright.synth.technology import Technology

RENT_EXPONENT = 0.6  # of datapath logic
UTILISATION = 0.7  # of a row by cells
COMPONENTS = ("internal", "switching", "clock", "memory", "leakage")


@dataclass(frozen=True)
class Energy:
    """fJ per stream over the counted cycles."""

    internal: float
    switching: float
    clock: float
    memory: float
    leakage: float
    # Part of ``clock`` that flip-flops use in cycles in which they change: all that would be left
    # if each one's clock stopped in all others. Real clock gates save less and use energy too.
    needed_clock: float
    # They sum to the whole; "" is the top, with its input nets. Parts have no parts.
    parts: dict[str, "Energy"]

    @property
    def total(self) -> float:
        return sum(getattr(self, name) for name in COMPONENTS)

    @property
    def least(self) -> float:
        """The total with ``needed_clock`` as ``clock``."""
        return self.total - self.clock + self.needed_clock

    @property
    def by_part(self) -> dict[str, float]:
        return {name: part.total for name, part in self.parts.items()}


def energy_of(
    netlist: Netlist,
    technology: Technology,
    activity: Activity,
    period: float,
    part_of: Sequence[str] | None = None,
    wire: float | None = None,
) -> Energy:
    """Mean energy per stream in the counted cycles, at a clock of ``period`` ps.

    ``part_of`` names the part of each instance, by default one for all; ``wire`` is the fF of a
    connection to one sink, by default estimated.
    """
    if wire is None:
        wire = wire_capacitance(netlist, technology)
    half_square = technology.supply**2 / 2  # fF * V^2 is fJ
    loads = net_loads(netlist, technology, wire)
    registers = netlist.registers
    pulses = {
        register.name: activity.pulses[gate.name] / activity.streams
        for register, gate in zip(registers, gate_of_each(netlist, registers), strict=True)
        if gate is not None
    }

    def transitions(net: Net | None) -> float:
        return 0.0 if net is None else activity.toggles.get(net, 0) / activity.streams

    def components(instance: Instance) -> tuple[float, ...]:
        cell, pins = instance.cell, instance.pins
        changes = {pin: transitions(pins.get(pin)) for pin in cell.outputs}
        internal = sum(cell.energy.get(pin, 0.0) * count for pin, count in changes.items())
        internal += sum(e * transitions(pins[pin]) for pin, e in cell.input_energy.items())
        switching = half_square * sum(
            loads[pins[pin]] * count for pin, count in changes.items() if count
        )
        clock = needed = 0.0
        if cell.clock_pin is not None:
            once = cell.clock_energy + 2 * half_square * (cell.inputs[cell.clock_pin] + wire)
            clock = pulses.get(instance.name, activity.cycles) * once
            # Macros are clocked in every cycle.
            needed = clock if cell.memory_bits else max(changes.values()) * once
        if cell.clock_gate is not None:
            # The gated net counts at the flip-flops, and has no toggles.
            passed = activity.pulses[instance.name] / activity.streams
            clock += 2 * passed * cell.energy.get(cell.clock_gate.gated, 0.0)
        reads, writes = activity.accesses.get(instance.name, (0.0, 0.0))
        memory = (reads * cell.read_energy + writes * cell.write_energy) / activity.streams
        leakage = activity.cycles * cell.leakage * period * 1e-6  # nW * ps is 1e-6 fJ
        return internal, switching, clock, memory, leakage, needed

    parts: dict[str, list[float]] = {"": [0.0] * (len(COMPONENTS) + 1)}
    for instance, part in zip(
        netlist.instances, part_of or [""] * len(netlist.instances), strict=True
    ):
        values = components(instance)
        sums = parts.get(part, [0.0] * len(values))
        parts[part] = [total + value for total, value in zip(sums, values, strict=True)]
    parts[""][COMPONENTS.index("switching")] += half_square * sum(
        loads[net] * transitions(net)
        for port, nets in netlist.inputs.items()
        for net in nets
        if port != "clk"
    )
    whole = [sum(values) for values in zip(*parts.values(), strict=True)]
    return _energy(whole, {name: _energy(sums, {}) for name, sums in sorted(parts.items())})


def _energy(sums: Sequence[float], parts: dict[str, Energy]) -> Energy:
    internal, switching, clock, memory, leakage, needed_clock = sums
    return Energy(internal, switching, clock, memory, leakage, needed_clock, parts)


def net_loads(netlist: Netlist, technology: Technology, wire: float) -> defaultdict[Net, float]:
    """Load of each net in fF: pins, output ports, and ``wire`` for each of these."""
    loads: defaultdict[Net, float] = defaultdict(float)
    for instance in netlist.instances:
        for pin, capacitance in instance.cell.inputs.items():
            loads[instance.pins[pin]] += capacitance + wire
    for nets in netlist.outputs.values():
        for net in nets:
            loads[net] += technology.output_load + wire
    return loads


def wire_capacitance(netlist: Netlist, technology: Technology) -> float:
    """Wire capacitance per sink, in fF."""
    cells = max(2, sum(not instance.cell.memory_bits for instance in netlist.instances))
    pitch = ((netlist.area - netlist.memory_area) / cells / UTILISATION) ** 0.5
    return connection_length(cells) * pitch * technology.wire_capacitance


def connection_length(cells: int, rent: float = RENT_EXPONENT) -> float:
    """Donath's average length of a connection among ``cells`` cells, in their pitches."""
    near = 7 * (cells ** (rent - 0.5) - 1) / (4 ** (rent - 0.5) - 1)
    far = (1 - cells ** (rent - 1.5)) / (1 - 4 ** (rent - 1.5))
    return 2 / 9 * (near - far) * (1 - 4 ** (rent - 1)) / (1 - cells ** (rent - 1))
