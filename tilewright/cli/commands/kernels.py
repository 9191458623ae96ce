"""``tilewright kernels``: which kernels this machine can run; pack a model for them."""

import argparse
from collections import Counter
from pathlib import Path

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError
from tilewright.cli.options import adder

NAME = "kernels"
HELP = "compile the sparse kernels for this machine: what it can run; pack a model for them"
EXAMPLE = "tilewright kernels info"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("what info|sparsify", "info: what can run here; sparsify: pack a model of Hugging Face")
    text = "sparsify: a folder, or a GGUF file; one that is quantised stays as it is"
    add("folder MODEL", text, nargs="?", type=Path)
    add("-o --output DIR", "sparsify: where the packed folder goes")
    text = "sparsify: share of each layer's weights that become zero, 0..1 [0.5]; 0 keeps all"
    add("--sparsity SHARE", text, type=float)
    add("--form FORM", "sparsify: bf16, int8, or a scheme such as mxfp4 [bf16]")


def run(args: argparse.Namespace) -> int:
    from tilewright.kernels import BuildError

    try:
        return _info(args) if args.what == "info" else _sparsify(args)
    except BuildError as error:
        raise CommandError(str(error)) from error


def _info(args: argparse.Namespace) -> int:
    from tilewright.kernels.machine import describe_machine

    given = (args.folder, args.output, args.sparsity, args.form)
    if any(value is not None for value in given):
        raise CommandError("info takes no other argument than --json")
    machine = describe_machine()
    if args.json:
        print_json(machine)
        return 0
    print_table(("WHAT", "HERE"), [(what, _text(here)) for what, here in machine.items()])
    return 0


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _sparsify(args: argparse.Namespace) -> int:
    """A folder of Hugging Face into another one, packed."""
    if args.folder is None or args.output is None:
        raise CommandError("sparsify takes MODEL and -o DIR")
    if args.sparsity is not None and not 0 <= args.sparsity <= 1:
        raise CommandError(f"--sparsity must be 0..1, not {args.sparsity}")
    try:
        from tilewright.kernels.checkpoints import convert
        from tilewright.kernels.sources import open_source
    except ImportError as error:
        raise CommandError(f"{error.name} is missing: pip install 'tilewright[torch]'") from error
    try:
        with progress("packing", len(open_source(args.folder).names())) as tick:
            layers = convert(args.folder, args.output, args.sparsity, args.form, tick)
    except (ValueError, OSError) as error:
        raise CommandError(str(error)) from error
    packed = sum(sum(layer["bytes"].values()) for layer in layers.values())
    dense = sum(2 * layer["shape"][0] * layer["shape"][1] for layer in layers.values())
    forms = Counter(layer["form"] for layer in layers.values())
    if args.json:
        sizes = {"packed_bytes": packed, "bf16_bytes": dense}
        print_json({"folder": str(args.output), "layers": forms, **sizes})
    else:
        count = ", ".join(f"{number} in {form}" for form, number in forms.items())
        print(f"layers: {count}; {packed / dense:.1%} of their bytes in bf16: {args.output}")
    return 0
