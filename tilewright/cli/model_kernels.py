"""``tilewright kernels model``: tokens of whole models."""

import argparse
import json
from pathlib import Path
from typing import Any

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError
from tilewright.cli.pack_kernels import optional_packages, sparsity_of

__all__ = ["MODEL_RECORD", "measure_model"]

MODEL_RECORD = Path("out/model.json")


def measure_model(args: argparse.Namespace) -> int:
    """Tokens of a whole model, stock and packed in turn."""
    from tilewright.base.files import write_atomic

    with optional_packages():
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
        sparsity = sparsity_of(args)
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
