"""``tilewright pack``: the weights of a model, pruned, quantised and packed for DECA."""

import argparse
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_json, print_table, progress, remark
from tilewright.base.errors import CommandError

if TYPE_CHECKING:
    from tilewright.golden.deca import Scheme
    from tilewright.golden.packed import PackedTensor, PackedWriter
    from tilewright.studies.model_files import Tensor, Tensors

NAME = "pack"
HELP = "compress the weights of a model for DECA into one packed file"
EXAMPLE = "tilewright pack synthetic:256x1024 --scheme mxfp4 --density 0.3 -o packed.safetensors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="file ending in .safetensors, .npz or .gguf, or synthetic:ROWSxCOLUMNS[:SEED]",
    )
    parser.add_argument(
        "--scheme",
        required=True,
        help="NAME[,group=N][,scale=none|e8m0|bf16]: bf16, bf8, e4m3, mxfp8_e4m3, mxfp8_e5m2,"
        " mxfp6_e3m2, mxfp6_e2m3, mxfp4, nf4, int1..int8, int1_tile..int8_tile (int8 tiles), or"
        " book,values=V/V/...",
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
    from tilewright.base.files import open_atomic
    from tilewright.golden.deca import effective_scheme, resolve_scheme
    from tilewright.golden.packed import PackedWriter
    from tilewright.studies.model_files import open_model

    scheme = effective_scheme(resolve_scheme(args.scheme), args.density)
    output = Path(args.output)
    if output.exists() and Path(args.model).exists() and output.samefile(args.model):
        raise CommandError(f"{output}: the packed file cannot take the place of the model")
    with open_model(args.model) as tensors:
        compressed, kept = _divide(args.model, tensors, scheme, args.keep)
        with open_atomic(output) as file, progress("pack", len(tensors)) as tick:
            writer = PackedWriter(file, [(t.name, len(t.shape)) for t in tensors.values()])
            packed = []
            for tensor in compressed:
                tick(tensor.name, 0)
                packed.append(_compress(args.model, writer, tensor, scheme, args.density))
                tick(tensor.name)
            for tensor in kept:
                packed.append(writer.keep(tensor.name, tensor.dtype, tensor.shape, tensor.raw()))
                tick(tensor.name)
            writer.close()
    _report(args, output, packed)
    return 0


def _divide(
    model: str, tensors: "Tensors", scheme: "Scheme", keep: list[str]
) -> tuple[list["Tensor"], list["Tensor"]]:
    """Tensors to compress, and those to keep, the widest types first so that all stay aligned."""
    from tilewright.golden.tensorfile import DTYPE_BITS

    for pattern in keep:
        if not any(fnmatchcase(name, pattern) for name in tensors):
            raise CommandError(f"--keep {pattern!r} matches no tensor of {model}")
    compressed, kept = [], []
    for name, tensor in tensors.items():
        wanted = not any(fnmatchcase(name, pattern) for pattern in keep)
        (compressed if wanted and _fills_a_tile(tensor, scheme) else kept).append(tensor)
    if not compressed:
        raise CommandError(f"{model}: no tensor to compress: none is a matrix of a whole tile")
    return compressed, sorted(kept, key=lambda tensor: -DTYPE_BITS.get(tensor.dtype, 0))


def _fills_a_tile(tensor: "Tensor", scheme: "Scheme") -> bool:
    """Smaller matrices, and vectors, would grow by the padding."""
    from tilewright.golden.deca.tiles import tile_columns
    from tilewright.golden.packed import as_matrix
    from tilewright.golden.params.deca import TILE_ROWS

    if tensor.rows is None:
        return False
    rows, columns = as_matrix(tensor.shape)
    return rows >= TILE_ROWS and columns >= tile_columns(scheme.config)


def _compress(
    model: str, writer: "PackedWriter", tensor: "Tensor", scheme: "Scheme", density: float | None
) -> "PackedTensor":
    import numpy as np

    from tilewright.golden.deca import NonFiniteWeightError

    assert tensor.rows is not None
    try:
        return writer.compress(
            tensor.name, tensor.dtype, tensor.shape, tensor.rows, scheme, density
        )
    except NonFiniteWeightError as error:
        leading = np.unravel_index(error.row, tensor.shape[:-1])
        position = [*(int(k) for k in leading), error.column]
        raise CommandError(
            f"{model}: tensor {tensor.name}: weight {error.value} at {position}"
            " is no finite float32; nothing was written"
        ) from None


def _report(args: argparse.Namespace, output: Path, packed: list["PackedTensor"]) -> None:
    rows = [_row(tensor) for tensor in packed]
    size = output.stat().st_size
    if args.json:
        print_json({"output": str(output), "bytes": size, "tensors": rows})
        return
    print_table(
        ["TENSOR", "SHAPE", "SCHEME", "DENSITY", "BYTES", "BITS/WEIGHT"],
        [
            (
                row["name"],
                "x".join(map(str, row["shape"])),
                row["scheme"] or f"kept as {row['dtype']}",
                "" if row["density"] is None else f"{row['density']:.4f}",
                row["bytes"],
                f"{row['bits_per_weight']:.3f}",
            )
            for row in rows
        ],
    )
    remark(f"{output}: {size} bytes")


def _row(tensor: "PackedTensor") -> dict[str, Any]:
    weights = prod(tensor.shape)
    return {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "scheme": tensor.scheme and tensor.scheme.name,
        "density": tensor.nonzeros / weights if tensor.scheme else None,
        "bytes": tensor.size,
        "bits_per_weight": 8 * tensor.size / weights if weights else 0.0,
    }
