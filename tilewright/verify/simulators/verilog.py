"""Verilog of a block, cached: writing that of a large one takes longer than a short simulation."""

import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path

from tilewright.base.cache import content_key, get_or_make_folder
from tilewright.golden.params.resolve import resolve
from tilewright.synth import emitted
from tilewright.synth.emitted import KEY_FILE, verilog_sources
from tilewright.verify.simulators.find import BuildError, import_path, run_program

TOOLS = ("amaranth", "pyosys")


def block_verilog(spec: str) -> str:
    """Return the Verilog of the block that ``spec`` names, written once per source text."""
    slug = resolve(spec).slug
    sources = verilog_sources()
    ingredients = [slug, *sources, *map(version, TOOLS)]
    folder = get_or_make_folder("sim", ingredients, partial(_write, spec=spec, sources=sources))
    return (folder / f"{slug}.v").read_text()


def _write(folder: Path, spec: str, sources: list[str]) -> None:
    # A process of its own reads the files as they are, whatever this one imported before.
    command: list[str | Path] = [sys.executable, "-m", emitted.__name__, spec, folder]
    run_program(command, folder, {"PYTHONPATH": import_path()})
    # Its output depends on what that process imported.
    written_from = (folder / KEY_FILE).read_text()
    if verilog_sources() != sources or written_from != content_key(sources):
        raise BuildError(
            f"the Verilog of {spec} was written from other sources than this program sees: one"
            " changed meanwhile, or sys.path leads elsewhere from another folder; try again"
        )
