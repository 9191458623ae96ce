"""``tilewright verilog``: a block as files that other tools take."""

import argparse

from tilewright.base.console import print_json, progress
from tilewright.base.errors import CommandError
from tilewright.cli.options import BLOCK, adder

NAME = "verilog"
HELP = "write a block's Verilog, payloads as structs, interface as JSON, FuseSoC core and waivers"
EXAMPLE = "tilewright verilog float_mul:fp16 -o build/verilog"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("block BLOCK", BLOCK, nargs="?")
    add("--all", "every preset of every block instead")
    add("-o --output DIR", "folder to write to", required=True)


def run(args: argparse.Namespace) -> int:
    from tilewright.golden.params.resolve import BLOCKS, resolve
    from tilewright.synth.block_files import write_block

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
        print_json(written if args.all else written[0])
    else:
        for path in dict.fromkeys(
            path for files in written for path in vars(files).values() if path
        ):
            print(path)
    return 0
