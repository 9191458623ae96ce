"""A mapped netlist: cells of a technology, the nets between them, the ports at the edge."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from tilewright.synth.technology import Cell, Technology
from tilewright.synth.yosys import SynthesisError

# Yosys's own cells, left where a library has no match.
_GENERIC = {
    "$_DFF_P_": "a flip-flop on the rising clock edge",
    "$_DFF_N_": "a flip-flop on the falling clock edge",
    "$_DLATCH_P_": "a latch open at 1",
    "$_DLATCH_N_": "a latch open at 0",
}

Net = int | str  # a number, or "0", "1", "x" for a constant


@dataclass(frozen=True)
class Instance:
    name: str
    cell: Cell
    pins: dict[str, Net]


@dataclass(frozen=True)
class Netlist:
    name: str
    inputs: dict[str, list[Net]]  # port name to nets, lowest bit first
    outputs: dict[str, list[Net]]
    instances: list[Instance]
    net_names: dict[Net, str]  # ports and named signals

    @property
    def cell_counts(self) -> dict[str, int]:
        counts = Counter(instance.cell.name for instance in self.instances)
        return dict(sorted(counts.items()))

    @property
    def area(self) -> float:
        return sum(instance.cell.area for instance in self.instances)

    @property
    def leakage(self) -> float:
        return sum(instance.cell.leakage for instance in self.instances)

    @property
    def registers(self) -> list[Instance]:
        """Flip-flops and latches; neither memories nor the latches of clock gates."""
        return [
            instance
            for instance in self.instances
            if instance.cell.state is not None
            and not instance.cell.memory_bits
            and instance.cell.clock_gate is None
        ]

    @property
    def register_bits(self) -> int:
        return len(self.registers)

    @property
    def clock_gates(self) -> dict[Net, Instance]:
        """Every clock gate, by the net of its gated clock."""
        return {
            instance.pins[instance.cell.clock_gate.gated]: instance
            for instance in self.instances
            if instance.cell.clock_gate is not None
        }

    @property
    def gated_bits(self) -> int:
        """Number of gated registers."""
        gates = self.clock_gates
        return sum(r.pins.get(r.cell.clock_pin or "") in gates for r in self.registers)

    @property
    def memory_bits(self) -> int:
        return sum(instance.cell.memory_bits for instance in self.instances)

    @property
    def memory_area(self) -> float:
        return sum(i.cell.area for i in self.instances if i.cell.memory_bits)


def read_netlist(
    text: str, top: str, technology: Technology, macros: Mapping[str, Cell] | None = None
) -> Netlist:
    """Read Yosys's ``write_json``; every cell must be in ``technology`` or ``macros``."""
    module = json.loads(text)["modules"][top]
    cells = {**technology.cells, **(macros or {})}
    unknown = sorted({c["type"] for c in module["cells"].values()} - cells.keys())
    if unknown:
        raise no_cell_for(unknown, technology)
    instances = [
        Instance(name, cells[c["type"]], pins_of(cells[c["type"]], c["connections"]))
        for name, c in module["cells"].items()
    ]
    ports = module["ports"]
    return Netlist(
        name=top,
        inputs={n: p["bits"] for n, p in ports.items() if p["direction"] == "input"},
        outputs={n: p["bits"] for n, p in ports.items() if p["direction"] == "output"},
        instances=instances,
        net_names=net_names(module),
    )


def pins_of(cell: Cell, connections: dict[str, list[Net]]) -> dict[str, Net]:
    """Pin to net; the bits of a bus, which only macros have, are pins of their own."""
    if not cell.memory_bits:
        return {pin: nets[0] for pin, nets in connections.items()}
    return {
        pin if pin in cell.inputs else f"{pin}[{k}]": net
        for pin, nets in connections.items()
        for k, net in enumerate(nets)
    }


def no_cell_for(kinds: Sequence[str], technology: Technology) -> SynthesisError:
    """Error for a technology that lacks cells of Yosys's ``kinds``."""
    wanted = ", ".join(_GENERIC.get(kind, kind) for kind in kinds)
    return SynthesisError(f"{technology.name} has no cell for {wanted}")


def net_names(module: dict[str, Any]) -> dict[Net, str]:
    """One readable name per net: a port's before a signal's, then the shortest."""
    candidates: list[tuple[bool, int, str, list[Net]]] = [
        (name not in module["ports"], len(name), name, entry["bits"])
        for name, entry in module["netnames"].items()
        if not entry["hide_name"]
    ]
    names: dict[Net, str] = {}
    for _, _, name, bits in sorted(candidates):
        for k, net in enumerate(bits):
            if isinstance(net, int):
                names.setdefault(net, f"{name}[{k}]" if len(bits) > 1 else name)
    return names


def gate_of_each(netlist: Netlist, instances: Sequence[Instance]) -> list[Instance | None]:
    """The clock gate of each instance, None where its clock is a port; others are refused."""
    gates = netlist.clock_gates
    ports = {net for nets in netlist.inputs.values() for net in nets}

    def clock_of(instance: Instance) -> Net:
        return instance.pins[instance.cell.clock_pin or ""]

    found: list[Instance | None] = []
    for instance in instances:
        gate = gates.get(clock_of(instance))
        if clock_of(instance if gate is None else gate) not in ports:
            raise SynthesisError(
                f"{netlist.name}: the clock of {instance.name} comes neither from a port nor from"
                " one clock gate behind a port"
            )
        found.append(gate)
    return found


def in_signal_order(netlist: Netlist) -> list[Instance]:
    """The combinational instances, each after all that drive it."""
    combinational = [i for i in netlist.instances if i.cell.state is None]
    driver = {
        instance.pins[pin]: k
        for k, instance in enumerate(combinational)
        for pin in instance.cell.outputs
        if pin in instance.pins
    }
    sources = {
        k: [driver[net] for pin in instance.cell.inputs if (net := instance.pins[pin]) in driver]
        for k, instance in enumerate(combinational)
    }
    try:
        return [combinational[k] for k in TopologicalSorter(sources).static_order()]
    except CycleError as error:
        looped = combinational[error.args[1][0]]
        named = [netlist.net_names[n] for n in looped.pins.values() if n in netlist.net_names]
        through = named[0] if named else looped.name
        raise SynthesisError(f"{netlist.name}: combinational loop through {through}") from None
