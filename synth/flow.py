"""From RTLIL to a mapped netlist with area and timing: Yosys, ABC, then ``synth.timing``.

Recipe, after ``synth -flatten`` without its own mapping: registers to the technology's flip-flops,
for the goal ``area`` full adders to its full-adder cell, the rest to gates by the goal's ABC
script (driven and loaded as the technology says), constants to tie cells.
"""

import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from synth.full_adders import inverted_adders
from synth.function import parse_function, truth_table
from synth.liberty import cached_liberty
from synth.liberty_reader import read_text
from synth.memory import find_macros, macro_cell, macro_port_module
from synth.netlist import Netlist, no_cell_for, read_netlist
from synth.parts import area_by_part, part_names, part_of_each
from synth.technology import Cell, Technology
from synth.timing import TimingPath, longest_paths
from synth.yosys import SynthesisError, run_yosys, without_banner

__all__ = [
    "DEFAULT_GOAL",
    "Goal",
    "Synthesis",
    "map_modules",
    "synthesise",
    "synthesise_for_clock",
]


class Goal(Enum):
    """What the recipe strives for."""

    AREA = "area"
    BALANCED = "balanced"
    FASTEST = "fastest"


DEFAULT_GOAL = Goal.AREA


# ABC scripts. All start by removing redundancy; `dc2` alone may make chains of parallel-prefix
# adders, `dc2 -l` keeps the number of levels. `buffer` splits large fan-outs, `upsize` and `dnsize`
# choose drive strengths against the timing tables; a second round finds what the first one left.
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

    @property
    def area_by_part(self) -> dict[str, float]:
        """Empty where no part can be told."""
        return area_by_part(self.netlist, self.part_of)

    @property
    def longest(self) -> TimingPath | None:
        """None for a block that is only wires and constants."""
        return max(self.paths.values(), key=lambda path: path.delay, default=None)

    @property
    def delay(self) -> float:
        """Of the longest path, in ps: the least clock period where there are registers."""
        return self.longest.delay if self.longest else 0.0


def synthesise(
    rtlil: str,
    top: str,
    technology: Technology,
    goal: Goal = DEFAULT_GOAL,
    *,
    keep_hierarchy: bool = False,
) -> Synthesis:
    """Map the module ``top`` of the RTLIL text ``rtlil``.

    With ``keep_hierarchy`` nothing is optimised across the modules of the design, which costs area
    and delay but tells the area of each part exactly.
    """
    with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
        folder = Path(name)
        liberty, cells = _prepare(rtlil, technology, goal, folder)
        _map(top, technology, goal, keep_hierarchy, liberty, folder, ["flatten", *_WRITE])
        netlist = read_netlist((folder / "netlist.json").read_text(), top, technology, cells)
        verilog = without_banner((folder / "netlist.v").read_text())
    return Synthesis(
        technology=technology,
        goal=goal,
        netlist=netlist,
        paths=longest_paths(netlist, technology),
        verilog=verilog,
        part_of=part_of_each(netlist, part_names(rtlil, top), flattened=not keep_hierarchy),
    )


def map_modules(rtlil: str, top: str, technology: Technology) -> dict[str, list[Cell | str]]:
    """What each module of a design consists of, for the least area, each module by itself.

    Cells, macros and the names of other modules. For a design of thousands of equal parts: a part
    is mapped once, and nothing is flattened.
    """
    with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
        folder = Path(name)
        liberty, macros = _prepare(rtlil, technology, Goal.AREA, folder)
        _map(top, technology, Goal.AREA, True, liberty, folder, _WRITE)
        modules = json.loads((folder / "netlist.json").read_text())["modules"]
    known = {**technology.cells, **macros}
    return {
        name: [known.get(cell["type"], cell["type"]) for cell in module["cells"].values()]
        for name, module in modules.items()
        if name not in macros
    }


_WRITE = ("opt_clean -purge", "write_json netlist.json", "write_verilog -noattr -noexpr netlist.v")


def _prepare(
    rtlil: str, technology: Technology, goal: Goal, folder: Path
) -> tuple[str, dict[str, Cell]]:
    """Write all that the commands read; the options that name the cells, and the macros."""
    (folder / "top.il").write_text(rtlil)
    macros = {macro.name: macro for macro in find_macros(rtlil)}
    (folder / "macros.v").write_text("".join(map(macro_port_module, macros.values())))
    script = "; ".join((_START, _MAPPING[goal], _FINISH))
    (folder / "abc.script").write_text(script.replace("; ", "\n") + "\n")
    (folder / "abc.constr").write_text(
        f"set_driving_cell {technology.drive_cell}\n"
        f"set_load {technology.output_load} [all_outputs]\n"
    )
    cells = {name: macro_cell(macro, technology) for name, macro in macros.items()}
    return _write_liberty(technology, folder), cells


