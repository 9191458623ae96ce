"""``tilewright pack``: the weights of a model, pruned, quantised and packed for DECA."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table, remark

if TYPE_CHECKING:
    from tilewright.studies.packing import PackedFile

NAME = "pack"
HELP = "compress the weights of a model for DECA into one packed file"
EXAMPLE = "tilewright pack synthetic:256x1024 --scheme mxfp4 --density 0.3 -o packed.safetensors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a Hugging Face folder, a file ending in .safetensors or .gguf, smollm2, tiny-llama,"
        " or synthetic:ROWSxCOLUMNS[:SEED]",
    )
    parser.add_argument(
        "--scheme",
        required=True,
        help="NAME[,group=N][,scale=none|e8m0|bf16]: bf16, bf8, e4m3, mxfp8_e4m3, mxfp8_e5m2,"
        " mxfp6_e3m2, mxfp6_e2m3, mxfp4, nf4, int1..int8, int1_tile..int8_tile (int8 tiles),"
        " book,values=V/V/..., or FILE.py:CLASS of your own",
    )
    parser.add_argument(
        "--density",
        type=float,
        metavar="D",
        help="keep this fraction of each matrix's weights, the largest ones [all, dense]",
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="PATTERN",
        help="leave tensors whose name matches as they are, such as '*embed*'; may be repeated",
    )
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="packed file")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.packing import pack_model

    packed = pack_model(
        args.model, args.scheme, Path(args.output), density=args.density, keep=args.keep
    )
    print_json(packed) if args.json else _print(packed)
    return 0


def _print(packed: "PackedFile") -> None:
    print_table(
        ["TENSOR", "SHAPE", "SCHEME", "DENSITY", "BYTES", "BITS/WEIGHT"],
        [
            (
                tensor["name"],
                "x".join(map(str, tensor["shape"])),
                tensor["scheme"] or f"kept as {tensor['dtype']}",
                "" if tensor["density"] is None else f"{tensor['density']:.4f}",
                tensor["bytes"],
                f"{tensor['bits_per_weight']:.3f}",
            )
            for tensor in packed.tensors
        ],
    )
    use = f"tilewright run {packed.output} runs it" if packed.runs else "tensors alone"
    remark(f"{packed.output}: {packed.bytes} bytes; {use}")
