"""``tilewright unpack``: a packed file back to weights, and what compression did to them."""

import argparse
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_json, remark
from tilewright.cli.options import adder
from tilewright.cli.tables import print_records

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
    add = adder(parser)
    add("packed FILE", "file written by tilewright pack")
    add("-o --output FILE", "write the weights to this .safetensors file [only check FILE]")
    add("--reference MODEL", "the model it was packed from: report what became of each tensor")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.packing import unpack_model

    unpacked = unpack_model(args.packed, output=args.output, reference=args.reference)
    if args.json:
        print_json(unpacked)
    else:
        _print(unpacked, with_errors=args.reference is not None)
    return 0


def _print(unpacked: "UnpackedFile", with_errors: bool) -> None:
    columns: dict[str, Any] = {
        "TENSOR": "name",
        "SHAPE": lambda tensor: "x".join(map(str, tensor["shape"])),
        "SCHEME": lambda tensor: tensor["scheme"] or "kept",
    }
    if with_errors:
        columns |= {"MAX ERROR": "max_error:.6g", "RMS ERROR": "rms_error:.6g"}
        columns |= {"SNR DB": "snr_db:.6g"}
    print_records(unpacked.tensors, columns)
    remark(f"{unpacked.input}: checksums of {len(unpacked.tensors)} tensors match")
