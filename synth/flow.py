"""From RTLIL to a mapped netlist with area and timing: Yosys, ABC, then ``synth.timing``.

Recipe, after ``synth -flatten`` without its own mapping: enables of registers to clock gates,
registers to the technology's flip-flops, for the goal ``area`` full adders to its full-adder cell,
the rest to gates by the goal's ABC script (driven and loaded as the technology says), constants to
tie cells.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tilewright.synth.clock_gates import (
    MIN_GROUP,
    divide_groups,
    find_clock_gate,
    gate_commands,
    gate_modules,
    has_registers,
)
from tilewright.synth.full_adders import FullAdder, find_full_adder, inverted_adders
from tilewright.synth.liberty import cached_liberty
from tilewright.synth.liberty_reader import read_text
from tilewright.synth.memory import find_macros, macro_cell, macro_port_module
from tilewright.synth.netlist import Netlist, no_cell_for, read_netlist
from tilewright.synth.parts import area_by_part, part_names, part_of_each
from tilewright.synth.technology import Cell, Technology
from tilewright.synth.timing import TimingPath, longest_paths
from tilewright.synth.yosys import SynthesisError, without_banner, yosys_files


class Goal(Enum):
    """Objective of the recipe."""

    AREA = "area"
    BALANCED = "balanced"
    FASTEST = "fastest"


DEFAULT_GOAL = Goal.AREA


# ABC scripts. All start by removing redundancy; `dc2` alone may make chains of parallel-prefix
# adders, `dc2 -l` keeps the number of levels. `buffer` splits large fan-outs, `upsize` and `dnsize`
# choose drive strengths against the timing tables; a second round finds what the first missed.
_START = "strash; &get -n; &fraig -x; &put; scorr"
_SIZE = "upsize; dnsize"
_MAPPING = {
    Goal.AREA: f"dc2; strash; dc2; dch -f; amap -m; topo; buffer; {_SIZE}",
    Goal.BALANCED: f"dc2 -l; strash; dch; map -B 0.9; topo; buffer; {_SIZE}",
    Goal.FASTEST: (
        f"dc2 -l; strash; if -g -K 6; strash; dch; map -B 0.9; topo; buffer; {_SIZE}; {_SIZE}"
    ),
}
_FINISH = "stime -p"


@dataclass(frozen=True)
class Synthesis:
    """A block in cells."""

    technology: Technology
    goal: Goal
    netlist: Netlist
    paths: dict[str, TimingPath]  # the longest of each kind
    verilog: str  # the netlist, for simulation and other tools
    part_of: list[str]  # each instance
    gating: bool = True  # whether enables were allowed to become clock gates

    @property
    def area_by_part(self) -> dict[str, float]:
        """Area by part; empty if unknown."""
        return area_by_part(self.netlist, self.part_of)

    @property
    def longest(self) -> TimingPath | None:
        """Longest path; None for wires and constants alone."""
        return max(self.paths.values(), key=lambda path: path.delay, default=None)

    @property
    def delay(self) -> float:
        """Longest path, in ps; the least clock period where there are registers."""
        return self.longest.delay if self.longest else 0.0


def synthesise(
    rtlil: str,
    top: str,
    technology: Technology,
    goal: Goal = DEFAULT_GOAL,
    *,
    keep_hierarchy: bool = False,
    gating: bool = True,
    min_group: int = MIN_GROUP,
) -> Synthesis:
    """Map the module ``top`` of the RTLIL text ``rtlil``.

    With ``keep_hierarchy`` nothing is optimised across modules, which gives exact areas of the
    parts. With ``gating``, enables of ``min_group`` or more registers become clock gates.
    """
    groups = min_group if gating else None
    found = _map(rtlil, top, technology, goal, keep_hierarchy, groups, ["flatten", *_WRITE])
    netlist = read_netlist(found[_JSON], top, technology, _macro_cells(rtlil, technology))
    return Synthesis(
        technology=technology,
        goal=goal,
        netlist=netlist,
        paths=longest_paths(netlist, technology),
        verilog=without_banner(found[_VERILOG]),
        part_of=part_of_each(netlist, part_names(rtlil, top), flattened=not keep_hierarchy),
        gating=gating,
    )


def map_modules(rtlil: str, top: str, technology: Technology) -> dict[str, list[Cell | str]]:
    """Contents of each module, mapped by itself for the least area: cells and names of modules."""
    found = _map(rtlil, top, technology, Goal.AREA, True, MIN_GROUP, _WRITE)
    modules = json.loads(found[_JSON])["modules"]
    macros = _macro_cells(rtlil, technology)
    known = {**technology.cells, **macros}
    return {
        name: [known.get(cell["type"], cell["type"]) for cell in module["cells"].values()]
        for name, module in modules.items()
        if name not in macros and name not in technology.cells
    }


_JSON, _VERILOG = "netlist.json", "netlist.v"
_WRITE = ("opt_clean -purge", f"write_json {_JSON}", f"write_verilog -noattr -noexpr {_VERILOG}")
_BEGIN = "libcache -scl -disable"  # its cache outlives a run and trusts file times


def _macro_cells(rtlil: str, technology: Technology) -> dict[str, Cell]:
    return {macro.name: macro_cell(macro, technology) for macro in find_macros(rtlil)}


def _map(
    rtlil: str,
    top: str,
    technology: Technology,
    goal: Goal,
    keep_hierarchy: bool,
    min_group: int | None,
    finish: Sequence[str],
) -> dict[str, str]:
    """The netlist in both forms; enables of ``min_group`` registers become clock gates."""
    files = {"top.il": rtlil, "macros.v": "".join(map(macro_port_module, find_macros(rtlil)))}
    start = [
        _BEGIN,
        "read_verilog -lib macros.v",
        "read_rtlil top.il",
        f"synth {'' if keep_hierarchy else '-flatten'} -top {top} -noabc",
        "opt -purge",
        "rename -wire",  # registers are named after their signals
    ]
    keep_enables = ""
    if min_group is not None and has_registers(rtlil) and (gate := find_clock_gate(technology)):
        files["macros.v"] += gate_modules(gate.cell)
        commands = [*start, *gate_commands(gate.cell, min_group), f"write_rtlil {_GATED}"]
        files = {_GATED: divide_groups(_run(commands, files, (_GATED,), technology)[_GATED], gate)}
        start = [_BEGIN, f"read_rtlil {_GATED}"]
        keep_enables = " -nodffe -nosdff"  # what is no gate must not become an enable again
    adder = find_full_adder(technology) if goal is Goal.AREA else None
    if adder:
        found = _run([*start, *_EXTRACT], files, (_ADDERS, _ADDERS_JSON), technology)
        files = _with_full_adders(found, adder)
        start = [_BEGIN, *_MAP_FULL_ADDERS, f"opt -fast -purge{keep_enables}"]
    cells = _liberty_files(technology)
    liberty = " ".join(
        [f"-liberty {name}" for name in cells]
        + [f"-dont_use {pattern}" for pattern in technology.dont_use]
    )
    commands = [
        *start,
        f"dfflibmap {liberty}",
        f"opt{keep_enables}",
        "setundef -zero",
        f"abc {liberty} -constr abc.constr -script abc.script",
        *_tie_constants(technology),
        *finish,
    ]
    files |= cells | {"abc.script": _abc_script(goal), "abc.constr": _constraints(technology)}
    return _run(commands, files, (_JSON, _VERILOG), technology)


def _run(
    commands: Sequence[str], files: Mapping[str, str], names: Sequence[str], technology: Technology
) -> dict[str, str]:
    try:
        return yosys_files(commands, files, names)
    except SynthesisError as error:
        unmapped = re.search(r"\(type (\S+)\) cannot be legalized", str(error))
        if unmapped is None:
            raise
        raise no_cell_for([unmapped[1]], technology) from None


def _liberty_files(technology: Technology) -> dict[str, str]:
    """Copies under short names: Yosys splits paths at spaces, and ABC does not read gzip."""
    sources: Sequence[Path] = technology.liberty or (cached_liberty(technology),)
    return {f"cells{k}.lib": read_text(source) for k, source in enumerate(sources)}


def _abc_script(goal: Goal) -> str:
    return "; ".join((_START, _MAPPING[goal], _FINISH)).replace("; ", "\n") + "\n"


def _constraints(technology: Technology) -> str:
    return (
        f"set_driving_cell {technology.drive_cell}\n"
        f"set_load {technology.output_load} [all_outputs]\n"
    )


def synthesise_for_clock(
    rtlil: str,
    top: str,
    technology: Technology,
    period: float,
    *,
    keep_hierarchy: bool = False,
    gating: bool = True,
) -> Synthesis:
    """Map for the first goal that meets ``period`` (ps), smallest area first, else the fastest."""
    tried = []
    for goal in Goal:
        options = {"keep_hierarchy": keep_hierarchy, "gating": gating}
        result = synthesise(rtlil, top, technology, goal, **options)
        if result.delay <= period:
            return result
        tried.append(result)
    return min(tried, key=lambda result: result.delay)


_GATED = "gated.il"
_ADDERS, _ADDERS_JSON = "adders.il", "adders.json"
_EXTRACT = ("extract_fa -fa", f"write_rtlil {_ADDERS}", f"write_json {_ADDERS_JSON}")
_INVERTED = "full_adder_inverted"  # a module's name in place of $fa
_MAP_FULL_ADDERS = (f"read_rtlil {_ADDERS}", "techmap -map full_adder.v", "techmap")


def _with_full_adders(found: Mapping[str, str], adder: FullAdder) -> dict[str, str]:
    """Files that make a cell of every full adder; ABC then weighs no paths through them."""
    text = found[_ADDERS]
    modules = [_full_adder_module(r"\$fa", adder, inverted=False)]
    if adder.gives_inverse:
        inverted = inverted_adders(found[_ADDERS_JSON])
        text = re.sub(
            r"^  cell \$fa (\S+)$",
            lambda m: (
                f"  cell \\{_INVERTED} {m[1]}" if m[1].removeprefix("\\") in inverted else m[0]
            ),
            text,
            flags=re.MULTILINE,
        )
        modules.append(_full_adder_module(_INVERTED, adder, inverted=True))
    return {_ADDERS: text, "full_adder.v": "".join(modules)}


def _full_adder_module(name: str, adder: FullAdder, *, inverted: bool) -> str:
    """Verilog of Yosys's ``$fa``; ``inverted``: its operands reach the cell inverted."""
    inputs = [
        f".{pin}({'~' if inverted else ''}{port}[k])"
        for pin, port in zip(adder.cell.inputs, "ABC", strict=True)
    ]
    outputs = [f".{pin}(out[{i}])" for i, pin in enumerate(adder.cell.outputs)]
    assigns = [
        f"    assign {port}[k] = {'~' if inverse != inverted else ''}out[{i}];"
        for i, (port, inverse) in enumerate(adder.outputs)
    ]
    return "\n".join(
        [
            f"module {name} (A, B, C, X, Y);",
            "  parameter WIDTH = 1;",
            "  input [WIDTH-1:0] A, B, C;",
            "  output [WIDTH-1:0] X, Y;",
            "  genvar k;",
            "  generate for (k = 0; k < WIDTH; k = k + 1) begin : bits",
            "    wire [1:0] out;",
            f"    {adder.cell.name} adder ({', '.join([*inputs, *outputs])});",
            *assigns,
            "  end endgenerate",
            "endmodule",
            "",
        ]
    )


def _tie_constants(technology: Technology) -> list[str]:
    options = [
        f"{option} {tie[0]} {tie[1]}"
        for option, tie in (("-hicell", technology.tie_high), ("-locell", technology.tie_low))
        if tie is not None
    ]
    return [f"hilomap -singleton {' '.join(options)}"] if options else []
