"""``tilewright verilog``: a block as files that other tools take."""

import argparse
from pathlib import Path

from tilewright.base.console import print_json, progress
from tilewright.base.errors import CommandError

NAME = "verilog"
HELP = "write a block's Verilog, its interface as JSON, a FuseSoC core file and lint waivers"
EXAMPLE = "tilewright verilog float_mul:fp16 -o build/verilog"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("block", nargs="?", metavar="BLOCK", help="NAME[:PRESET][,FIELD=VALUE]...")
    parser.add_argument("--all", action="store_true", help="every preset of every block instead")
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, required=True, help="folder to write to"
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.golden.params.resolve import BLOCKS, resolve

    if (args.block is None) != args.all:
        raise CommandError("name one BLOCK, or --all")
    if args.all:
        wanted = [cls.preset(name) for cls in BLOCKS.values() for name in cls.PRESETS]
    else:
        wanted = [resolve(args.block)]
    written = []
    with progress("verilog", len(wanted)) as tick:
        for params in wanted:
            tick(params.slug, steps=0)
            written.append(write_block(params, args.output))
            tick()
    if args.json:
        plain = [{kind: str(path) for kind, path in files.items()} for files in written]
        print_json(plain if args.all else plain[0])
    else:
        for path in dict.fromkeys(path for files in written for path in files.values()):
            print(path)
    return 0


def write_block(params, folder: Path) -> dict[str, Path]:
    """The files of a block, the same bytes on every run and machine; the waivers serve all."""
    import json
    from importlib.metadata import version

    from tilewright.base.files import write_atomic
    from tilewright.synth.emit import LINT_WAIVERS, core_file, interface, to_verilog

    verilog = to_verilog(params)
    contents = {
        "verilog": (f"{params.slug}.v", verilog),
        "interface": (
            f"{params.slug}.json",
            json.dumps(interface(params, verilog), indent=2) + "\n",
        ),
        "core": (f"{params.slug}.core", core_file(params, version("tilewright"))),
        "waivers": (LINT_WAIVERS.name, LINT_WAIVERS.read_text()),
    }
    written = {}
    for kind, (name, text) in contents.items():
        write_atomic(folder / name, text)
        written[kind] = folder / name
    return written
