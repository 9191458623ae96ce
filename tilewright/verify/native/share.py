"""Modules of a design that are models of their own: translated once, and called for each copy.

Verilator writes the logic of every copy anew. An array of PEs is then more code than the processor
has room for near it, and takes most of an hour to compile. So a module of which there are many
copies becomes a model of its own, and so does a large one, because a model whose inputs and state
do not change need not be evaluated (``src/shared.h``). In its place is a stub that calls the model
at the edge of the clock, through DPI, and takes from it what changes there alone; what depends on
inputs within a cycle is logic of the stub (``netlist.py``). A shared module may have shared ones.
"""

import re
from collections import Counter
from dataclasses import dataclass

from tilewright.verify.native.netlist import Cut, Design, Module, Wire

LEAST_COPIES = 4
LEAST_TEXT = 100_000  # characters of all copies: below, a call costs more than it saves
LEAST_PER_BIT = 20  # characters for each bit of the ports of a module that is there once
_EDGE = re.compile(r"always @\s*(\*|\(.*?\))")
_RISING = "(posedge clk)"


@dataclass(frozen=True)
class Shared:
    """A module that is a model of its own, with ports in0, in1, ... and out0, out1, ..."""

    name: str  # of the model
    verilog: str
    inputs: int
    outputs: int

    @property
    def glue(self) -> str:
        """C++ that the stub calls."""
        model = f"V{self.name}"
        copy = f"Shared<{model}, {model}___024root>"
        ins = "".join(f", const svBitVecVal* in{k}" for k in range(self.inputs))
        outs = [f"svBitVecVal* out{k}" for k in range(self.outputs)]
        take = "".join(f"\n    same &= take(m.in{k}, in{k});" for k in range(self.inputs))
        give = "".join(f"\n    give(m.out{k}, out{k});" for k in range(self.outputs))
        return f"""// Written by tilewright.verify.native.share.
#include "shared.h"
#include "svdpi.h"
#include "{model}.h"
#include "{model}___024root.h"
extern "C" void* {self.name}_make({", ".join(outs)}) {{
    auto* copy = new {copy};
    auto& m = copy->model();
    m.eval();{give}
    return copy;
}}
extern "C" svBit {self.name}_rise(void* which{ins}, {", ".join(outs)}) {{
    auto& copy = *static_cast<{copy}*>(which);
    auto& m = copy.model();
    bool same = true;{take}
    if (!copy.rise(same)) return 0;{give}
    return 1;
}}
"""


def share_modules(verilog: str, top: str) -> tuple[str, list[Shared]]:
    """``verilog`` with stubs for what is shared, and the modules that they call."""
    sharing = _Sharing(Design(verilog))
    return sharing.text_of(top), [shared for _, shared in sharing.found.values()]


class _Sharing:
    def __init__(self, design: Design):
        self._design, self._modules = design, design.modules
        self.found: dict[str, tuple[str, Shared]] = {}  # stub and model, by module

    def text_of(self, top: str, extra: tuple[Wire, ...] = ()) -> str:
        """Verilog of ``top``, with ``extra`` as outputs, and of what is in it."""
        copies, texts = self._count(top), dict[str, str]()

        def visit(name: str) -> None:
            for child in self._modules[name].instances:
                if child not in self._modules or child in texts:
                    continue
                cut = self._worth(child, copies[child])
                if cut:
                    texts[child] = self._share(child, cut)
                else:
                    texts[child] = self._modules[child].text
                    visit(child)

        texts[top] = self._modules[top].with_outputs(list(extra))
        visit(top)
        return "\n".join(texts.values())

    def _share(self, name: str, cut: Cut) -> str:
        """The stub of a module."""
        if name not in self.found:
            module, model = self._modules[name], f"shared{len(self.found)}"
            inputs, outputs = _inputs(module), cut.state
            stub = _stub(module, cut, model)
            self.found[name] = stub, Shared(model, "", len(inputs), len(outputs))  # its name
            ports = {p.name for p in module.ports}
            extra = tuple(wire for wire in outputs if wire.name not in ports)
            text = f"{self.text_of(name, extra)}\n{_wrapper(module, cut, model)}"
            self.found[name] = stub, Shared(model, text, len(inputs), len(outputs))
        return self.found[name][0]

    def _worth(self, name: str, copies: int) -> Cut | None:
        """How a module is cut, where it can be shared and is worth it."""
        size = sum(len(self._modules[n].text) * k for n, k in self._count(name).items())
        bits = sum(port.bits for port in self._modules[name].ports)
        many = copies >= LEAST_COPIES and copies * size >= LEAST_TEXT
        alone = size >= max(LEAST_TEXT, LEAST_PER_BIT * bits)
        if not many and not alone:
            return None
        edges = {e for n in self._count(name) for e in _EDGE.findall(self._modules[n].text)}
        cut = self._design.cut(name) if edges == {_RISING} else None
        return cut if cut is not None and cut.state and _inputs(self._modules[name]) else None

    def _count(self, top: str) -> Counter[str]:
        """How often each module is in ``top``, itself once."""
        total: Counter[str] = Counter()

        def add(name: str, times: int) -> None:
            total[name] += times
            for child, count in self._modules[name].instances.items():
                if child in self._modules:
                    add(child, times * count)

        add(top, 1)
        return total


def _inputs(module: Module) -> list[Wire]:
    return [p for p in module.ports if not p.output and p.name != "clk"]


def _wrapper(module: Module, cut: Cut, model: str) -> str:
    """A module whose ports have names that C++ has too."""
    ports, connected = ["input clk"], [".clk(clk)"]
    for way, wires in (("in", _inputs(module)), ("out", cut.state)):
        ports += [f"{way}put [{w.bits - 1}:0] {way}{k}" for k, w in enumerate(wires)]
        connected += [f".{w.name} ({way}{k})" for k, w in enumerate(wires)]
    return (
        f"module {model}({', '.join(ports)});\n"
        f"  {module.name} inner ({', '.join(connected)});\n"
        "endmodule\n"
    )


def _stub(module: Module, cut: Cut, model: str) -> str:
    """The stub of a module: the same ports, and a call at every rising edge."""
    ins, outs = _inputs(module), cut.state
    ports = {p.name for p in module.ports}
    arguments = "".join(f", input bit [{w.bits - 1}:0] in{k}" for k, w in enumerate(ins))
    results = [f"output bit [{w.bits - 1}:0] out{k}" for k, w in enumerate(outs)]
    given = "".join(f", {wire.name} " for wire in ins)
    after = ", ".join(f"after{k}" for k in range(len(outs)))
    lines = [
        module.text.partition(");\n")[0] + ");",
        *(p.declared("output" if p.output else "input") for p in module.ports),
        *(w.declared("wire") for w in (*outs, *cut.within) if w.name not in ports),
        f'  import "DPI-C" function chandle {model}_make({", ".join(results)});',
        f'  import "DPI-C" function bit {model}_rise(input chandle copy{arguments},'
        f" {', '.join(results)});",
        "  chandle copy;",
        *(f"  bit [{w.bits - 1}:0] state{k}, after{k};" for k, w in enumerate(outs)),
        f"  initial copy = {model}_make({', '.join(f'state{k}' for k in range(len(outs)))});",
        "  always @(posedge clk)",
        f"    if ({model}_rise(copy{given}, {after})) begin",
        *(f"      state{k} <= after{k};" for k in range(len(outs))),
        "    end",
        *(f"  assign {wire.name}  = state{k};" for k, wire in enumerate(outs)),
        *(f"  assign {statement};" for statement in cut.logic),
        "endmodule\n",
    ]
    return "\n".join(lines)
