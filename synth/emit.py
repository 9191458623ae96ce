"""A block as RTLIL, as Verilog and as the data a user needs to instantiate it.

The same parameters give the same bytes on every run and machine: no path, date, tool banner or
hash order reaches the output.
"""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from amaranth.back import rtlil

from tilewright.golden.params.block import BlockParams, Field, Port
from tilewright.hw.catalog import build
from tilewright.hw.shared import SharedModules
from tilewright.hw.sram import BlackBoxMemories
from tilewright.synth.collector import rare_collections
from tilewright.synth.netlist_checks import quick_checks
from tilewright.synth.signal_names import names_of_pairs
from tilewright.synth.yosys import run_yosys, without_banner

LINT_WAIVERS = Path(__file__).with_name("lint_waivers.vlt")
CLOCK, RESET = "clk", "rst"  # Amaranth's names for the sync domain of a component

_REGISTER_VALUE = re.compile(
    r"^(  reg (?:signed )?(?:\[\d+:\d+\] )?)(\\\S+ |[^\s\\]\S*) = ([^;]+);$", re.MULTILINE
)
_PORT = re.compile(
    r"^  (?:input|output) (?:signed )?(?:\[\d+:0\] )?(\S+?) ?;\n  (?:wire|reg) .*;\n"
    r"(?:  initial .*;\n)?",
    re.MULTILINE,
)
_AXI_CHANNEL = re.compile(r"(\w+_axi_)(aw|w|b|ar|r)[a-z]+")
_AXI_CHANNELS = {
    "aw": "write address",
    "w": "write data",
    "b": "write response",
    "ar": "read address",
    "r": "read data",
}


def to_rtlil(params: BlockParams, *, memory_macros: bool = False) -> str:
    """RTLIL of the block; the top module is called ``params.slug``.

    With ``memory_macros`` its SRAMs are instances of macros, as synthesis wants them.
    """
    platform = _MacrosAndModules() if memory_macros else SharedModules()
    with rare_collections(), names_of_pairs(), quick_checks():
        top = rtlil.convert(build(params), name=params.slug, platform=platform, emit_src=False)
    return top + "".join(platform.modules.values())


class _MacrosAndModules(BlackBoxMemories, SharedModules):
    """For synthesis: memories are macros, and common modules are emitted once."""


def to_verilog(params: BlockParams, text: str | None = None) -> str:
    """Verilog of the block; the top module is called ``params.slug`` and is the first one.

    Its ports are in groups, a comment before each. Clock and reset are called as the block says.
    ``text`` is the block's RTLIL where it is not that of :func:`to_rtlil`.
    """
    title = f"// {params.slug}: {params.summary}\n"
    verilog = verilog_from_rtlil(to_rtlil(params) if text is None else text)
    modules = re.split(r"^(?=module )", verilog, flags=re.MULTILINE)
    start = re.compile(rf"module \\?{re.escape(params.slug)} ?\(.*?\);\n", re.DOTALL)
    (top,) = (text for text in modules if start.match(text))
    modules.remove(top)
    body = start.sub("", top, count=1)
    ports = {match[1]: match[0] for match in _PORT.finditer(body)}
    body = _PORT.sub("", body)
    if params.clock != CLOCK and CLOCK in ports:
        body = f"  wire {CLOCK} = {params.clock};\n  wire {RESET} = ~{params.reset};\n{body}"
        for inside, outside in ((CLOCK, params.clock), (RESET, params.reset)):
            ports[outside] = ports.pop(inside).replace(inside, outside)
    groups: dict[str, list[str]] = {}
    for group, name in _groups(params):
        if name in ports:
            groups.setdefault(group, []).append(name)
    header = ",\n".join(f"  {', '.join(names)}" for names in groups.values())
    declared = "".join(
        f"  // {group}\n{''.join(ports[name] for name in names)}" for group, names in groups.items()
    )
    return f"{title}module {params.slug}(\n{header}\n);\n{declared}\n{body}{''.join(modules)}"


def _groups(params: BlockParams) -> Iterator[tuple[str, str]]:
    """Every port of the Verilog, after the title of its group."""
    yield "clock and reset", params.clock
    yield "clock and reset", params.reset
    for ports, way in ((params.inputs, "in"), (params.outputs, "out")):
        for port in ports:
            for end in ("payload", "valid", "ready"):
                yield f"stream {port.name}, {way}", f"{port.name}__{end}"
    for wire in params.wires:
        if channel := _AXI_CHANNEL.fullmatch(wire.name):
            kind = "AXI4-Lite" if channel[1] == "s_axi_" else "AXI4"
            yield f"{kind} {_AXI_CHANNELS[channel[2]]}, {channel[1]}", wire.name
        else:
            yield ("interrupt" if wire.name == "irq" else "other signals"), wire.name


def package(params: BlockParams) -> str:
    """A SystemVerilog package with a packed struct for the payload of every stream."""
    lines = [f"// Payloads of the streams of {params.slug}.", f"package {params.slug}_pkg;"]
    for ports, way in ((params.inputs, "in"), (params.outputs, "out")):
        for port in ports:
            members = [f"    {_member(field)};" for field in reversed(port.fields)]
            lines += [f"  // {port.name}, {way}", "  typedef struct packed {", *members]
            lines += [f"  }} {port.name}_payload_t;"]
    return "\n".join([*lines, "endpackage", ""])


def _member(field: Field) -> str:
    """A field of a packed struct; element 0 of a vector is the lowest."""
    words = ["logic"]
    if field.signed and field.count is None:
        words.append("signed")
    if field.count is not None:
        words.append(f"[{field.count - 1}:0]")
    if field.bits > 1:
        words.append(f"[{field.bits - 1}:0]")
    return " ".join([*words, field.name])


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
    """Everything needed to drive the module: parameters, timing, every wire of every port.

    ``wires`` are all of the module's, as ``verilog`` declares them; a block without registers has
    neither clock nor reset.
    """
    wires = _wires(verilog, params.slug)
    clocked = any(wire["name"] == params.clock for wire in wires)
    level = "low" if params.reset.endswith("n") else "high"
    return {
        "module": params.slug,
        "block": params.block,
        "summary": params.summary,
        "parameters": params.as_dict(),
        "timing": _timing(params),
        "clock": {"name": params.clock, "edge": "rising"} if clocked else None,
        "reset": {"name": params.reset, "active": level, "synchronous": True} if clocked else None,
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
    """FuseSoC package (CAPI2) of the Verilog, its package of payloads, and the lint waivers."""
    payloads = f"      - {params.slug}_pkg.sv: {{file_type: systemVerilogSource}}\n"
    if not (params.inputs or params.outputs):
        payloads = ""
    return f"""\
CAPI=2:

name: tilewright:{params.block}:{params.slug}:{release}
description: {json.dumps(params.summary)}

filesets:
  rtl:
    files:
{payloads}      - {params.slug}.v
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