def _map(
    top: str,
    technology: Technology,
    goal: Goal,
    keep_hierarchy: bool,
    liberty: str,
    folder: Path,
    finish: Sequence[str],
) -> None:
    """Map ``top.il`` to cells, and do what is to be done with it."""
    start = [
        "libcache -scl -disable",  # its cache outlives this run and trusts file times
        "read_verilog -lib macros.v",
        "read_rtlil top.il",
        f"synth {'' if keep_hierarchy else '-flatten'} -top {top} -noabc",
        "opt -purge",
        "rename -wire",  # registers are called as the signals they hold
    ]
    adder = _full_adder(technology) if goal is Goal.AREA else None
    if adder:
        _run([*start, *_EXTRACT], technology, folder)
        start = ["libcache -scl -disable", *_map_full_adders(adder, folder)]
    _run(
        [
            *start,
            f"dfflibmap {liberty}",
            "opt",
            "setundef -zero",
            f"abc {liberty} -constr abc.constr -script abc.script",
            *_tie_constants(technology),
            *finish,
        ],
        technology,
        folder,
    )


def _run(commands: Sequence[str], technology: Technology, folder: Path) -> None:
    try:
        run_yosys(commands, folder)
    except SynthesisError as error:
        unmapped = re.search(r"\(type (\S+)\) cannot be legalized", str(error))
        if unmapped is None:
            raise
        raise no_cell_for([unmapped[1]], technology) from None


def synthesise_for_clock(
    rtlil: str, top: str, technology: Technology, period: float, *, keep_hierarchy: bool = False
) -> Synthesis:
    """The first goal, from the smallest on, whose longest path fits ``period`` (ps).

    Where none fits, the one with the shortest path.
    """
    tried = []
    for goal in Goal:
        result = synthesise(rtlil, top, technology, goal, keep_hierarchy=keep_hierarchy)
        if result.delay <= period:
            return result
        tried.append(result)
    return min(tried, key=lambda result: result.delay)


def _write_liberty(technology: Technology, folder: Path) -> str:
    """Put the Liberty files into ``folder``; returns the options that name them."""
    sources: Sequence[Path] = technology.liberty or (cached_liberty(technology),)
    options = []
    for k, source in enumerate(sources):
        # Copies: Yosys splits paths at spaces, and ABC does not read gzip.
        (folder / f"cells{k}.lib").write_text(read_text(source))
        options.append(f"-liberty cells{k}.lib")
    return " ".join([*options, *(f"-dont_use {pattern}" for pattern in technology.dont_use)])


_EXTRACT = ("extract_fa -fa", "write_rtlil adders.il", "write_json adders.json")
_INVERTED = "full_adder_inverted"  # a module's name in place of $fa


def _map_full_adders(adder: "_FullAdder", folder: Path) -> list[str]:
    """Commands that turn every full adder found in the gates into a full-adder cell.

    ABC then sees the cells' pins as inputs and outputs of what it maps, so it does not weigh paths
    through them; the timing afterwards does.
    """
    text = (folder / "adders.il").read_text()
    modules = [_full_adder_module(r"\$fa", adder, inverted=False)]
    if adder.gives_inverse:
        inverted = inverted_adders((folder / "adders.json").read_text())
        text = re.sub(
            r"^  cell \$fa (\S+)$",
            lambda m: (
                f"  cell \\{_INVERTED} {m[1]}" if m[1].removeprefix("\\") in inverted else m[0]
            ),
            text,
            flags=re.MULTILINE,
        )
        modules.append(_full_adder_module(_INVERTED, adder, inverted=True))
    (folder / "adders.il").write_text(text)
    (folder / "full_adder.v").write_text("".join(modules))
    return ["read_rtlil adders.il", "techmap -map full_adder.v", "techmap", "opt -fast -purge"]


_SUM, _CARRY, _ALL = 0b10010110, 0b11101000, 0b11111111


class _FullAdder(NamedTuple):
    """A cell with a sum and a carry, inverted or not."""

    cell: Cell
    outputs: tuple[tuple[str, bool], ...]  # of every output, the port of $fa and if it is inverted

    @property
    def gives_inverse(self) -> bool:
        return all(inverse for _, inverse in self.outputs)


def _full_adder(technology: Technology) -> _FullAdder | None:
    """The smallest there is."""
    roles = {
        _SUM: ("Y", False),
        _SUM ^ _ALL: ("Y", True),
        _CARRY: ("X", False),
        _CARRY ^ _ALL: ("X", True),
    }
    for cell in sorted(technology.cells.values(), key=lambda cell: (cell.area, cell.name)):
        if cell.state or cell.weak or len(cell.inputs) != 3 or len(cell.outputs) != 2:
            continue
        pins = tuple(cell.inputs)
        tables = [truth_table(parse_function(f), pins) for f in cell.outputs.values()]
        outputs = tuple(roles[table] for table in tables if table in roles)
        if len({port for port, _ in outputs}) == 2:
            return _FullAdder(cell, outputs)
    return None


def _full_adder_module(name: str, adder: _FullAdder, *, inverted: bool) -> str:
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
