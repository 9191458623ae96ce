"""Files that take a block through a layout flow: sources, constraints, settings."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tilewright.base.files import write_files
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import CLOCK, RESET, to_rtlil, verilog_from_rtlil
from tilewright.synth.fpga.harness import ports_of
from tilewright.synth.handover.macros import macro_gds, macro_lef, macro_liberty
from tilewright.synth.memory import MemoryMacro, find_macros, macro_port_module
from tilewright.synth.record import find_record
from tilewright.synth.technology import Technology, load_technology

Files = dict[str, str | bytes]  # by name relative to the output folder

# Period over the delay of the synthesised block, which excludes wires: a first guess at what
# wires and their buffers add, for the user of the flow to tighten.
WIRE_MARGIN = 1.25
UTILISATION = 70  # per cent of the core


@dataclass(frozen=True)
class Design:
    """A block to hand over: its parameters, its technology and its target clock period."""

    params: BlockParams
    technology: Technology
    period: float  # ps

    @property
    def name(self) -> str:
        """Top module's name."""
        return self.params.slug

    @cached_property
    def rtlil(self) -> str:
        """RTLIL with memories as macros."""
        return to_rtlil(self.params, memory_macros=True)

    @cached_property
    def macros(self) -> list[MemoryMacro]:
        """Every kind of memory macro in the block."""
        return find_macros(self.rtlil)

    @property
    def clocked(self) -> bool:
        """Whether the block has registers; one without has no port for a clock."""
        return any(port.name == CLOCK for port in ports_of(self.rtlil, self.name))


def design_of(block: str, technology: str, period: float | None = None) -> Design:
    """Return the block ``block`` (``NAME[:PRESET][,FIELD=VALUE]...``) for a technology.

    Without a period (ps) it is the delay of the block's committed synthesis record times
    ``WIRE_MARGIN``; a block without a record is refused.
    """
    params, cells = resolve(block), load_technology(technology)
    if period is None:
        record = find_record(params, cells.name)
        if record is None:
            raise ValueError(
                f"{block} has no synthesis record in {technology} to take its clock from:"
                " give one, such as --clock 500MHz"
            )
        period = WIRE_MARGIN * record["metrics"]["delay"]["value"]
    if period <= 0:
        raise ValueError(f"the clock period must be positive, not {period:g} ps")
    return Design(params, cells, period)


def sdc(design: Design, unit: str = "ns") -> str:
    """Constraints with the assumptions of ``synth.timing``, in ps and fF or in ns and pF."""
    technology, scale = design.technology, {"ps": 1.0, "ns": 1000.0}[unit]
    driver = technology.cells[technology.drive_cell]
    (pin,) = driver.outputs
    inputs = [
        port.name
        for port in ports_of(design.rtlil, design.name)
        if port.direction == "input" and port.bits and port.name not in (CLOCK, RESET)
    ]
    clock = f"create_clock -name {CLOCK} -period {design.period / scale:.6g}"
    if design.clocked:
        clocks = f"""\
{clock} [get_ports {CLOCK}]
# Reset is synchronous. It must last two cycles or more, and no input may be
# valid for as long after it; then no path from it limits the clock.
set_false_path -from [get_ports {RESET}]"""
    else:
        clocks = f"""\
# The block has no registers: a clock that no port carries bounds its paths.
{clock}"""
    return f"""\
# {design.name}: one clock, on whose rising edge everything happens.
# Times in {unit}, loads in {"fF" if unit == "ps" else "pF"}.
current_design {design.name}
{clocks}
set data_inputs [get_ports {{{" ".join(inputs)}}}]
# Inputs come straight from registers, outputs go straight into them.
set_input_delay 0 -clock {CLOCK} $data_inputs
set_output_delay 0 -clock {CLOCK} [all_outputs]
set_driving_cell -lib_cell {driver.name} -pin {pin} $data_inputs
set_load {technology.output_load / scale:.6g} [all_outputs]
"""


