"""``tilewright kernels``: which kernels this machine can run, and how fast they are."""

import argparse
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError

NAME = "kernels"
HELP = "compile the sparse kernels for this machine: what it can run, or how fast"
EXAMPLE = "tilewright kernels info"

DEFAULT_RECORD = Path("out/kernels.json")
MODEL_RECORD = Path("out/model.json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        metavar="WHAT",
        choices=("info", "bench", "model"),
        help="info: what can run here; bench: measure layers; model: measure a whole model",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help=f"where bench and model write their record [{DEFAULT_RECORD}, {MODEL_RECORD}]",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="bench, model: everything once on toys, in seconds; says nothing about speed",
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.kernels import BuildError

    if args.what == "info" and (args.output or args.quick):
        raise CommandError("--output and --quick go with bench and model")
    try:
        return {"info": _info, "bench": _bench, "model": _model}[args.what](args)
    except BuildError as error:
        raise CommandError(str(error)) from error


def _info(args: argparse.Namespace) -> int:
    from tilewright.kernels.machine import describe_machine

    machine = describe_machine()
    if args.json:
        print_json(machine)
        return 0
    rows = [(field.name, _text(getattr(machine, field.name))) for field in fields(machine)]
    print_table(("WHAT", "HERE"), rows)
    return 0


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _bench(args: argparse.Namespace) -> int:
    from tilewright.base.files import write_atomic
    from tilewright.kernels.bench import run, steps
    from tilewright.kernels.plan import full_plan, quick_plan

    plan = quick_plan() if args.quick else full_plan()
    with progress("kernels", steps(plan)) as tick:
        record = run(plan, tick)
    output = args.output or DEFAULT_RECORD
    output.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(output, json.dumps(record, indent=1) + "\n")
    if args.json:
        print_json(record)
        return 0
    _print_layers(record)
    print(f"record: {output}")
    return 0


def _model(args: argparse.Namespace) -> int:
    from tilewright.base.files import write_atomic

    try:
        from tilewright.kernels.whole import full_model_plan, quick_model_plan, run, steps
    except ImportError as error:
        raise CommandError(
            f"{error.name} is missing: pip install 'tilewright[torch]' transformers"
        ) from error
    plan = quick_model_plan() if args.quick else full_model_plan()
    with progress("model", steps(plan)) as tick:
        record = run(plan, tick)
    output = args.output or MODEL_RECORD
    output.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(output, json.dumps(record, indent=1) + "\n")
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


def _print_layers(record: dict[str, Any]) -> None:
    """Time, bandwidth as a share of what reading alone gets, and speed against stock PyTorch."""
    from tilewright.kernels.records import layer_summary

    print_table(
        ("LAYER", "BATCH", "KERNEL", "US", "GB/S", "% OF READ", "X STOCK"),
        [
            (
                row.layer,
                row.batch,
                row.kernel,
                f"{1e6 * row.seconds:.1f}",
                f"{row.bytes_per_second / 1e9:.1f}",
                f"{100 * row.share_of_read:.0f}",
                "" if row.over_stock is None else f"{row.over_stock:.2f}",
            )
            for row in layer_summary(record)
        ],
    )
