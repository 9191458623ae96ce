"""``tilewright kernels``: which kernels run here; pack a model for them; explain its speed."""

import argparse
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError
from tilewright.cli.options import adder
from tilewright.cli.tables import print_records

NAME = "kernels"
HELP = "compile the sparse kernels for this machine; pack a model for them; explain its speed"
EXAMPLE = "tilewright kernels info"
COLUMNS = {
    **{"LAYER": "name", "COUNT": "layers", "FORM": "form", "ORDER": "order"},
    **{"BITS": "bits_per_weight:.2f", "MB": "megabytes:.1f", "BOUND MS": "bound_ms:.2f"},
    **{"MS": "measured_ms:.2f", "GB/S": "gb_per_second:.1f", "OF READING": "share:.0%"},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    text = "info: what runs here; sparsify: pack a model; explain: where a packed one's time goes"
    add("what info|sparsify|explain", text)
    text = "a folder, or for sparsify a GGUF file; what is quantised stays as it is"
    add("folder MODEL", text, nargs="?", type=Path)
    add("-o --output DIR", "sparsify: where the packed folder goes")
    text = "sparsify: share of each layer's weights that become zero, 0..1 [0.5]; 0 keeps all"
    add("--sparsity SHARE", text, type=float)
    add("--form FORM", "sparsify: bf16, int8, or a scheme such as mxfp4 [bf16]")
    add("--threads N", "explain: threads of the kernels [all processors]", type=int)


def run(args: argparse.Namespace) -> int:
    from tilewright.kernels import BuildError

    try:
        return {"info": _info, "sparsify": _sparsify, "explain": _explain}[args.what](args)
    except BuildError as error:
        raise CommandError(str(error)) from error


def _info(args: argparse.Namespace) -> int:
    from tilewright.kernels.machine import describe_machine

    given = (args.folder, args.output, args.sparsity, args.form, args.threads)
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
    if args.folder is None or args.output is None or args.threads is not None:
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


def _explain(args: argparse.Namespace) -> int:
    """A token of a packed model, layer by layer."""
    from tilewright.kernels.explain import explain, packed_layers

    if args.folder is None or any(v is not None for v in (args.output, args.sparsity, args.form)):
        raise CommandError("explain takes a packed MODEL, and --threads")
    try:
        with progress("loading", len(packed_layers(args.folder))) as tick:
            found = explain(args.folder, threads=args.threads, tick=tick)
    except (ValueError, OSError) as error:
        raise CommandError(str(error)) from error
    if args.json:
        print_json(asdict(found))
        return 0
    print(
        f"{found.threads} threads, {found.path}; threads that only read get"
        f" {found.read_gb_per_second:.1f} GB/s"
    )
    print_records(found.kinds, COLUMNS)
    print(f"a token's products: {found.measured_ms:.2f} ms measured, bound {found.bound_ms:.2f} ms")
    for advice in found.advice:
        print(f"- {advice}")
    return 0
