"""A FuseSoC core (CAPI2): sources, constraints and macros of a block, for any flow of Edalize."""

import json

from tilewright.synth.handover.design import Design

__all__ = ["core_file"]


def core_file(design: Design, release: str) -> str:
    """The core of ``design``: its target ``sim`` has models of memories, ``synth`` their pins."""
    filesets = {"rtl": (f"{design.name}.v", "verilogSource")}
    if design.macros:
        filesets["macros"] = ("macros.v", "verilogSource")
        filesets["models"] = ("macro_models.v", "verilogSource")
    filesets["constraints"] = (f"{design.name}.sdc", "SDC")
    lines = [
        "CAPI=2:",
        "",
        f"name: tilewright:{design.params.block}:{design.name}:{release}",
        f"description: {json.dumps(design.params.summary)}",
        "",
        "filesets:",
    ]
    for name, (file, kind) in filesets.items():
        lines += [f"  {name}:", f"    files: [{file}]", f"    file_type: {kind}"]
    rtl = "rtl, macros" if design.macros else "rtl"
    simulated = "models, rtl" if design.macros else "rtl"
    return "\n".join(
        [
            *lines,
            "",
            "targets:",
            "  default:",
            f"    filesets: [{rtl}]",
            f"    toplevel: {design.name}",
            "  lint:",
            f"    filesets: [{simulated}]",
            "    flow: lint",
            "    flow_options: {tool: verilator, verilator_options: [-Wno-fatal]}",
            f"    toplevel: {design.name}",
            "  sim:",
            f"    filesets: [{simulated}]",
            "    flow: sim",
            "    flow_options: {tool: icarus}",
            f"    toplevel: {design.name}",
            "  synth:",
            f"    filesets: [{rtl}, constraints]",
            f"    toplevel: {design.name}",
            "",
        ]
    )
