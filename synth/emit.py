"""A block as RTLIL, as Verilog and as the data a user needs to instantiate it.

The same parameters give the same bytes on every run and machine: no path, date, tool banner or
hash order reaches the output.
"""

import json
import re
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from amaranth.back import rtlil

from tilewright.base.files import write_atomic
from tilewright.golden.params.block import BlockParams, Port
from tilewright.hw.catalog import build
from tilewright.hw.shared import SharedModules
from tilewright.hw.sram import BlackBoxMemories
from tilewright.synth.collector import rare_collections
from tilewright.synth.signal_names import names_of_pairs
from tilewright.synth.yosys import run_yosys, without_banner

LINT_WAIVERS = Path(__file__).with_name("lint_waivers.vlt")
CLOCK, RESET = "clk", "rst"  # Amaranth's names for the sync domain of a component

_REGISTER_VALUE = re.compile(
    r"^(  reg (?:signed )?(?:\[\d+:\d+\] )?)(\\\S+ |[^\s\\]\S*) = ([^;]+);$", re.MULTILINE
)


def to_rtlil(params: BlockParams, *, memory_macros: bool = False) -> str:
    """RTLIL of the block; the top module is called ``params.slug``.

    With ``memory_macros`` its SRAMs are instances of macros, as synthesis wants them.
    """
    platform = _MacrosAndModules() if memory_macros else SharedModules()
    with rare_collections(), names_of_pairs():
        top = rtlil.convert(build(params), name=params.slug, platform=platform, emit_src=False)
    return top + "".join(platform.modules.values())


class _MacrosAndModules(BlackBoxMemories, SharedModules):
    """For synthesis: memories are macros, and common modules are emitted once."""


def to_verilog(params: BlockParams) -> str:
    """Verilog of the block; the top module is called ``params.slug``."""
    title = f"// {params.slug}: {params.summary}\n"
    return title + verilog_from_rtlil(to_rtlil(params))


def verilog_from_rtlil(text: str) -> str:
    """Plain Verilog of a design, names kept."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "top.il").write_text(text)
        # `proc` before writing: processes left as `always @*` start as X on Icarus Verilog, where
        # nothing fires at time 0. `pmuxtree`: wide multiplexers would become functions whose names
        # Icarus Verilog does not take, with cases that overlap in the eyes of a linter.
        run_yosys(
            [
                "read_rtlil top.il",
                "proc",
                "pmuxtree",
                "opt_clean -purge",
                "write_verilog -noattr -norename top.v",
            ],
            folder,
        )
        verilog = without_banner((folder / "top.v").read_text())
    # A value at the declaration of a register is an error to lint since Verilator 5.038, under a
    # name that older ones refuse in a waiver; the same value in an `initial` is fine everywhere.
    return _REGISTER_VALUE.sub(r"\1\2;\n  initial \2 = \3;", verilog)


def interface(params: BlockParams, verilog: str) -> dict[str, Any]:
    """What instantiates and drives the module: parameters, timing, every wire of every port.

    ``wires`` are all of the module's, as ``verilog`` declares them; a block without registers has
    neither clock nor reset.
    """
    wires = _wires(verilog, params.slug)
    clocked = any(wire["name"] == CLOCK for wire in wires)
    return {
        "module": params.slug,
        "block": params.block,
        "summary": params.summary,
        "parameters": params.as_dict(),
        "timing": _timing(params),
        "clock": {"name": CLOCK, "edge": "rising"} if clocked else None,
        "reset": {"name": RESET, "active": "high", "synchronous": True} if clocked else None,
        "streams": [
            *(_stream(port, "input") for port in params.inputs),
            *(_stream(port, "output") for port in params.outputs),
        ],
        "wires": wires,
    }


def _timing(params: BlockParams) -> dict[str, Any]:
    try:
        timing = params.timing
    except NotImplementedError as reason:  # depends on the data
        return {"note": str(reason)}
    return {"latency_cycles": timing.latency, "interval_cycles": str(timing.interval)}


def _wires(verilog: str, module: str) -> list[dict[str, Any]]:
    start = re.search(rf"^module \\?{re.escape(module)} ?\(", verilog, re.MULTILINE)
    assert start is not None, f"no module {module} in its own Verilog"
    body = verilog[start.start() : verilog.index("\nendmodule", start.start())]
    declared = re.findall(
        r"^  (input|output) (?:signed )?(?:\[(\d+):0\] )?(\S+?) ?;$", body, re.MULTILINE
    )
    return [
        {"name": name, "direction": direction, "bits": int(high or 0) + 1}
        for direction, high, name in declared
    ]


def _stream(port: Port, direction: str) -> dict[str, Any]:
    fields, lowest = [], 0
    for field in port.fields:
        fields.append(
            {
                "name": field.name,
                "lowest_bit": lowest,
                "bits": field.bits,
                "count": field.count,
                "signed": field.signed,
            }
        )
        lowest += field.total_bits
    return {
        "name": port.name,
        "direction": direction,
        "payload": f"{port.name}__payload",
        "payload_bits": port.bits,
        "valid": f"{port.name}__valid",
        "ready": f"{port.name}__ready",
        "fields": fields,
    }


def core_file(params: BlockParams, release: str) -> str:
    """FuseSoC package (CAPI2) of the Verilog file and the lint waivers beside it."""
    return f"""\
CAPI=2:

name: tilewright:{params.block}:{params.slug}:{release}
description: {json.dumps(params.summary)}

filesets:
  rtl:
    files:
      - {params.slug}.v
    file_type: verilogSource
  waivers:
    files:
      - {LINT_WAIVERS.name}
    file_type: vlt

targets:
  default:
    filesets: [rtl]
    toplevel: {params.slug}
  lint:
    filesets: [waivers, rtl]
    toplevel: {params.slug}
    default_tool: verilator
    tools:
      verilator:
        mode: lint-only
"""


@dataclass(frozen=True)
class BlockFiles:
    """Where the files of one block are; the waivers serve all blocks of a folder."""

    verilog: Path
    interface: Path
    core: Path
    waivers: Path


def write_block(params: BlockParams, folder: Path) -> BlockFiles:
    """Write the files of a block to ``folder``, the same bytes on every run and machine."""
    verilog = to_verilog(params)
    files = BlockFiles(
        verilog=folder / f"{params.slug}.v",
        interface=folder / f"{params.slug}.json",
        core=folder / f"{params.slug}.core",
        waivers=folder / LINT_WAIVERS.name,
    )
    write_atomic(files.verilog, verilog)
    write_atomic(files.interface, json.dumps(interface(params, verilog), indent=2) + "\n")
    write_atomic(files.core, core_file(params, version("tilewright")))
    write_atomic(files.waivers, LINT_WAIVERS.read_text())
    return files
