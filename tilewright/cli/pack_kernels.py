"""``tilewright kernels sparsify``: a folder of Hugging Face, packed."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.base.console import print_json, progress
from tilewright.base.errors import CommandError

__all__ = ["optional_packages", "pack_model", "sparsity_of"]


@contextmanager
def optional_packages() -> Iterator[None]:
    """Say what to install where PyTorch or Transformers is missing."""
    try:
        yield
    except ImportError as error:
        raise CommandError(f"{error.name} is missing: pip install 'tilewright[torch]'") from error


def sparsity_of(args: argparse.Namespace) -> float:
    """The share of zeros that is asked for, checked."""
    sparsity: float = 0.5 if args.sparsity is None else args.sparsity
    if not 0 <= sparsity <= 1:
        raise CommandError(f"--sparsity must be 0..1, not {sparsity}")
    return sparsity


def pack_model(args: argparse.Namespace) -> int:
    """A folder of Hugging Face into another one, packed."""
    with optional_packages():
        from tilewright.kernels.checkpoints import convert, count_steps
    sparsity = sparsity_of(args)
    try:
        with progress("packing", count_steps(args.folder)) as tick:
            layers = convert(args.folder, args.output, sparsity, args.form or "bf16", tick)
    except (ValueError, OSError) as error:
        raise CommandError(str(error)) from error
    packed = sum(sum(layer["bytes"].values()) for layer in layers.values())
    dense = sum(2 * layer["shape"][0] * layer["shape"][1] for layer in layers.values())
    if args.json:
        print_json({"folder": str(args.output), "packed_bytes": packed, "bf16_bytes": dense})
    else:
        print(f"{len(layers)} layers, {packed / dense:.1%} of their bytes in bf16: {args.output}")
    return 0
