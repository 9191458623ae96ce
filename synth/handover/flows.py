"""A block with the configuration of a flow that takes it to silicon, or of a package manager."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

from tilewright.synth.handover.constraints import sdc
from tilewright.synth.handover.design import Design, design_of
from tilewright.synth.handover.fusesoc import core_file
from tilewright.synth.handover.librelane import config_json
from tilewright.synth.handover.macros import macro_gds, macro_lef, macro_liberty
from tilewright.synth.handover.orfs import config_mk
from tilewright.synth.handover.siliconcompiler import script

__all__ = ["FLOWS", "Files", "Flow", "flow_files"]

Files = dict[str, str | bytes]  # by name, relative to the folder that they go to


@dataclass(frozen=True)
class Flow:
    """What a flow reads, and for which technologies; the first is the default."""

    title: str
    technologies: tuple[str, ...]
    configuration: str  # its file
    configure: Callable[[Design], str]
    unit: Callable[[Design], str]  # of time, in constraints
    layouts: bool = False  # whether it asks for the layout of a macro
    models: bool = False  # whether it simulates, too


def _ns(design: Design) -> str:
    return "ns"


def _of_platform(design: Design) -> str:
    """Libraries of ASAP7 are in ps there, those of sky130hd in ns."""
    return "ps" if design.technology.name == "asap7" else "ns"


_EVERY = ("asap7", "sky130hd")
FLOWS = {
    "orfs": Flow("OpenROAD-flow-scripts", _EVERY, "config.mk", config_mk, _of_platform),
    "librelane": Flow("LibreLane", ("sky130hd",), "config.json", config_json, _ns, layouts=True),
    "siliconcompiler": Flow("SiliconCompiler", _EVERY, "build.py", script, _of_platform),
    "fusesoc": Flow(
        "FuseSoC",
        _EVERY,
        "{name}.core",
        lambda design: core_file(design, version("tilewright")),
        _ns,
        models=True,
    ),
}


def flow_files(
    block: str, flow: str, *, technology: str | None = None, period: float | None = None
) -> Files:
    """Return every file that hands ``block`` over to ``flow``, by name.

    ``technology`` is by default the flow's first, and ``period`` (ps) as in
    :func:`tilewright.synth.handover.design.design_of`.
    """
    if flow not in FLOWS:
        raise ValueError(f"no flow {flow!r}; there are {', '.join(FLOWS)}")
    chosen = FLOWS[flow]
    technology = technology or chosen.technologies[0]
    if technology not in chosen.technologies:
        known = " and ".join(chosen.technologies)
        raise ValueError(f"{flow} takes {known}, not {technology}")
    design = design_of(block, technology, period)
    files: Files = {
        f"{design.name}.v": design.verilog,
        f"{design.name}.sdc": sdc(design, chosen.unit(design)),
        chosen.configuration.format(name=design.name): chosen.configure(design),
    }
    if design.macros:
        files["macros.v"] = design.black_boxes
        if chosen.models:
            files["macro_models.v"] = design.models
    for macro in design.macros:
        files[f"{macro.name}.lef"] = macro_lef(macro, design.technology)
        files[f"{macro.name}.lib"] = macro_liberty(macro, design.technology)
        if chosen.layouts:
            files[f"{macro.name}.gds"] = macro_gds(macro, design.technology)
    return files