def _config_mk(design: Design) -> str:
    """``config.mk``: run ``make DESIGN_CONFIG=.../config.mk`` in the folder of the flow."""
    here = "$(dir $(DESIGN_CONFIG))"
    variables = {
        "PLATFORM": design.technology.name,
        "DESIGN_NAME": design.name,
        "DESIGN_NICKNAME": design.name,
        "VERILOG_FILES": f"{here}{design.name}.v",
        "SDC_FILE": f"{here}{design.name}.sdc",
        "CORE_UTILIZATION": UTILISATION,
        "CORE_ASPECT_RATIO": 1,
    }
    if design.macros:
        variables["VERILOG_FILES"] = f"{here}{design.name}.v {here}macros.v"
        for variable, suffix in (("ADDITIONAL_LEFS", "lef"), ("ADDITIONAL_LIBS", "lib")):
            variables[variable] = " ".join(f"{here}{m.name}.{suffix}" for m in design.macros)
        # The memories are stubs: the last step leaves them empty in the layout.
        variables["GDS_ALLOW_EMPTY"] = "sram_.*"
    lines = [f"export {name} = {value}" for name, value in variables.items()]
    return "\n".join([f"# {design.name}: {design.params.summary}", *lines, ""])


def _config_json(design: Design) -> str:
    """``config.json``: run ``librelane config.json`` in its folder."""
    constraints = f"dir::{design.name}.sdc"
    config: dict[str, Any] = {
        "meta": {"version": 2, "flow": "Classic"},
        "DESIGN_NAME": design.name,
        "VERILOG_FILES": [f"dir::{design.name}.v"],
        "CLOCK_PORT": CLOCK if design.clocked else None,
        "CLOCK_PERIOD": round(design.period / 1000, 6),
        "PNR_SDC_FILE": constraints,
        "SIGNOFF_SDC_FILE": constraints,
        "FP_CORE_UTIL": UTILISATION,
    }
    if design.macros:
        config["EXTRA_VERILOG_MODELS"] = ["dir::macros.v"]
        config["MACROS"] = {
            macro.name: {
                "gds": [f"dir::{macro.name}.gds"],
                "lef": [f"dir::{macro.name}.lef"],
                "lib": {"*": [f"dir::{macro.name}.lib"]},
            }
            for macro in design.macros
        }
    return json.dumps(config, indent=2) + "\n"


@dataclass(frozen=True)
class Flow:
    """A flow's inputs; the first technology is the default."""

    units: dict[str, str]  # technology -> unit of time in constraints
    configuration: str  # its file
    configure: Callable[[Design], str]
    layouts: bool = False  # whether it asks for the layout of a macro


FLOWS = {
    # OpenROAD-flow-scripts, whose libraries of ASAP7 are in ps.
    "orfs": Flow({"asap7": "ps", "sky130hd": "ns"}, "config.mk", _config_mk),
    "librelane": Flow({"sky130hd": "ns"}, "config.json", _config_json, layouts=True),
}


def flow_files(
    block: str, flow: str, *, technology: str | None = None, period: float | None = None
) -> Files:
    """The files that ``flow`` needs for ``block``, by name; its first technology by default."""
    if flow not in FLOWS:
        raise ValueError(f"no flow {flow!r}; there are {', '.join(FLOWS)}")
    chosen = FLOWS[flow]
    technology = technology or next(iter(chosen.units))
    if technology not in chosen.units:
        raise ValueError(f"{flow} takes {' and '.join(chosen.units)}, not {technology}")
    design = design_of(block, technology, period)
    title = f"// {design.name}: {design.params.summary}\n"
    files: Files = {
        f"{design.name}.v": title + verilog_from_rtlil(design.rtlil),
        f"{design.name}.sdc": sdc(design, chosen.units[technology]),
        chosen.configuration: chosen.configure(design),
    }
    if design.macros:
        black_boxes = (f"(* blackbox *)\n{macro_port_module(macro)}" for macro in design.macros)
        files["macros.v"] = "".join(black_boxes)
    for macro in design.macros:
        files[f"{macro.name}.lef"] = macro_lef(macro, design.technology)
        files[f"{macro.name}.lib"] = macro_liberty(macro, design.technology)
        if chosen.layouts:
            files[f"{macro.name}.gds"] = macro_gds(macro, design.technology)
    return files


def export_block(
    block: str,
    flow: str,
    folder: Path,
    *,
    technology: str | None = None,
    period: float | None = None,
) -> list[Path]:
    """Write :func:`flow_files` to ``folder``; return their paths.

    ``period`` (ps) is by default a quarter more than the delay of the block's synthesis record.
    """
    return write_files(folder, flow_files(block, flow, technology=technology, period=period))
