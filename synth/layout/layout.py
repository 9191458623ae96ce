"""A block from RTL to a layout: synthesis by our flow, then OpenROAD, step by step.

Each step is cached by all that decides it, so that a stopped run resumes where it was.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tilewright.base.cache import get_or_make_folder
from tilewright.base.code import code_of
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import CLOCK, to_rtlil
from tilewright.synth.flow import DEFAULT_GOAL, Goal, Synthesis, synthesise
from tilewright.synth.handover.flows import Design, sdc
from tilewright.synth.layout.engine import INSIDE, find_engine, run_step
from tilewright.synth.layout.library import Library, layout_table, library_of
from tilewright.synth.memory import find_macros
from tilewright.synth.technology import load_technology

STEPS = ("placed", "cts", "global", "routed")
UTILISATION = 0.5  # of the core, before repair and the clock tree
# Period over the delay without wires: slightly too fast a clock makes OpenROAD repair the
# longest paths as far as it can.
EAGERNESS = 0.9
REPAIRS = 1  # rounds of repair and global routing


@dataclass(frozen=True)
class Step:
    """A layout after one step, as files in a folder of the cache; times in ps, lengths in um."""

    name: str
    folder: Path
    figures: dict[str, float]

    @cached_property
    def log(self) -> str:
        return (self.folder / "log.txt").read_text()

    @property
    def wire_by_layer(self) -> dict[str, float]:
        """Lengths (um) in the step's last route; empty before."""
        if self.name == "routed":
            found = re.findall(r"Total wire length on LAYER (\S+) = (\d+) um", self.log)
        else:
            found = re.findall(r"^(\S+) +([\d.]+)um +\d+%$", self.log, re.MULTILINE)
        return {layer: float(length) for layer, length in found}

    @property
    def violations(self) -> int | None:
        """DRC violations after detailed routing."""
        found = re.findall(r"Number of violations = (\d+)", self.log)
        return int(found[-1]) if found and self.name == "routed" else None

    @property
    def vias(self) -> int | None:
        found = re.findall(r"Total number of vias = (\d+)", self.log)
        return int(found[-1]) if found and self.name == "routed" else None

    def file(self, kind: str) -> Path:
        """The ``def``, ``spef``, ``verilog`` or ``path`` of the layout."""
        names = {"def": "layout.def", "spef": "wires.spef", "verilog": "netlist.v"}
        return self.folder / {**names, "path": "path.txt"}[kind]


@dataclass(frozen=True)
class Layout:
    """A block's layout; ``clock`` is the period (ps) that OpenROAD was asked for."""

    spec: str
    params: BlockParams
    rtlil: str
    synthesis: Synthesis
    clock: float
    utilisation: float
    engine: str
    library: Library
    steps: dict[str, Step]

    @property
    def last(self) -> Step:
        return next(reversed(self.steps.values()))

    def period(self, step: str) -> float:
        """Least clock period of the longest path after a step, skew included."""
        return self.clock - self.steps[step].figures["slack"]

    @property
    def period_before(self) -> float:
        """Least period by OpenROAD, without wires and clock tree."""
        return self.clock - self.steps["placed"].figures["slack_before"]


def lay_out(
    spec: str,
    technology: str = "sky130hd",
    *,
    goal: Goal = DEFAULT_GOAL,
    to: str = "global",
    clock: float | None = None,
    utilisation: float = UTILISATION,
    lef: Sequence[Path] = (),
    extraction: Path | None = None,
    watch: Callable[[str], None] = lambda done: None,
) -> Layout:
    """Synthesise ``spec`` and lay it out as far as ``to``; ``watch`` is told what is done.

    ``extraction`` are OpenRCX's rules for the wires of a routed layout; without them their
    parasitics are those of global routing.
    """
    if to not in STEPS:
        raise ValueError(f"no step {to!r}; there are {', '.join(STEPS)}")
    if not 0.05 <= utilisation <= 0.95:
        raise ValueError(f"the utilisation must lie between 0.05 and 0.95, not {utilisation:g}")
    if clock is not None and clock <= 0:
        raise ValueError(f"the clock period must be positive, not {clock:g} ps")
    params, cells = resolve(spec), load_technology(technology)
    engine = find_engine()
    rtlil = to_rtlil(params, memory_macros=True)
    table = layout_table(cells.name)
    library = library_of(cells, find_macros(rtlil), lef)
    found = synthesise(rtlil, params.slug, cells, goal)
    period = clock or round(EAGERNESS * found.delay, 1)
    watch("synthesised")
    design = Design(params, cells, period)
    inputs = [name for name in found.netlist.inputs if name != CLOCK]
    # OpenROAD's Verilog reader does not know signed wires.
    verilog = found.verilog.replace("wire signed ", "wire ")
    common = {
        "technology": {key: value for key, value in table.items() if key != "gds"},
        "top": params.slug,
        "clocked": design.clocked,
        "inputs": " ".join(inputs),
        "sdc": sdc(design, "ps") + _HOLD,
        "utilisation": utilisation,
        "repairs": REPAIRS,
    }
    recipe = [engine.version, code_of(INSIDE.read_text()), verilog, library.folder.name]
    steps: dict[str, Step] = {}
    before: Path | None = None
    for name in STEPS[: STEPS.index(to) + 1]:
        job: dict[str, Any] = common | {
            "step": name,
            "before": str(before / "layout.odb") if before else None,
            "lef": library.lef,
            "liberty": library.liberty,
            "extraction": str(extraction.resolve()) if extraction else None,
        }

        def make(folder: Path, job: dict[str, Any] = job) -> None:
            (folder / "block.v").write_text(verilog)
            run_step(engine, job | {"verilog": str(folder / "block.v")}, folder)

        last = before.name if before else ""
        rules = extraction.read_text() if extraction and name == "routed" else ""
        given = (*recipe, rules, json.dumps(common), name, last)
        folder = get_or_make_folder("layouts", given, make)
        steps[name] = Step(name, folder, json.loads((folder / "figures.json").read_text()))
        before = folder
        watch(name)
    return Layout(spec, params, rtlil, found, period, utilisation, engine.version, library, steps)


# Ports have no clocks or neighbours here whose hold could be checked.
_HOLD = """\
set_false_path -hold -from [all_inputs]
set_false_path -hold -to [all_outputs]
"""
