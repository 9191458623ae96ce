"""Functional Verilog models of a technology's cells, for simulating netlists.

No delays: a netlist with these models matches its block cycle for cycle.
"""

from collections.abc import Iterable

from tilewright.synth.function import parse_function
from tilewright.synth.memory import macro_model, parse_macro
from tilewright.synth.technology import Cell, State, Technology


def cell_models(technology: Technology, names: Iterable[str]) -> str:
    """Modules of the cells and memory macros ``names``."""
    return "\n".join(
        _module(technology.cells[name])
        if name in technology.cells
        else macro_model(parse_macro(name))
        for name in sorted(names)
    )


def _module(cell: Cell) -> str:
    pins = [*cell.inputs, *cell.outputs]
    lines = [f"module {cell.name}({', '.join(pins)});"]
    lines += [f"  input {pin};" for pin in cell.inputs]
    lines += [f"  output {pin};" for pin in cell.outputs]
    if cell.state is not None:
        lines += _storage(cell.state)
    lines += [
        f"  assign {pin} = {parse_function(function).verilog};"
        for pin, function in cell.outputs.items()
    ]
    return "\n".join([*lines, "endmodule", ""])


def _storage(state: State) -> list[str]:
    name, inverse = state.names
    clock, data = parse_function(state.clock), parse_function(state.data).verilog
    lines = [f"  reg {name};", f"  wire {inverse} = ~{name};"]
    forced = [
        (parse_function(condition).verilog, value)
        for condition, value in ((state.clear, "1'b0"), (state.preset, "1'b1"))
        if condition is not None
    ]
    assignment = "<="
    if state.latch:
        lines.append("  always @*")
        forced.append((clock.verilog, data))
        data, assignment = "", "="
    else:
        # Asynchronous conditions are named signals: an edge needs one.
        lines += [f"  wire force{k} = {condition};" for k, (condition, _) in enumerate(forced)]
        edges = [f"posedge force{k}" for k in range(len(forced))]
        lines.append(f"  wire clock = {clock.verilog};")
        lines.append(f"  always @({' or '.join(['posedge clock', *edges])})")
        forced = [(f"force{k}", value) for k, (_, value) in enumerate(forced)]
    branches = [f"if ({condition}) {name} {assignment} {value};" for condition, value in forced]
    if data:
        branches.append(f"{name} {assignment} {data};")
    return [*lines, "    " + " else ".join(branches)]
