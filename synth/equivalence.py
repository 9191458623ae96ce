"""Proof by ABC's combinational check that a mapped netlist implements its RTL.

Both sides are cut at their registers, whose names synthesis keeps: a register is an input (its
state) and an output (its next state). RTL and netlist are equivalent when outputs and next states
agree for all inputs and all states. The RTL side is Yosys's own reading of it into gates, without
optimisation across registers and without ABC; the netlist side is the functions of the technology's
cells. Register values before the first reset are not compared.

Memory macros are cut in the same way: their inputs become outputs, their read data inputs.

A clock gate is a latch, open while the clock is 0, followed by an AND, so a gated register is
clocked exactly at those edges before which the enable was 1. In the proof such a register holds its
value where the enable is 0; its clock must come from one gate, and that one's from a port, or the
netlist is refused.
"""

import json
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tilewright.base.cache import get_or_make, source_of
from tilewright.base.code import code_of
from tilewright.synth.function import parse_function, truth_table
from tilewright.synth.memory import find_macros, macro_port_module
from tilewright.synth.netlist import Instance, Net, Netlist, gate_of_each
from tilewright.synth.technology import State
from tilewright.synth.yosys import run_abc, run_yosys


class Verdict(Enum):
    PROVED = "proved"
    PROVED_FROM_GATES = "proved from generic gates"  # after Yosys's `synth`, without ABC
    BENCHED = "passes its bench"  # where no proof was found
    DIFFERENT = "different"
    UNDECIDED = "not decided"  # within the time
    UNMATCHED = "registers differ"  # a register that only one side has


@dataclass(frozen=True)
class Equivalence:
    verdict: Verdict
    outputs: int  # bits compared, next states among them
    registers: int
    detail: str = ""

    @property
    def as_dict(self) -> dict[str, Any]:
        """Form in records and ``synth --json``."""
        return {**vars(self), "verdict": self.verdict.value}


@dataclass(frozen=True)
class _Logic:
    """Inputs, outputs and tables between them, in BLIF's terms."""

    inputs: list[str]
    outputs: dict[str, str]  # name and its net
    tables: list[tuple[list[str], str, int]]  # nets in, net out, truth table

    def blif(self, name: str) -> str:
        lines = [f".model {name}", ".inputs " + " ".join(self.inputs)]
        lines.append(".outputs " + " ".join(self.outputs))
        for given, net, table in self.tables:
            lines.append(".names " + " ".join([*given, net]))
            rows = [k for k in range(1 << len(given)) if table >> k & 1]
            bits = ("".join(str(k >> j & 1) for j in range(len(given))) for k in rows)
            lines += [f"{row} 1" if row else "1" for row in bits]
        lines += [f".names {net} {output}\n1 1" for output, net in self.outputs.items()]
        return "\n".join([*lines, ".end", ""])


def check_equivalence(rtlil: str, netlist: Netlist, seconds: int | None = None) -> Equivalence:
    """Compare ``netlist`` with the module of its name in ``rtlil``; results are cached.

    ABC may take ``seconds`` of processor time with the RTL as generic gates, by default a minute
    and one more per 500 cells, and ten at most with the RTL as it is.
    """
    if seconds is None:
        seconds = 60 + len(netlist.instances) // 500
    logic = _of_netlist(netlist)
    ingredients = (
        *("equivalence", rtlil, logic.blif(netlist.name), str(seconds)),
        *(version("pyosys"), code_of(source_of(__name__))),
    )
    found = get_or_make(ingredients, lambda: _found(rtlil, netlist.name, logic, seconds))
    return Equivalence(**found | {"verdict": Verdict(found["verdict"])})


def _found(rtlil: str, top: str, netlist: _Logic, seconds: int) -> dict[str, Any]:
    found = _check(rtlil, top, netlist, _PLAIN, min(seconds, 10))
    if found.verdict not in (Verdict.PROVED, Verdict.DIFFERENT):
        found = _check(rtlil, top, netlist, (f"synth -flatten -top {top} -noabc",), seconds)
        if found.verdict is Verdict.PROVED:
            found = replace(found, verdict=Verdict.PROVED_FROM_GATES)
    return found.as_dict


