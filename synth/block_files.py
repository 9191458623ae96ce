"""A block as files that other tools take: Verilog, interface, FuseSoC core and lint waivers."""

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tilewright.base.files import write_atomic
from tilewright.golden.params.block import BlockParams
from tilewright.synth.emit import LINT_WAIVERS, core_file, interface, to_verilog

__all__ = ["BlockFiles", "write_block"]


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
