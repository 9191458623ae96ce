"""Modules of which a design has many copies: translated once, and called for each of them.

Verilator writes the logic of every copy anew. An array of PEs is then more code than the processor
has room for near it, and takes most of an hour to compile. A module whose outputs are registers
needs no more than a call at the edge of the clock, so it can be a model of its own: what remains
in its place is a stub that makes this call through DPI (``src/shared.h``).
"""

import re
from collections import Counter
from dataclasses import dataclass

from tilewright.verify.native.netlist import Module, read_modules

__all__ = ["Shared", "share_modules"]

LEAST_COPIES = 4
LEAST_TEXT = 100_000  # characters of all copies: below, a call costs more than it saves
_EDGE = re.compile(r"always @\((.*?)\)")


@dataclass(frozen=True)
class Shared:
    """A module that is a model of its own, with one input and one output for all its ports."""

    name: str  # of the model
    verilog: str
    copies: int

    @property
    def glue(self) -> str:
        """C++ that the stub calls."""
        model = f"V{self.name}"
        copy = f"Shared<{model}, {model}___024root>"
        return f"""// Written by tilewright.verify.native.share.
#include "shared.h"
#include "svdpi.h"
#include "{model}.h"
#include "{model}___024root.h"
extern "C" void* {self.name}_make() {{ return new {copy}; }}
extern "C" void {self.name}_rise(void* copy, const svBitVecVal* in, svBitVecVal* out) {{
    static_cast<{copy}*>(copy)->rise(in, out);
}}
"""


def share_modules(verilog: str, top: str) -> tuple[str, list[Shared]]:
    """``verilog`` with stubs for what is shared, and the modules that they call."""
    modules = read_modules(verilog)
    copies = _count(modules, top)
    found: dict[str, Shared] = {}
    inside: set[str] = set()  # of modules that are shared already

    def visit(name: str) -> None:
        module = modules[name]
        for child in module.instances:
            if child not in modules or child in found or child in inside:
                continue
            below = _below(modules, child)
            text = "\n".join(modules[n].text for n in below)
            many = copies[child] >= LEAST_COPIES and copies[child] * len(text) >= LEAST_TEXT
            if many and _can_share(modules[child], text):
                model = f"shared{len(found)}"
                wrapped = f"{text}\n{_wrapper(modules[child], model)}"
                found[child] = Shared(model, wrapped, copies[child])
                inside.update(below)
            else:
                visit(child)

    visit(top)
    for name, shared in found.items():
        verilog = verilog.replace(modules[name].text, _stub(modules[name], shared.name))
    return verilog, list(found.values())


def _count(modules: dict[str, Module], top: str) -> Counter[str]:
    """How often each module is in the whole design."""
    total: Counter[str] = Counter()

    def add(name: str, times: int) -> None:
        total[name] += times
        for child, count in modules[name].instances.items():
            if child in modules:
                add(child, times * count)

    add(top, 1)
    return total


def _below(modules: dict[str, Module], name: str) -> list[str]:
    """``name`` and every module in it."""
    found: list[str] = []

    def add(name: str) -> None:
        if name not in found:
            found.append(name)
            for child in modules[name].instances:
                if child in modules:
                    add(child)

    add(name)
    return found


def _can_share(module: Module, text: str) -> bool:
    """Whether a call at the rising edge is all that it needs."""
    edges = set(_EDGE.findall(text))
    return edges == {"posedge clk"} and all(
        module.is_register(p.name) or module.cone(p.name) is not None
        for p in module.ports
        if p.output
    )


def _inputs(module: Module) -> list[tuple[str, int]]:
    return [(p.name, p.bits) for p in module.ports if not p.output and p.name != "clk"]


def _registers(module: Module) -> list[tuple[str, int]]:
    return [(p.name, p.bits) for p in module.ports if p.output and module.is_register(p.name)]


def _joined(parts: list[tuple[str, int]]) -> str:
    return "{" + ", ".join(f"{name} " for name, _ in parts) + "}"


def _bits(parts: list[tuple[str, int]]) -> int:
    return sum(bits for _, bits in parts)


def _wrapper(module: Module, model: str) -> str:
    """A module with all inputs in one port, and all registers in another.

    Its clock is taken at both edges, so that a cycle is one evaluation.
    """
    ins, outs = _inputs(module), _registers(module)
    names = [name for name, _ in (*ins, *outs)]
    return "\n".join(
        [
            f"module {model}(input clk, input [{_bits(ins) - 1}:0] in,"
            f" output [{_bits(outs) - 1}:0] out);",
            *(f"  wire [{bits - 1}:0] {name} ;" for name, bits in (*ins, *outs)),
            f"  assign {_joined(ins)} = in;",
            f"  assign out = {_joined(outs)};",
            f"  {module.name} inner (.clk(clk), {', '.join(f'.{n} ({n} )' for n in names)});",
            "endmodule\n",
        ]
    )


def _stub(module: Module, model: str) -> str:
    """What remains in the place of the module: the same ports, and a call at every rising edge."""
    ins, outs = _inputs(module), _registers(module)
    wide_in, wide_out = _bits(ins) - 1, _bits(outs) - 1
    assigned = [
        statement
        for p in module.ports
        if p.output and not module.is_register(p.name)
        for statement in module.cone(p.name) or []
    ]
    ports = {p.name for p in module.ports}
    inner = [name for s in assigned if (name := s.partition(" = ")[0]) not in ports]
    starts = [module.initial(name) or f"{bits}'d0" for name, bits in outs]
    declared = [
        f"  {'output' if p.output else 'input'} [{p.bits - 1}:0] {p.name} ;" for p in module.ports
    ]
    lines = [
        module.text.partition("\n")[0],
        *declared,
        f'  import "DPI-C" function chandle {model}_make();',
        f'  import "DPI-C" function void {model}_rise(input chandle copy,'
        f" input bit [{wide_in}:0] in, output bit [{wide_out}:0] out);",
        "  chandle copy;",
        f"  bit [{wide_out}:0] registers, after;",
        f"  initial begin copy = {model}_make(); registers = {{{', '.join(starts)}}}; end",
        "  always @(posedge clk) begin",
        f"    {model}_rise(copy, {_joined(ins)}, after);",
        "    registers <= after;",
        "  end",
        f"  assign {_joined(outs)} = registers;",
        *(module.declaration(name) for name in dict.fromkeys(inner)),
        *dict.fromkeys(f"  assign {statement};" for statement in assigned),
        "endmodule\n",
    ]
    return "\n".join(lines)