def _check(
    rtlil: str, top: str, found: _Logic, reading: Sequence[str], seconds: int
) -> Equivalence:
    with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
        folder = Path(name)
        wanted = _of_rtl(rtlil, top, reading, folder)
        registers = sum(output.startswith("next:") for output in found.outputs)
        sizes = len(found.outputs), registers
        for kind, one, other in (
            ("netlist", found.outputs.keys(), wanted.outputs.keys()),
            ("RTL", wanted.outputs.keys(), found.outputs.keys()),
        ):
            if one - other:
                detail = f"only in the {kind}: {', '.join(sorted(one - other)[:3])}"
                return Equivalence(Verdict.UNMATCHED, *sizes, detail)
        inputs = sorted({*wanted.inputs, *found.inputs})
        for side, logic in (("rtl", wanted), ("netlist", found)):
            same = _Logic(inputs, dict(sorted(logic.outputs.items())), logic.tables)
            (folder / f"{side}.blif").write_text(same.blif(side))
        return Equivalence(_compare(folder, seconds), *sizes)


def _compare(folder: Path, seconds: int) -> Verdict:
    done = run_abc("cec rtl.blif netlist.blif", folder, seconds)
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return Verdict.UNDECIDED
    if "Networks are equivalent" in done.stdout:
        return Verdict.PROVED
    if "NOT EQUIVALENT" in done.stdout:
        return Verdict.DIFFERENT
    if "UNDECIDED" in done.stdout:
        return Verdict.UNDECIDED
    raise RuntimeError(f"abc ended in an unknown way: {(done.stdout + done.stderr)[-500:]}")


# Word-level optimisation first, as in the flow: it removes the same registers. The second
# reading shares the flow's `synth`, which turns sums into compressor trees: for sums of many terms,
# where no proof is found between trees of different shape.
_PLAIN = ("proc", "flatten", "opt -full", "wreduce", "peepopt", "opt -full", "memory_map")
_AS_GATES = (
    "opt -full -purge",
    "techmap",
    "opt -purge",
    "dffunmap",
    "simplemap",
    "aigmap",
    "opt_clean -purge",
    "rename -wire",
    "setundef -zero",
    "write_json rtl.json",
)
_AND, _NOT, _SAME = 0b1000, 0b01, 0b10
_CHOICE = 0b11011000  # the second where the first is 1, otherwise the third


def _of_rtl(rtlil: str, top: str, reading: Sequence[str], folder: Path) -> _Logic:
    (folder / "top.il").write_text(rtlil)
    (folder / "macros.v").write_text("".join(map(macro_port_module, find_macros(rtlil))))
    start = ["read_verilog -lib macros.v", "read_rtlil top.il", f"hierarchy -top {top}"]
    run_yosys([*start, *reading, *_AS_GATES], folder)
    module = json.loads((folder / "rtl.json").read_text())["modules"][top]
    ports = module["ports"].items()
    logic = _ports(
        *({n: p["bits"] for n, p in ports if p["direction"] == way} for way in ("input", "output"))
    )
    for name, cell in module["cells"].items():
        pins = {pin: [_net(net) for net in nets] for pin, nets in cell["connections"].items()}
        match cell["type"]:
            case "$_AND_":
                logic.tables.append(([*pins["A"], *pins["B"]], pins["Y"][0], _AND))
            case "$_NOT_":
                logic.tables.append((pins["A"], pins["Y"][0], _NOT))
            case "$_DFF_P_":
                held = f"holds:{_register(name)}"
                logic.inputs.append(held)
                logic.tables.append(([held], pins["Q"][0], _SAME))
                logic.outputs[f"next:{_register(name)}"] = pins["D"][0]
            case kind if kind.startswith("sram_"):
                flat = {
                    f"{pin}[{k}]": net for pin, nets in pins.items() for k, net in enumerate(nets)
                }
                _cut_macro(logic, name, flat)
            case kind:
                raise ValueError(f"{top}: a cell {kind} is not expected here")
    return logic


