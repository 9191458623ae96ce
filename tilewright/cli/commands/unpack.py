"""``tilewright unpack``: a packed file back to weights, and what compression did to them."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table, remark

if TYPE_CHECKING:
    from tilewright.studies.packing import UnpackedFile

NAME = "unpack"
HELP = "restore a packed file's weights, check its sums, report the error that packing introduced"
EXAMPLE = (
    "tilewright unpack packed.safetensors --reference synthetic:256x1024 -o restored.safetensors"
)
EXAMPLE_NEEDS = (
    "tilewright pack synthetic:256x1024 --scheme mxfp4 --density 0.3 -o packed.safetensors"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("packed", metavar="FILE", help="file written by tilewright pack")
    parser.add_argument(
        "-o",
        "--output",
        metavar="MODEL",
        help="write the weights to this .safetensors file [only check FILE]",
    )
    parser.add_argument(
        "--reference",
        metavar="MODEL",
        help="the model it was packed from: report what became of each tensor",
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.packing import unpack_model

    output = None if args.output is None else Path(args.output)
    unpacked = unpack_model(Path(args.packed), output=output, reference=args.reference)
    if args.json:
        print_json(unpacked)
    else:
        _print(unpacked, with_errors=args.reference is not None)
    return 0


def _print(unpacked: "UnpackedFile", with_errors: bool) -> None:
    header = ["TENSOR", "SHAPE", "SCHEME"]
    rows = [
        [tensor["name"], "x".join(map(str, tensor["shape"])), tensor["scheme"] or "kept"]
        for tensor in unpacked.tensors
    ]
    if with_errors:
        header += ["MAX ERROR", "RMS ERROR", "SNR DB"]
        for row, tensor in zip(rows, unpacked.tensors, strict=True):
            errors = (tensor[name] for name in ("max_error", "rms_error", "snr_db"))
            row += ["" if error is None else f"{error:.6g}" for error in errors]
    print_table(header, rows)
    remark(f"{unpacked.input}: checksums of {len(rows)} tensors match")
