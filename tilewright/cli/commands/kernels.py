"""``tilewright kernels``: which kernels this machine can run, and how fast they are."""

import argparse
from dataclasses import fields
from pathlib import Path

from tilewright.base.console import print_json, print_table
from tilewright.base.errors import CommandError
from tilewright.cli.bench_kernels import DEFAULT_RECORD, measure_layers
from tilewright.cli.model_kernels import MODEL_RECORD, measure_model
from tilewright.cli.pack_kernels import pack_model

NAME = "kernels"
HELP = "compile the sparse kernels for this machine: what it can run, how fast; pack a model"
EXAMPLE = "tilewright kernels info"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        metavar="WHAT",
        choices=("info", "bench", "model", "sparsify"),
        help="info: what can run here; bench: measure layers; model: measure a whole model;"
        " sparsify: pack a model of Hugging Face",
    )
    parser.add_argument(
        "folder", metavar="MODEL_DIR", nargs="?", type=Path, help="sparsify: the model's folder"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        type=Path,
        help=f"where bench and model write their record [{DEFAULT_RECORD}, {MODEL_RECORD}],"
        " and sparsify its folder",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="bench, model: everything once on toys, in seconds; says nothing about speed",
    )
    parser.add_argument(
        "--only",
        metavar="SECTIONS",
        help="bench: measure some sections anew, such as attention,roof_surface, and keep the"
        " others of the record that --output names",
    )
    parser.add_argument(
        "--batches",
        metavar="N",
        type=int,
        nargs="+",
        help="model: measure decoding at some batches anew, and keep the rest of the record that"
        " --output names",
    )
    text = (
        "sparsify, and model with --form: share of each layer's weights that become zero, 0..1"
        " [0.5]; 0 keeps all"
    )
    parser.add_argument("--sparsity", metavar="SHARE", type=float, help=text)
    text = (
        "sparsify: bf16, int8, or a scheme such as mxfp4 [bf16]; model: decode with this form"
        " alone, beside stock PyTorch"
    )
    parser.add_argument("--form", metavar="FORM", help=text)


def run(args: argparse.Namespace) -> int:
    from tilewright.kernels import BuildError

    packs = args.what == "sparsify"
    if args.what == "info" and (args.output or args.quick):
        raise CommandError("--output and --quick go with bench and model")
    if packs and (args.folder is None or args.output is None or args.quick):
        raise CommandError("sparsify takes MODEL_DIR and -o DIR, and no --quick")
    if args.only and args.what != "bench":
        raise CommandError("--only goes with bench")
    if args.batches and args.what != "model":
        raise CommandError("--batches goes with model")
    if args.folder and not packs:
        raise CommandError("MODEL_DIR goes with sparsify")
    if args.form and not packs and args.what != "model":
        raise CommandError("--form goes with sparsify and model")
    if args.sparsity is not None and not packs and not args.form:
        raise CommandError("--sparsity goes with sparsify, and with model --form")
    if args.form and args.batches:
        raise CommandError("--batches completes a record of all forms: leave --form out")
    actions = {
        "info": _info,
        "bench": measure_layers,
        "model": measure_model,
        "sparsify": pack_model,
    }
    try:
        return actions[args.what](args)
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
