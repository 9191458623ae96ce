"""Libraries that OpenROAD reads for a block: LEF of a technology, Liberty, stubs of memories.

LEF files of the user, else of a package, become one file of layers and one of usable cells.
"""

import importlib.util
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.base.cache import get_or_make_folder
from tilewright.base.errors import CommandError
from tilewright.synth.handover.macros import macro_lef, macro_liberty
from tilewright.synth.liberty import to_liberty
from tilewright.synth.liberty_reader import read_text
from tilewright.synth.memory import MemoryMacro
from tilewright.synth.technology import Technology

TABLE = Path(__file__).with_name("technologies.toml")
_MACRO = re.compile(r"^MACRO (\S+)\s*$.*?^END \1\s*$", re.MULTILINE | re.DOTALL)
_SITE = re.compile(r"^SITE (\S+)\s*$.*?^END \1\s*$", re.MULTILINE | re.DOTALL)
_LAYER = re.compile(r"^\s*LAYER (\S+)\s*$", re.MULTILINE)


@cache
def layout_table(technology: str) -> dict[str, Any]:
    """A technology's entry in ``technologies.toml``."""
    table = tomllib.loads(TABLE.read_text())
    if technology not in table:
        raise CommandError(f"{technology} has no layers here; there are {', '.join(table)}")
    found: dict[str, Any] = table[technology]
    return found


@dataclass(frozen=True)
class Library:
    """Files in a folder named by their content."""

    folder: Path

    @property
    def lef(self) -> list[str]:
        return [str(self.folder / "tech.lef"), *map(str, sorted(self.folder.glob("[!t]*.lef")))]

    @property
    def liberty(self) -> list[str]:
        return [str(path) for path in sorted(self.folder.glob("*.lib"))]


def library_of(
    technology: Technology, macros: Iterable[MemoryMacro] = (), lef: Sequence[Path] = ()
) -> Library:
    """The libraries of a block with ``macros``; LEF from files and folders ``lef``."""
    layers, cells = _lef_texts(technology, lef)
    files = {
        "tech.lef": layers,
        "cells.lef": cells,
        "cells.lib": to_liberty(technology, gates=True),
    }
    for macro in macros:
        files[f"{macro.name}.lef"] = macro_lef(macro, technology)
        files[f"{macro.name}.lib"] = macro_liberty(macro, technology)

    def make(folder: Path) -> None:
        for name, text in files.items():
            (folder / name).write_text(text)

    given = (part for item in sorted(files.items()) for part in item)
    return Library(get_or_make_folder("layout-libraries", given, make))


def _lef_texts(technology: Technology, lef: Sequence[Path]) -> tuple[str, str]:
    table = layout_table(technology.name)
    wanted = {*technology.cells, *table["fillers"], table["tap"]["cell"]}
    layers: dict[str, str] = {}
    sites: dict[str, str] = {}
    cells: dict[str, str] = {}

    def read(paths: Iterable[Path]) -> None:
        for path in paths:
            take(path.name, read_text(path))

    def take(name: str, text: str) -> None:
        if table["wires"].keys() <= set(_LAYER.findall(text)) and "MACRO " not in text:
            layers[name] = text
        else:
            cells.update((m[1], m[0]) for m in _MACRO.finditer(text) if m[1] in wanted)
            sites.update((m[1], m[0]) for m in _SITE.finditer(text) if m[1] == table["site"])

    read(_lef_files(lef))
    if not layers and not cells:  # the user's files are of another technology
        read(package_files(technology.name, "lef"))
    missing = sorted(name for name in wanted - cells.keys() if not _left_out(technology, name))
    if not layers or missing:
        what = f"of {missing[0]}" if layers else f"with the layers of {technology.name}"
        raise CommandError(
            f"no LEF {what} found: give the files or their folder by --lef (`{technology.name}`"
            " in docs/physical.md says where they are)"
        )
    if len(layers) > 1:
        raise CommandError(
            f"several LEF files have the layers of {technology.name}: {', '.join(sorted(layers))};"
            " give one of them by --lef"
        )
    (layer_text,) = layers.values()
    if f"SITE {table['site']}" in layer_text:
        sites = {}
    body = "\n".join([*sites.values(), *(cells[name] for name in sorted(cells))])
    # Version 5.7 is the last that has all the statements of these libraries.
    head = 'VERSION 5.7 ;\nBUSBITCHARS "[]" ;\nDIVIDERCHAR "/" ;\n'
    return layer_text, head + re.sub(r"(?m)^\s*SOURCE .*\n", "", body) + "\nEND LIBRARY\n"


def _left_out(technology: Technology, name: str) -> bool:
    return name in technology.cells and technology.cells[name].weak


def _lef_files(lef: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for path in lef:
        if not path.exists():
            raise CommandError(f"{path}: no such file or folder")
        inside = sorted(path.rglob("*lef*")) if path.is_dir() else [path]
        found += [p for p in inside if re.search(r"\.t?lef(\.gz)?$", p.name)]
    return found


def package_files(technology: str, kind: str) -> list[Path]:
    """The ``lef`` or ``gds`` files of the package that has them, found without importing it."""
    package = layout_table(technology).get("package")
    if package is None:
        return []
    spec = importlib.util.find_spec(package["name"])
    if spec is None or spec.origin is None:
        return []
    folder = Path(spec.origin).parent
    return [path for pattern in package[kind] for path in sorted(folder.glob(pattern))]
