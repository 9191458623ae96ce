"""``tilewright verilog``: a block as files that other tools take."""

import argparse
from pathlib import Path

from tilewright.console import print_json

NAME = "verilog"
HELP = "write a block's Verilog, its interface as JSON and its FuseSoC core file"
EXAMPLE = "tilewright verilog float_mul:fp16 -o build/verilog"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("block", metavar="BLOCK", help="NAME[:PRESET][,FIELD=VALUE]...")
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, required=True, help="folder to write to"
    )


def run(args: argparse.Namespace) -> int:
    from golden.params.resolve import resolve

    written = write_block(resolve(args.block), args.output)
    if args.json:
        print_json({kind: str(path) for kind, path in written.items()})
    else:
        for path in written.values():
            print(path)
    return 0


def write_block(params, folder: Path) -> dict[str, Path]:
    """The three files of a block, the same bytes on every run and machine."""
    import json
    from importlib.metadata import version

    from synth.emit import core_file, interface, to_verilog
    from tilewright.files import write_atomic

    verilog = to_verilog(params)
    contents = {
        "verilog": (f"{params.slug}.v", verilog),
        "interface": (
            f"{params.slug}.json",
            json.dumps(interface(params, verilog), indent=2) + "\n",
        ),
        "core": (f"{params.slug}.core", core_file(params, version("tilewright"))),
    }
    written = {}
    for kind, (name, text) in contents.items():
        write_atomic(folder / name, text)
        written[kind] = folder / name
    return written
