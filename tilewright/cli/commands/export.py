"""``tilewright export``: our systems in the forms of other tools."""

import argparse
from pathlib import Path

from tilewright.base.console import print_json
from tilewright.base.errors import CommandError
from tilewright.base.files import write_atomic
from tilewright.cli.targets import add_target_arguments, target_of

NAME = "export"
HELP = "write a system for LLMServingSim, ZigZag, Stream or accelforge"
EXAMPLE = "tilewright export serving-sim --model llama-3.1-8b --system spr-hbm --out perf"
TOOLS = ("serving-sim", "zigzag", "stream", "accelforge")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tool", choices=TOOLS, help="whose form it has")
    add_target_arguments(parser)
    parser.add_argument("--model", metavar="MODEL", help="of serving-sim: its times are of a model")
    parser.add_argument("--kv", metavar="F", help="of serving-sim: format of keys and values")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="folder to write to")


def run(args: argparse.Namespace) -> int:
    target = target_of(args)
    if args.tool == "serving-sim":
        from tilewright.sim.models import resolve_model
        from tilewright.studies.exports.serving_sim import serving_sim_files

        if args.model is None:
            raise CommandError("serving-sim needs --model, whose kernels are timed")
        model = resolve_model(args.model)
        files = serving_sim_files(target, model, scheme=args.scheme, kv=args.kv)
    else:
        from tilewright.studies.exports.accelforge import accelforge_files
        from tilewright.studies.exports.stream import stream_files
        from tilewright.studies.exports.zigzag import zigzag_files

        for option in ("model", "kv"):
            if getattr(args, option) is not None:
                raise CommandError(f"--{option} is of serving-sim, not of {args.tool}")
        if target.server is not None:
            raise CommandError(f"{args.tool} takes accelerators; {target.system} is a server")
        write = {"zigzag": zigzag_files, "stream": stream_files, "accelforge": accelforge_files}
        files = write[args.tool](target.accelerator(args.scheme))
    for name, text in files.items():
        write_atomic(args.out / name, text)
    written = [str(args.out / name) for name in files]
    print_json(written) if args.json else print("\n".join(written))
    return 0
