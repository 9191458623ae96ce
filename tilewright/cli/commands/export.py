"""``tilewright export``: our systems and blocks in the forms of other tools."""

import argparse
from pathlib import Path

from tilewright.base.console import print_json
from tilewright.base.errors import CommandError
from tilewright.base.files import write_files
from tilewright.cli.options import adder, refuse
from tilewright.cli.targets import add_target_arguments, target_of

NAME = "export"
HELP = "write a system for LLMServingSim, or a block for a chip flow or a driver"
EXAMPLE = "tilewright export serving-sim --model llama-3.1-8b --system spr-hbm --out perf"
MORE_EXAMPLES = (
    "tilewright export anda_apu --flow orfs --out build/anda_apu",
    "tilewright export harmonia_pe --flow librelane --clock 40MHz --out build/harmonia_pe",
    "tilewright export deca --flow orfs --tech asap7 --clock 500 --out build/deca",
    "tilewright export anda_axi:small --registers --out build/driver",
)
TOOL = "serving-sim"
FLOWS = "orfs|librelane"
_OF_SYSTEMS = ("system", "set", "engine", "scheme", "block", "latency", "model", "kv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("subject TOOL|BLOCK", f"{TOOL}; or with --flow, a block")
    add_target_arguments(parser)
    add("--model MODEL", "of a system: model whose kernels are timed")
    add("--kv F", "of a system: format of the KV cache")
    add("--out DIR", "folder to write to", required=True)
    add(f"--flow {FLOWS}", "flow that takes the block to a layout")
    add("--registers", "SystemRDL, IP-XACT and C headers of registers of anda, harmonia or deca")
    add("--tech T", "technology of the flow: asap7 or sky130hd [the first that the flow takes]")
    add("--clock CLOCK", "of the flow, as 800 (ps), 0.8ns or 1250MHz [1.25 x its record's delay]")


def run(args: argparse.Namespace) -> int:
    if args.registers and args.flow:
        raise CommandError("--registers and --flow are two exports")
    if args.registers:
        written = _export_registers(args)
    else:
        written = _export_block(args) if args.flow else _export_system(args)
    paths = [str(path) for path in written]
    print_json(paths) if args.json else print("\n".join(paths))
    return 0


def _refuse_systems(args: argparse.Namespace, taker: str) -> None:
    refuse(args, _OF_SYSTEMS, f"is of a system; {taker} takes a block")


def _export_registers(args: argparse.Namespace) -> list[Path]:
    from tilewright.studies.registers import write_registers

    _refuse_systems(args, "--registers")
    refuse(args, ("tech", "clock"), "is of a block that goes to a --flow")
    return write_registers(args.subject, args.out)


def _export_block(args: argparse.Namespace) -> list[Path]:
    from tilewright.synth.handover.flows import export_block

    _refuse_systems(args, "--flow")
    return export_block(args.subject, args.flow, args.out, technology=args.tech, period=args.clock)


def _export_system(args: argparse.Namespace) -> list[Path]:
    from tilewright.sim.models import resolve_model
    from tilewright.studies.exports import serving_sim_files

    if args.subject != TOOL:
        raise CommandError(f"{args.subject!r} is not {TOOL}; a block goes with --flow {FLOWS}")
    refuse(args, ("tech", "clock"), "is of a block, which goes with --flow")
    target = target_of(args)
    if args.model is None:
        raise CommandError(f"{TOOL} needs --model, whose kernels are timed")
    model = resolve_model(args.model)
    files = serving_sim_files(target, model, scheme=args.scheme, kv=args.kv)
    return write_files(args.out, files)
