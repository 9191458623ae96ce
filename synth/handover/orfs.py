"""Configuration of OpenROAD-flow-scripts: variables of its Makefile."""

from tilewright.synth.handover.design import Design

__all__ = ["UTILISATION", "config_mk"]

UTILISATION = 70  # per cent of the core; that of the placements in docs/physical.md


def config_mk(design: Design) -> str:
    """``config.mk``: run ``make DESIGN_CONFIG=.../config.mk`` in the flow's folder."""
    here = "$(dir $(DESIGN_CONFIG))"
    sources = [f"{here}{design.name}.v"]
    lines = [
        f"# {design.name}: {design.params.summary}",
        f"export PLATFORM = {design.technology.name}",
        f"export DESIGN_NAME = {design.name}",
        f"export DESIGN_NICKNAME = {design.name}",
    ]
    memories = []
    if design.macros:
        sources.append(f"{here}macros.v")
        for variable, suffix in (("ADDITIONAL_LEFS", "lef"), ("ADDITIONAL_LIBS", "lib")):
            files = " ".join(f"{here}{macro.name}.{suffix}" for macro in design.macros)
            memories.append(f"export {variable} = {files}")
        memories.append("# The memories are stubs: the last step leaves them empty in the layout.")
        memories.append("export GDS_ALLOW_EMPTY = sram_.*")
    return "\n".join(
        [
            *lines,
            f"export VERILOG_FILES = {' '.join(sources)}",
            f"export SDC_FILE = {here}{design.name}.sdc",
            *memories,
            f"export CORE_UTILIZATION = {UTILISATION}",
            "export CORE_ASPECT_RATIO = 1",
            "",
        ]
    )
