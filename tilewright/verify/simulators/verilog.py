"""Verilog of a block, cached: writing that of a large one takes longer than a short simulation."""

import os
import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path

from tilewright.base.cache import get_or_make_folder, sources_of
from tilewright.golden.params.resolve import registered_modules, resolve
from tilewright.verify.simulators.programs import BuildError, run_program

__all__ = ["block_verilog"]

# What decides the Verilog of a block, beside its parameters.
SOURCES = (
    "tilewright.golden.params",
    "tilewright.hw",
    "tilewright.synth.emit",
    "tilewright.synth.yosys",
)
TOOLS = ("amaranth", "pyosys")


def block_verilog(spec: str) -> str:
    """Return the Verilog of the block that ``spec`` names, written once per source text."""
    slug = resolve(spec).slug
    sources = _sources()
    ingredients = [slug, *sources, *map(version, TOOLS)]
    folder = get_or_make_folder("sim", ingredients, partial(_write, spec=spec, sources=sources))
    return (folder / f"{slug}.v").read_text()


def _write(folder: Path, spec: str, sources: list[str]) -> None:
    # A process of its own reads the files as they are, whatever this one imported before.
    path = os.pathsep.join(filter(None, sys.path))
    command: list[str | Path] = [sys.executable, "-m", "tilewright", "verilog", spec, "-o", folder]
    run_program(command, folder, {"PYTHONPATH": path})
    if _sources() != sources:
        raise BuildError(f"a source changed while the Verilog of {spec} was written; try again")


def _sources() -> list[str]:
    return sources_of(*SOURCES, *registered_modules())
