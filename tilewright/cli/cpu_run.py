"""``tilewright run --on deca``: text from a model on a CPU whose tiles a DECA decompresses."""

import argparse
import sys

from tilewright.base.console import print_json, progress, remark
from tilewright.base.errors import CommandError
from tilewright.cli.compiled_options import refuse_compile_options
from tilewright.cli.cpu_tables import print_cpu_generation

__all__ = ["add_cpu_options", "is_cpu", "refuse_cpu_options", "run_on_cpu"]

_OWN = {"scheme": "scheme", "head-scheme": "head_scheme", "system": "system"}
_FOREIGN = ("latency", "layers", "trace", "state", "memory_error")


def add_cpu_options(parser: argparse.ArgumentParser) -> None:
    """Add how weights lie in a CPU's memory, and which CPU it is."""
    parser.add_argument(
        "--scheme",
        metavar="X",
        help="with --on deca: how weights are compressed, such as bf8, int4 or bf8_50%% [mxfp4]",
    )
    parser.add_argument(
        "--head-scheme", metavar="X", help="with --on deca: of the vocabulary head [bf16]"
    )
    parser.add_argument(
        "--system", metavar="S", help="with --on deca: the server around it [spr-hbm]"
    )


def is_cpu(block: str | None) -> bool:
    """Whether the block that was named is a DECA."""
    return block is not None and block.partition(":")[0].partition(",")[0] == "deca"


def refuse_cpu_options(args: argparse.Namespace) -> None:
    """Refuse options of a CPU where an accelerator runs the model."""
    for option, field in _OWN.items():
        if getattr(args, field) is not None:
            raise CommandError(f"--{option} goes with --on deca")


def run_on_cpu(args: argparse.Namespace) -> int:
    from tilewright.compiler.text import Text
    from tilewright.studies.on_cpu import CpuOptions, CpuSession

    refuse_compile_options(args, "on a CPU --scheme and --head-scheme say how weights are stored")
    for name in _FOREIGN:
        if getattr(args, name) not in (None, False):
            raise CommandError(f"--{name.replace('_', '-')} goes with an accelerator's programs")
    given = {"scheme": args.scheme, "head": args.head_scheme, "system": args.system}
    options = CpuOptions(block=args.on, **{k: v for k, v in given.items() if v is not None})
    with progress("compressing", 1) as tick:
        session = CpuSession(args.model, args.prompt, options, lambda name: tick(name, steps=0))
        rtl = session.check_on_rtl(tick=lambda name: tick(name, steps=0)) if args.rtl else None
    shown, text = sys.stderr if args.json else sys.stdout, Text(session.model.tokenizer)
    print(args.prompt, end="", flush=True, file=shown)
    try:
        done = session.generate(
            args.tokens,
            temperature=args.temperature,
            seed=args.seed,
            rtl=rtl,
            tell=lambda token: print(text.add(token), end="", flush=True, file=shown),
        )
    finally:
        print(file=shown)
    if args.json:
        print_json(done)
    else:
        print_cpu_generation(done)
    for line in done.remarks:
        remark(f"tilewright: {line}")
    return 0
