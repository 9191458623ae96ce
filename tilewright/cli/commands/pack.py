"""``tilewright pack``: the weights of a model, pruned, quantised and packed for DECA."""

import argparse
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, remark
from tilewright.cli.options import adder
from tilewright.cli.tables import Columns, print_records

if TYPE_CHECKING:
    from tilewright.studies.packing import PackedFile

NAME = "pack"
HELP = "compress the weights of a model for DECA into one packed file"
EXAMPLE = "tilewright pack synthetic:256x1024 --scheme mxfp4 --density 0.3 -o packed.safetensors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add(
        "model MODEL",
        "a Hugging Face folder, a file ending in .safetensors or .gguf, smollm2, tiny-llama,"
        " or synthetic:ROWSxCOLUMNS[:SEED]",
    )
    add(
        "--scheme X",
        "NAME[,group=N][,scale=none|e8m0|bf16]: bf16, bf8, e4m3, mxfp8_e4m3, mxfp8_e5m2,"
        " mxfp6_e3m2, mxfp6_e2m3, mxfp4, nf4, int1..int8, int1_tile..int8_tile (int8 tiles),"
        " book,values=V/V/..., or FILE.py:CLASS of your own",
        required=True,
    )
    text = "keep this fraction of each matrix's weights, the largest ones [all, dense]"
    add("--density D", text, type=float)
    add("--keep PATTERN...", "leave tensors whose name matches as they are, such as '*embed*'")
    add("-o --output FILE", "packed file", required=True)


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.packing import pack_model

    packed = pack_model(args.model, args.scheme, args.output, density=args.density, keep=args.keep)
    print_json(packed) if args.json else _print(packed)
    return 0


def _print(packed: "PackedFile") -> None:
    columns: Columns = {
        "TENSOR": "name",
        "SHAPE": lambda tensor: "x".join(map(str, tensor["shape"])),
        "SCHEME": lambda tensor: tensor["scheme"] or f"kept as {tensor['dtype']}",
        **{"DENSITY": "density:.4f", "BYTES": "bytes"},
        "BITS/WEIGHT": "bits_per_weight:.3f",
    }
    print_records(packed.tensors, columns)
    use = f"tilewright run {packed.output} runs it" if packed.runs else "tensors alone"
    remark(f"{packed.output}: {packed.bytes} bytes; {use}")
