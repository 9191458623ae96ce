"""``tilewright list``: what there is, from the parameter objects alone."""

import argparse

from tilewright.base.console import print_json, print_table
from tilewright.golden.params.describe import BlockDescription, describe, family
from tilewright.golden.params.resolve import BLOCKS, resolve

NAME = "list"
HELP = "list blocks, models or systems; or the fields of a block or a server"
EXAMPLE = "tilewright list float_mul:fp16"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "block",
        nargs="?",
        metavar="WHAT",
        help="NAME[:PRESET][,FIELD=VALUE]... of a block, or a server's name; models; or systems",
    )


def run(args: argparse.Namespace) -> int:
    if args.block is None:
        _print_all(args.json)
    elif args.block in ("models", "systems"):
        from tilewright.cli.listings import print_models, print_systems

        (print_models if args.block == "models" else print_systems)(args.json)
    elif _is_server(args.block):
        from tilewright.cli.listings import print_server

        print_server(args.block, args.json)
    else:
        _print_one(describe(resolve(args.block)), args.json)
    return 0


def _is_server(name: str) -> bool:
    from tilewright.sim.system import FOLDER

    return "/" not in name and (FOLDER / f"{name}.toml").exists()


def _print_all(as_json: bool) -> None:
    blocks = sorted(BLOCKS.values(), key=lambda cls: (family(cls), cls.block))
    if as_json:
        print_json(
            [
                {
                    "family": family(cls),
                    "block": cls.block,
                    "summary": cls.summary,
                    "presets": list(cls.PRESETS),
                }
                for cls in blocks
            ]
        )
    else:
        print_table(
            ("FAMILY", "BLOCK", "SUMMARY", "PRESETS (FIRST IS THE DEFAULT)"),
            [(family(cls), cls.block, cls.summary, " ".join(cls.PRESETS)) for cls in blocks],
        )


def _print_one(about: BlockDescription, as_json: bool) -> None:
    if as_json:
        print_json(about)
        return
    print(f"{about.block}: {about.summary}\n\n{about.contract}\n")
    print(f"name: {about.name}\n")
    print_table(("PRESET", "NAME"), [(preset.name, preset.module) for preset in about.presets])
    print()
    print_table(
        ("FIELD", "VALUE", "DEFAULT", "TYPE"),
        [(f.name, f.value, f.default, f.type) for f in about.fields],
    )
    if about.inputs or about.outputs:
        print()
        print_table(
            ("PORT", "PAYLOAD FIELD", "BITS", "COUNT", "SIGNED"),
            [
                (f"{port.name} {way}", f.name, f.bits, f.count or "", f.signed or "")
                for way, ports in (("in", about.inputs), ("out", about.outputs))
                for port in ports
                for f in port.fields
            ],
        )
    if about.wires:
        print()
        print_table(
            ("WIRE", "WAY", "BITS"),
            [(w.name, "out" if w.output else "in", w.bits) for w in about.wires],
        )
    timing = about.timing
    print()
    if timing.note is not None:
        print(timing.note)
    else:
        print(f"latency {timing.latency_cycles}, interval {timing.interval_text} (cycles)")
