"""``tilewright unpack``: a packed file back to weights, and what compression did to them."""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_json, print_table, progress, remark
from tilewright.base.errors import CommandError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.golden.packed import PackedModel, PackedTensor
    from tilewright.studies.model_files import Tensor, Tensors

NAME = "unpack"
HELP = "restore a packed file's weights, check its sums, report the error that packing introduced"
EXAMPLE = "tilewright unpack packed.safetensors --reference synthetic:256x1024 -o restored.npz"
EXAMPLE_NEEDS = (
    "tilewright pack synthetic:256x1024 --scheme mxfp4 --density 0.3 -o packed.safetensors"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("packed", metavar="FILE", help="what tilewright pack has written")
    parser.add_argument(
        "-o",
        "--output",
        metavar="MODEL",
        help="write the weights to this .npz or .safetensors file [only check FILE]",
    )
    parser.add_argument(
        "--reference",
        metavar="MODEL",
        help="the model it was packed from: report what became of each tensor",
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.golden.packed import PackedModel
    from tilewright.studies.model_files import open_model
    from tilewright.studies.model_files.write import create_model

    output = None if args.output is None else Path(args.output)
    _refuse_overwriting(output, args.packed, args.reference)
    with ExitStack() as stack:
        model = stack.enter_context(PackedModel(args.packed))
        reference = None
        if args.reference is not None:
            reference = stack.enter_context(open_model(args.reference))
            _check_same_tensors(model, args.reference, reference)
        writer = None
        if output is not None:
            names = [(tensor.name, len(tensor.shape)) for tensor in model.tensors.values()]
            writer = stack.enter_context(create_model(output, names))
        tick = stack.enter_context(progress("unpack", len(model.tensors)))
        rows = []
        for tensor in model.tensors.values():
            tick(tensor.name, 0)
            error = ErrorMeter()
            original = None if reference is None else reference[tensor.name]
            pieces = _restored(model, tensor, original, error)
            if writer is None:
                for _ in pieces:
                    pass
            else:
                writer.add(tensor.name, _dtype(tensor), tensor.shape, pieces)
            rows.append(_row(tensor, error if reference is not None else None))
            tick(tensor.name)
    _report(args, rows)
    return 0


class ErrorMeter:
    """How far restored weights are from the original ones, over all pieces shown to it."""

    def __init__(self) -> None:
        self.count, self.largest = 0, 0.0
        self._error_power, self._power = 0.0, 0.0  # sums of squares

    def add(self, original: "NDArray", restored: "NDArray") -> None:
        import numpy as np

        exact = original.astype(np.float64)
        error = restored - exact
        self.count += error.size
        self.largest = max(self.largest, float(np.abs(error).max()))
        self._error_power += float(np.square(error).sum())
        self._power += float(np.square(exact).sum())

    @property
    def rms(self) -> float:
        return (self._error_power / self.count) ** 0.5 if self.count else 0.0

    @property
    def snr_db(self) -> float | None:
        """Signal to noise in decibel; None where there is no noise, or no signal."""
        from math import log10

        if not (self._error_power and self._power):
            return None
        return 10 * log10(self._power / self._error_power)


def _restored(
    model: "PackedModel", tensor: "PackedTensor", original: "Tensor | None", error: ErrorMeter
) -> Iterator["NDArray"]:
    """A tensor's content in pieces, compared with the original on the way."""
    import numpy as np

    from tilewright.golden.deca import restore

    if tensor.scheme is None:
        yield from model.kept(tensor.name)
        return
    top = 0
    for band in model.bands(tensor.name):
        values = restore(band)
        if original is not None:
            assert original.rows is not None
            error.add(original.rows(top, top + len(values)), values)
        top += len(values)
        # Tiles of bf16 values are exactly the upper halves of float32.
        bf16 = _dtype(tensor) == "BF16"
        yield (values.view(np.uint32) >> 16).astype("<u2") if bf16 else values.astype("<f4")


def _dtype(tensor: "PackedTensor") -> str:
    """Type of a restored tensor."""
    if tensor.scheme is None:
        return tensor.dtype
    return "F32" if tensor.scheme.config.int8 else "BF16"


def _refuse_overwriting(output: Path | None, *sources: str | None) -> None:
    if output is None or not output.exists():
        return
    for source in sources:
        if source is not None and Path(source).exists() and output.samefile(source):
            raise CommandError(f"{output}: the output cannot take the place of what is read")


def _check_same_tensors(model: "PackedModel", name: str, reference: "Tensors") -> None:
    for tensor in model.tensors.values():
        if tensor.name not in reference:
            raise CommandError(f"{name}: has no tensor {tensor.name}")
        if reference[tensor.name].shape != tensor.shape:
            raise CommandError(
                f"{name}: tensor {tensor.name} has shape {list(reference[tensor.name].shape)},"
                f" not {list(tensor.shape)}"
            )


def _row(tensor: "PackedTensor", error: ErrorMeter | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "scheme": tensor.scheme and tensor.scheme.name,
    }
    if error is not None and tensor.scheme is not None:
        row |= {"max_error": error.largest, "rms_error": error.rms, "snr_db": error.snr_db}
    return row


def _report(args: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    if args.json:
        print_json({"input": args.packed, "output": args.output, "tensors": rows})
        return
    header = ["TENSOR", "SHAPE", "SCHEME"]
    measured = ["max_error", "rms_error", "snr_db"] if args.reference is not None else []
    print_table(
        [*header, *(name.upper().replace("_", " ") for name in measured)],
        [
            (
                row["name"],
                "x".join(map(str, row["shape"])),
                row["scheme"] or "kept",
                *("" if row.get(key) is None else f"{row[key]:.6g}" for key in measured),
            )
            for row in rows
        ],
    )
    remark(f"{args.packed}: checksums of {len(rows)} tensors match")
