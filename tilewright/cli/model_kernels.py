"""What ``tilewright kernels`` does with whole models."""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError

__all__ = ["MODEL_RECORD", "measure_model", "pack_model"]

MODEL_RECORD = Path("out/model.json")


@contextmanager
def _optional_packages() -> Iterator[None]:
    """Say what to install where PyTorch or Transformers is missing."""
    try:
        yield
    except ImportError as error:
        raise CommandError(f"{error.name} is missing: pip install 'tilewright[torch]'") from error


def measure_model(args: argparse.Namespace) -> int:
    """Tokens of a whole model, stock and packed in turn."""
    from tilewright.base.files import write_atomic

    with _optional_packages():
        from tilewright.kernels.whole import (
            full_model_plan,
            one_form,
            quick_model_plan,
            run,
            run_batches,
            steps,
        )
    plan = quick_model_plan() if args.quick else full_model_plan()
    if args.form:
        sparsity = _sparsity(args)
        try:
            plan = one_form(plan, args.form, sparsity)
        except ValueError as error:
            raise CommandError(str(error)) from error
    output = args.output or MODEL_RECORD
    before, batches = None, args.batches or ()
    if batches:
        wrong = [batch for batch in batches if batch not in plan.batches]
        if wrong:
            known = ", ".join(map(str, plan.batches))
            raise CommandError(f"--batches: a record has batches {known}, not {wrong[0]}")
        try:
            before = json.loads(output.read_text())
        except (OSError, json.JSONDecodeError) as error:
            raise CommandError(f"--batches completes a record, but {output}: {error}") from error
    output.parent.mkdir(parents=True, exist_ok=True)
    part = output.with_suffix(".part.json")  # what there is, should the run be cut off

    def keep(record: dict[str, Any]) -> None:
        write_atomic(part, json.dumps(record, indent=1) + "\n")

    count = steps(plan) if before is None else 1 + len(plan.forms) + len(batches)
    with progress("model", count) as tick:
        try:
            record = (
                run(plan, tick, keep)
                if before is None
                else run_batches(plan, before, batches, tick)
            )
        except ValueError as error:
            raise CommandError(str(error)) from error
    write_atomic(output, json.dumps(record, indent=1) + "\n")
    part.unlink(missing_ok=True)
    if args.json:
        print_json(record)
        return 0
    _print_tokens(record)
    print(f"record: {output}")
    return 0


def _sparsity(args: argparse.Namespace) -> float:
    sparsity: float = 0.5 if args.sparsity is None else args.sparsity
    if not 0 <= sparsity <= 1:
        raise CommandError(f"--sparsity must be 0..1, not {sparsity}")
    return sparsity


def _print_tokens(record: dict[str, Any]) -> None:
    from tilewright.kernels.records import token_summary

    print_table(
        ("MODEL", "BATCH", "MS/TOKEN", "X STOCK", "% OUTSIDE LINEAR LAYERS"),
        [
            (
                row.model,
                row.batch,
                f"{1e3 * row.seconds:.1f}",
                f"{row.over_stock:.2f}",
                f"{100 * row.rest_share:.0f}",
            )
            for row in token_summary(record)
        ],
    )


def pack_model(args: argparse.Namespace) -> int:
    """A folder of Hugging Face into another one, packed."""
    with _optional_packages():
        from tilewright.kernels.checkpoints import convert, count_steps
    sparsity = _sparsity(args)
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
