"""Unpacking a packed model: its weights restored, its checksums checked, its errors measured."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import log10
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.base.console import progress
from tilewright.base.errors import CommandError
from tilewright.base.files import open_atomic
from tilewright.golden.deca import restore
from tilewright.golden.deca.packed import PackedModel, PackedTensor
from tilewright.golden.tensorfile import TensorFileWriter
from tilewright.studies.model_files import Tensor, Tensors, open_model


@dataclass(frozen=True)
class UnpackedTensor:
    """One tensor of a packed file, and its errors from packing.

    Errors are None without a reference and for a tensor that was not compressed; ``snr_db`` is also
    None where nothing was lost.
    """

    name: str
    shape: tuple[int, ...]
    scheme: str | None
    max_error: float | None
    rms_error: float | None
    snr_db: float | None


@dataclass(frozen=True)
class UnpackedFile:
    """The file that :func:`unpack_model` has read, and written if given an ``output``."""

    input: Path
    output: Path | None
    tensors: tuple[UnpackedTensor, ...]


def unpack_model(
    packed: Path, *, output: Path | None = None, reference: str | None = None
) -> UnpackedFile:
    """Check the file ``packed``, restore it to ``output`` and compare it with ``reference``.

    ``output`` ends in .safetensors; ``reference`` is the model that was packed. Without either,
    only the checksums are checked.
    """
    _refuse_overwriting(output, packed, reference)
    with ExitStack() as stack:
        model = stack.enter_context(PackedModel(packed))
        originals = None
        if reference is not None:
            originals = stack.enter_context(open_model(reference))
            _check_same_tensors(model, reference, originals)
        writer = None
        if output is not None:
            names = [(tensor.name, len(tensor.shape)) for tensor in model.tensors.values()]
            writer = stack.enter_context(_created(output, names))
        tick = stack.enter_context(progress("unpack", len(model.tensors)))
        rows = []
        for tensor in model.tensors.values():
            tick(tensor.name, 0)
            meter = ErrorMeter()
            original = None if originals is None else originals[tensor.name]
            pieces = _restored(model, tensor, original, meter)
            region = None
            if writer is not None:
                region = writer.region(tensor.name, _dtype(tensor), tensor.shape)
            for piece in pieces:
                if region is not None:
                    region.write(piece)
            rows.append(_row(tensor, None if originals is None else meter))
            tick(tensor.name)
    return UnpackedFile(packed, output, tuple(rows))


@contextmanager
def _created(path: Path, tensors: Iterable[tuple[str, int]]) -> Iterator[TensorFileWriter]:
    """Create ``path`` when the block ends well; ``tensors`` are names and numbers of dimensions."""
    if path.suffix != ".safetensors":
        raise CommandError(f"{path}: a model is written to .safetensors")
    with open_atomic(path) as file:
        writer = TensorFileWriter(file, tensors, metadata_room=64)
        yield writer
        writer.close({"format": "np"})


class ErrorMeter:
    """How far restored weights are from the original ones, over all pieces shown to it."""

    def __init__(self) -> None:
        self.count, self.largest = 0, 0.0
        self._error_power, self._power = 0.0, 0.0  # sums of squares

    def add(self, original: NDArray, restored: NDArray) -> None:
        """Take one piece of a tensor into account."""
        exact = original.astype(np.float64)
        error = restored - exact
        self.count += error.size
        self.largest = max(self.largest, float(np.abs(error).max()))
        self._error_power += float(np.square(error).sum())
        self._power += float(np.square(exact).sum())

    @property
    def rms(self) -> float:
        """Root of the mean square of all errors."""
        return (self._error_power / self.count) ** 0.5 if self.count else 0.0

    @property
    def snr_db(self) -> float | None:
        """Ratio of signal to noise in decibel; None where there is no noise, or no signal."""
        if not (self._error_power and self._power):
            return None
        return 10 * log10(self._power / self._error_power)


def _restored(
    model: PackedModel, tensor: PackedTensor, original: Tensor | None, meter: ErrorMeter
) -> Iterator[NDArray]:
    """A tensor's content in pieces, compared with the original on the way."""
    if tensor.scheme is None:
        yield from model.kept(tensor.name)
        return
    top = 0
    for band in model.bands(tensor.name):
        values = restore(band)
        if original is not None:
            assert original.rows is not None
            meter.add(original.rows(top, top + len(values)), values)
        top += len(values)
        # Tiles of bf16 values are exactly the upper halves of float32.
        bf16 = _dtype(tensor) == "BF16"
        yield (values.view(np.uint32) >> 16).astype("<u2") if bf16 else values.astype("<f4")


def _dtype(tensor: PackedTensor) -> str:
    """The type of a restored tensor, as safetensors names it."""
    if tensor.scheme is None:
        return tensor.dtype
    return "F32" if tensor.scheme.config.int8 else "BF16"


def _refuse_overwriting(output: Path | None, *sources: str | Path | None) -> None:
    if output is None or not output.exists():
        return
    for source in sources:
        if source is not None and Path(source).exists() and output.samefile(source):
            raise CommandError(f"{output}: the output cannot take the place of what is read")


def _check_same_tensors(model: PackedModel, name: str, reference: Tensors) -> None:
    for tensor in model.tensors.values():
        if tensor.name not in reference:
            raise CommandError(f"{name}: has no tensor {tensor.name}")
        if reference[tensor.name].shape != tensor.shape:
            raise CommandError(
                f"{name}: tensor {tensor.name} has shape {list(reference[tensor.name].shape)},"
                f" not {list(tensor.shape)}"
            )


def _row(tensor: PackedTensor, meter: ErrorMeter | None) -> UnpackedTensor:
    """``meter`` is None if there was nothing to compare with."""
    name, shape = tensor.name, tensor.shape
    if tensor.scheme is None:
        return UnpackedTensor(name, shape, None, None, None, None)
    if meter is None:
        return UnpackedTensor(name, shape, tensor.scheme.name, None, None, None)
    scheme = tensor.scheme.name
    return UnpackedTensor(name, shape, scheme, meter.largest, meter.rms, meter.snr_db)
