"""Clock gates: where the flow puts them, that proofs see through them, timing and energy."""

from dataclasses import replace

import pytest
from amaranth import Module, Signal
from amaranth.back import rtlil
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.synth.activity import Simulator
from tilewright.synth.clock_gates import MIN_GROUP, SLOWEST, find_clock_gate
from tilewright.synth.energy import energy_of, wire_capacitance
from tilewright.synth.equivalence import Verdict, check_equivalence
from tilewright.synth.flow import Goal, synthesise
from tilewright.synth.netlist import Netlist, gate_of_each
from tilewright.synth.technology import load_technology
from tilewright.synth.yosys import SynthesisError

ASAP7, SKY130 = load_technology("asap7"), load_technology("sky130hd")


class Registers(wiring.Component):
    """Registers of every kind: with an enable, a reset, both or neither, and few of them."""

    load: In(1)
    other: In(1)
    d: In(8)
    plain: Out(8)
    held: Out(8)
    reset: Out(8)
    few: Out(MIN_GROUP - 1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        held = Signal(8, reset_less=True)
        plain = Signal(8, reset_less=True)
        m.d.comb += [self.held.eq(held), self.plain.eq(plain)]
        m.d.sync += plain.eq(self.d)
        with m.If(self.load & ~self.other):
            m.d.sync += held.eq(~self.d)
        with m.If(self.load):
            m.d.sync += self.reset.eq(self.d)
        with m.If(self.other):
            m.d.sync += self.few.eq(self.d)
        return m


class Wide(wiring.Component):
    """``width`` registers behind one enable."""

    def __init__(self, width: int):
        super().__init__({"load": In(1), "d": In(width), "q": Out(width)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        with m.If(self.load):
            m.d.sync += self.q.eq(self.d)
        return m


RTLIL = rtlil.convert(Registers(), name="top", emit_src=False)


@pytest.fixture(scope="module", params=["asap7", "sky130hd"])
def gated(request):
    return synthesise(RTLIL, "top", load_technology(request.param))


@pytest.mark.parametrize(("technology", "name"), [(ASAP7, "ICGx5"), (SKY130, "dlclkp_4")])
def test_gate_is_the_smallest_for_what_it_drives_and_keeps_its_clock_steep(technology, name):
    cell, registers = find_clock_gate(technology)
    assert name in cell.name
    pin = (
        max(c.inputs[c.clock_pin] for c in technology.cells.values() if c.name.startswith("DFF"))
        if technology is ASAP7
        else None
    )
    if pin is not None:
        (arc,) = cell.arcs
        slew = technology.clock_slew
        assert arc.rise.slew.at(slew, registers * pin) <= SLOWEST * slew
        assert arc.rise.slew.at(slew, (registers + 1) * pin) > SLOWEST * slew


def test_enables_of_enough_registers_become_gates(gated):
    netlist = gated.netlist
    assert gated.gating
    assert (netlist.register_bits, netlist.gated_bits) == (27, 16)
    behind = {}
    for register, gate in zip(
        netlist.registers, gate_of_each(netlist, netlist.registers), strict=True
    ):
        kind = register.name.partition("[")[0].partition("$")[0]
        behind.setdefault(kind, set()).add(gate.name if gate else None)
    assert behind["plain"] == behind["few"] == {None}
    assert None not in behind["held"] | behind["reset"]
    assert not behind["held"] & behind["reset"]


def test_without_gating_enables_are_multiplexers():
    result = synthesise(RTLIL, "top", ASAP7, gating=False)
    assert not result.gating and not result.netlist.clock_gates
    assert check_equivalence(RTLIL, result.netlist).verdict is Verdict.PROVED


def test_smaller_groups_on_demand():
    result = synthesise(RTLIL, "top", ASAP7, min_group=MIN_GROUP - 1)
    assert result.netlist.gated_bits == 16 + MIN_GROUP - 1


@pytest.mark.parametrize("goal", Goal, ids=lambda goal: goal.value)
def test_groups_are_divided_among_gates_called_after_their_registers(goal):
    limit = find_clock_gate(ASAP7).registers
    width = 2 * limit + 1
    text = rtlil.convert(Wide(width), name="wide", emit_src=False)
    netlist = synthesise(text, "wide", ASAP7, goal).netlist
    gates = [gate.name for gate in gate_of_each(netlist, netlist.registers) if gate]
    counts = sorted(gates.count(name) for name in set(gates))
    assert len(gates) == width and len(counts) == 3
    assert counts[0] >= limit // 2 and counts[-1] <= limit
    assert all(name.startswith("q") for name in gates)
    assert check_equivalence(text, netlist).verdict is Verdict.PROVED


def test_gated_netlist_is_proved(gated):
    found = check_equivalence(RTLIL, gated.netlist)
    assert found.verdict is Verdict.PROVED
    assert found.registers == gated.netlist.register_bits


def _with(netlist: Netlist, name: str, **pins: object) -> Netlist:
    """The netlist with other nets at the pins of one instance."""
    instances = [replace(i, pins=i.pins | pins) if i.name == name else i for i in netlist.instances]
    return replace(netlist, instances=instances)


def _gate_and_register(netlist: Netlist, kind: str):
    for register, gate in zip(
        netlist.registers, gate_of_each(netlist, netlist.registers), strict=True
    ):
        if register.name.startswith(kind) and gate is not None:
            return gate, register
    raise AssertionError(kind)


@pytest.mark.parametrize("fault", ["wrong enable", "always open", "no gate"])
def test_proof_finds_a_fault_of_a_gate(gated, fault):
    gate, _ = _gate_and_register(gated.netlist, "held")
    other, register = _gate_and_register(gated.netlist, "reset")
    enable, clock = gate.cell.clock_gate.enable, register.cell.clock_pin
    name, pins = {
        "wrong enable": (gate.name, {enable: other.pins[enable]}),
        "always open": (gate.name, {enable: "1"}),
        "no gate": (register.name, {clock: other.pins[other.cell.clock_pin]}),
    }[fault]
    wrong = _with(gated.netlist, name, **pins)
    assert check_equivalence(RTLIL, wrong).verdict is Verdict.DIFFERENT


def test_clock_from_logic_is_refused(gated):
    _, register = _gate_and_register(gated.netlist, "reset")
    data = next(iter(register.cell.setup))
    wrong = _with(gated.netlist, register.name, **{register.cell.clock_pin: register.pins[data]})
    with pytest.raises(SynthesisError, match=r"^top: the clock of reset.* comes neither from"):
        check_equivalence(RTLIL, wrong)


def _steps(simulator: Simulator, counters, inputs):
    """Outputs as numbers after each of the cycles ``(rst, load, other, d)``."""
    for rst, load, other, d in inputs:
        values = {"rst": [rst], "load": [load], "other": [other], "clk": [0]}
        out = simulator.step(values | {"d": [d >> k & 1 for k in range(8)]}, counters)
        yield {name: sum(bit << k for k, bit in enumerate(bits)) for name, bits in out.items()}


def test_simulated_registers_hold_and_reset_without_their_enable(gated):
    simulator = Simulator(gated.netlist)
    cycles = [
        (1, 0, 0, 0),
        (0, 1, 0, 0x5A),
        (0, 0, 0, 0xFF),
        (0, 1, 1, 0x3C),
        (1, 0, 0, 0),
        (0,) * 4,
    ]
    *_, taken, held, at_reset, after = _steps(simulator, simulator.counters(), [(0,) * 4, *cycles])
    assert (taken["reset"], taken["held"]) == (0x5A, 0xA5)
    assert (held["reset"], held["held"]) == (0x5A, 0xA5)
    assert at_reset["reset"] == 0x3C
    assert after["reset"] == 0


def test_clock_counts_by_pulses_that_pass(gated):
    netlist, technology = gated.netlist, gated.technology
    simulator = Simulator(netlist)
    idle, busy = simulator.counters(), simulator.counters()
    for inputs, counters in (([(0, 0, 0, 0)] * 4, idle), ([(0, 1, 0, 0)] * 4, busy)):
        list(_steps(simulator, counters, inputs))
    wire = wire_capacitance(netlist, technology)

    def once(cell) -> float:
        return cell.clock_energy + technology.supply**2 * (cell.inputs[cell.clock_pin] + wire)

    gates = netlist.clock_gates.values()
    registers = netlist.registers
    free = [r for r, g in zip(registers, gate_of_each(netlist, registers), strict=True) if not g]
    quiet = sum(once(i.cell) for i in (*gates, *free))
    passing = sum(2 * g.cell.energy[g.cell.clock_gate.gated] for g in gates)
    every = sum(once(i.cell) for i in (*gates, *registers)) + passing
    for counters, wanted in ((idle, quiet), (busy, every)):
        activity = simulator.activity(counters, 4)
        assert energy_of(netlist, technology, activity, 1000.0).clock == pytest.approx(4 * wanted)


def test_enable_must_arrive_before_the_edge(gated):
    path = gated.paths["input_to_register"]
    gates = {g.cell.name: g.cell for g in gated.netlist.clock_gates.values()}
    (cell,) = gates.values()
    slow = replace(cell, setup=dict.fromkeys(cell.setup, 1e5))
    instances = [replace(i, cell=slow) if i.cell is cell else i for i in gated.netlist.instances]
    from tilewright.synth.timing import longest_paths

    slower = longest_paths(replace(gated.netlist, instances=instances), gated.technology)
    assert path.delay < 1e5 < slower["input_to_register"].delay
    assert "$gate" in slower["input_to_register"].end


def test_registers_behind_a_gate_start_later(gated):
    """Their clock is slower than the ideal one, or as steep."""
    text = rtlil.convert(Wide(40), name="wide", emit_src=False)
    with_gates, without = (
        synthesise(text, "wide", gated.technology, gating=gating).paths["register_to_output"].delay
        for gating in (True, False)
    )
    assert with_gates > without
