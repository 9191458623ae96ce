"""A block as files for other tools: Verilog, payloads, interface, FuseSoC core, waivers."""

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tilewright.base.files import write_atomic
from tilewright.golden.params.block import BlockParams
from tilewright.synth.emit import LINT_WAIVERS, core_file, interface, package, to_verilog


@dataclass(frozen=True)
class BlockFiles:
    """Paths of the files of a block; one without streams has no ``package``."""

    verilog: Path
    package: Path | None
    interface: Path
    core: Path
    waivers: Path


def write_block(params: BlockParams, folder: Path) -> BlockFiles:
    """Write the files of a block to ``folder``, the same bytes on every run and machine."""
    verilog = to_verilog(params)
    files = BlockFiles(
        verilog=folder / f"{params.slug}.v",
        package=folder / f"{params.slug}_pkg.sv" if params.inputs or params.outputs else None,
        interface=folder / f"{params.slug}.json",
        core=folder / f"{params.slug}.core",
        waivers=folder / LINT_WAIVERS.name,
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(files.verilog, verilog)
    if files.package is not None:
        write_atomic(files.package, package(params))
    write_atomic(files.interface, json.dumps(interface(params, verilog), indent=2) + "\n")
    write_atomic(files.core, core_file(params, version("tilewright")))
    write_atomic(files.waivers, LINT_WAIVERS.read_text())
    return files
