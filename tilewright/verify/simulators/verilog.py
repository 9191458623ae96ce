"""Verilog of a block, cached: writing that of a large one takes longer than a short simulation."""

import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path

from tilewright.base.cache import content_key, get_or_make_folder, sources_of
from tilewright.golden.params.resolve import registered_modules, resolve
from tilewright.verify.simulators.programs import BuildError, import_path, run_program

__all__ = ["block_verilog"]

# What decides the Verilog of a block, beside its parameters.
SOURCES = (
    "tilewright.golden.params",
    "tilewright.hw",
    "tilewright.synth.emit",
    "tilewright.synth.yosys",
)
TOOLS = ("amaranth", "pyosys")
KEY_FILE = "sources.key"


def block_verilog(spec: str) -> str:
    """Return the Verilog of the block that ``spec`` names, written once per source text."""
    slug = resolve(spec).slug
    sources = _sources()
    ingredients = [slug, *sources, *map(version, TOOLS)]
    folder = get_or_make_folder("sim", ingredients, partial(_write, spec=spec, sources=sources))
    return (folder / f"{slug}.v").read_text()


def _write(folder: Path, spec: str, sources: list[str]) -> None:
    # A process of its own reads the files as they are, whatever this one imported before.
    command: list[str | Path] = [sys.executable, "-m", __name__, spec, folder]
    run_program(command, folder, {"PYTHONPATH": import_path()})
    # What that process has imported decides what it wrote.
    written_from = (folder / KEY_FILE).read_text()
    if _sources() != sources or written_from != content_key(sources):
        raise BuildError(
            f"the Verilog of {spec} was written from other sources than this program sees: one"
            " changed meanwhile, or sys.path leads elsewhere from another folder; try again"
        )


def _sources() -> list[str]:
    return sources_of(*SOURCES, *registered_modules())


def main(spec: str, folder: str) -> None:
    """Write the Verilog of ``spec`` to ``folder``, and the key of the sources it came from."""
    from tilewright.synth.emit import to_verilog

    params = resolve(spec)
    key = content_key(_sources())
    Path(folder, f"{params.slug}.v").write_text(to_verilog(params))
    if content_key(_sources()) == key:
        Path(folder, KEY_FILE).write_text(key)
    else:
        Path(folder, KEY_FILE).write_text("a source changed meanwhile")


if __name__ == "__main__":
    main(*sys.argv[1:])
