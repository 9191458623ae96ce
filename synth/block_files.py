"""A block as files for other tools: Verilog, payloads, interface, FuseSoC core, waivers."""

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tilewright.base.files import write_files
from tilewright.golden.params.block import BlockParams
from tilewright.synth.emit import LINT_WAIVERS, core_file, interface, package, to_verilog


@dataclass(frozen=True)
class BlockFiles:
    """Paths of the files of a block; one without streams has no ``package``."""

    verilog: Path
    package: Path | None
    interface: Path
    core: Path
    waivers: Path  # of all blocks of a folder


def write_block(params: BlockParams, folder: Path) -> BlockFiles:
    """Write the files of a block to ``folder``, the same bytes on every run and machine."""
    slug, verilog = params.slug, to_verilog(params)
    has_streams = bool(params.inputs or params.outputs)
    texts = {
        "verilog": (f"{slug}.v", verilog),
        **({"package": (f"{slug}_pkg.sv", package(params))} if has_streams else {}),
        "interface": (f"{slug}.json", json.dumps(interface(params, verilog), indent=2) + "\n"),
        "core": (f"{slug}.core", core_file(params, version("tilewright"))),
        "waivers": (LINT_WAIVERS.name, LINT_WAIVERS.read_text()),
    }
    paths = dict(zip(texts, write_files(folder, dict(texts.values())), strict=True))
    return BlockFiles(package=paths.pop("package", None), **paths)