def _of_netlist(netlist: Netlist) -> _Logic:
    logic = _ports(netlist.inputs, netlist.outputs)
    registers = netlist.registers
    gates = {
        register.name: gate
        for register, gate in zip(registers, gate_of_each(netlist, registers), strict=True)
    }
    for k, instance in enumerate(netlist.instances):
        cell, state = instance.cell, instance.cell.state
        if cell.clock_gate is not None:
            continue
        nets = {pin: _net(net) for pin, net in instance.pins.items()}
        if cell.memory_bits:
            _cut_macro(logic, instance.name, {_bus(pin): net for pin, net in nets.items()})
            continue
        if state is not None:
            nets |= dict(zip(state.names, (f"state{k}", f"inverse{k}"), strict=True))
            _cut_flip_flop(logic, instance, state, nets, gates[instance.name])
        for pin, function in cell.outputs.items():
            if pin in instance.pins:
                logic.tables.append(_row(function, nets, nets[pin]))
    return logic


def _ports(inputs: dict[str, list[Net]], outputs: dict[str, list[Net]]) -> _Logic:
    logic = _Logic([], {}, [([], "zero", 0), ([], "one", 1)])
    for port, nets in inputs.items():
        for k, net in enumerate(nets):
            logic.inputs.append(f"{port}[{k}]")
            logic.tables.append(([f"{port}[{k}]"], _net(net), _SAME))
    for port, nets in outputs.items():
        logic.outputs.update({f"out:{port}[{k}]": _net(net) for k, net in enumerate(nets)})
    return logic


def _cut_flip_flop(
    logic: _Logic, instance: Instance, state: State, nets: dict[str, str], gate: Instance | None
) -> None:
    """The register is the bit at the data input, whatever the cell stores."""
    name = _register(instance.name)
    data = next(pin for pin in parse_function(state.data).pins if pin not in state.names)
    inverted = not _rises_with(state.data, data)
    logic.inputs.append(f"holds:{name}")
    for stored, same in zip(state.names, (not inverted, inverted), strict=True):
        logic.tables.append(([f"holds:{name}"], nets[stored], _SAME if same else _NOT))
    following = f"following:{name}"
    logic.tables.append(_row(f"!({state.data})" if inverted else state.data, nets, following))
    if gate is not None and gate.cell.state is not None:
        enable, taken = f"enable:{name}", following
        following = f"gated:{name}"
        pins = {pin: _net(net) for pin, net in gate.pins.items()}
        logic.tables.append(_row(gate.cell.state.data, pins, enable))
        logic.tables.append(([enable, taken, f"holds:{name}"], following, _CHOICE))
    logic.outputs[f"next:{name}"] = following


def _rises_with(function: str, pin: str) -> bool:
    parsed = parse_function(function)
    others = [name for name in parsed.pins if name != pin]
    table = truth_table(parsed, (pin, *others))
    return any(table >> (k | 1) & 1 > table >> k & 1 for k in range(0, 2 << len(others), 2))


def _cut_macro(logic: _Logic, name: str, nets: dict[str, str]) -> None:
    for pin, net in nets.items():
        if pin.startswith("read_data["):
            logic.inputs.append(f"{name}:{pin}")
            logic.tables.append(([f"{name}:{pin}"], net, _SAME))
        elif not pin.startswith("clk"):
            logic.outputs[f"{name}:{pin}"] = net


def _row(function: str, nets: dict[str, str], net: str) -> tuple[list[str], str, int]:
    parsed = parse_function(function)
    return [nets[pin] for pin in parsed.pins], net, truth_table(parsed, parsed.pins)


def _register(cell: str) -> str:
    return cell.partition("$_")[0]


def _bus(pin: str) -> str:
    return pin if "[" in pin else f"{pin}[0]"


def _net(net: Net) -> str:
    if isinstance(net, int):
        return f"n{net}"
    return "one" if net == "1" else "zero"
