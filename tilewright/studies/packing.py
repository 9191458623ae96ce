"""Models packed for DECA, and packed files back to weights."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import log10, prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.console import progress
from tilewright.base.errors import CommandError
from tilewright.base.files import open_atomic
from tilewright.golden.deca import (
    NonFiniteWeightError,
    Scheme,
    effective_scheme,
    resolve_scheme,
    restore,
)
from tilewright.golden.deca.packed import PackedModel, PackedTensor, PackedWriter, as_matrix
from tilewright.golden.deca.tiles import tile_columns
from tilewright.golden.llm.on_deca import about_model
from tilewright.golden.params.deca import TILE_ROWS
from tilewright.golden.tensorfile import DTYPE_BITS, TensorFileWriter
from tilewright.studies.model_files import Tensor, Tensors, known_model, open_model


@dataclass(frozen=True)
class PackedFile:
    """The output of :func:`pack_model`."""

    output: Path
    bytes: int
    runs: bool  # it has what tilewright run needs: the model's shape and tokenizer
    tensors: tuple[dict[str, Any], ...]  # of each its scheme and density, or None, and its size


def pack_model(
    model: str, scheme: str, output: Path, *, density: float | None = None, keep: Sequence[str] = ()
) -> PackedFile:
    """Compress the matrices of ``model`` by ``scheme`` and write them to ``output``.

    ``density`` is the fraction of each matrix's weights that are stored, the largest ones; None
    stores all of them. Tensors whose name matches a pattern of ``keep`` are written as they are,
    and so is everything that does not fill a tile. An error leaves ``output`` as it was.
    """
    if density is not None and not 0 < density <= 1:
        raise CommandError(f"--density must be above 0 and at most 1, not {density:g}")
    chosen = effective_scheme(resolve_scheme(scheme), density)
    # A further file in a model's folder would be taken for a part of the model.
    if _are_same(output, model) or _are_same(output.parent, model):
        raise CommandError(f"{output}: the packed file cannot take the place of the model")
    with open_model(model) as tensors:
        compressed, others = _divide(model, tensors, chosen, keep)
        smallest = min(compressed, key=lambda tensor: prod(tensor.shape))
        if density is not None and round(density * prod(smallest.shape)) == 0:
            raise CommandError(
                f"--density {density:g} leaves none of the {prod(smallest.shape):,} weights of"
                f" {smallest.name}"
            )
        with open_atomic(output) as file, progress("pack", len(tensors)) as tick:
            writer = PackedWriter(file, [(t.name, len(t.shape)) for t in tensors.values()])
            packed = []
            for tensor in compressed:
                tick(tensor.name, 0)
                packed.append(_compress(model, writer, tensor, chosen, density))
                tick(tensor.name)
            for tensor in others:
                packed.append(writer.keep(tensor.name, tensor.dtype, tensor.shape, tensor.raw()))
                tick(tensor.name)
            known = known_model(model)
            writer.close(None if known is None else about_model(known))
    return PackedFile(output, output.stat().st_size, known is not None, tuple(map(_size, packed)))


def _are_same(path: Path, source: str | Path) -> bool:
    return path.exists() and Path(source).exists() and path.samefile(source)


def _divide(
    model: str, tensors: Tensors, scheme: Scheme, keep: Sequence[str]
) -> tuple[list[Tensor], list[Tensor]]:
    """Tensors to compress, and the others, the widest types first so that all stay aligned."""
    for pattern in keep:
        if not any(fnmatchcase(name, pattern) for name in tensors):
            raise CommandError(f"--keep {pattern!r} matches no tensor of {model}")
    compressed: list[Tensor] = []
    others: list[Tensor] = []
    for name, tensor in tensors.items():
        wanted = not any(fnmatchcase(name, pattern) for pattern in keep)
        (compressed if wanted and _fills_a_tile(tensor, scheme) else others).append(tensor)
    if not compressed:
        raise CommandError(f"{model}: no tensor to compress: none is a matrix of a whole tile")
    return compressed, sorted(others, key=lambda tensor: -DTYPE_BITS.get(tensor.dtype, 0))


def _fills_a_tile(tensor: Tensor, scheme: Scheme) -> bool:
    """Smaller matrices, and vectors, would grow by the padding."""
    if tensor.rows is None:
        return False
    rows, columns = as_matrix(tensor.shape)
    return rows >= TILE_ROWS and columns >= tile_columns(scheme.config)


def _compress(
    model: str, writer: PackedWriter, tensor: Tensor, scheme: Scheme, density: float | None
) -> PackedTensor:
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


def _size(tensor: PackedTensor) -> dict[str, Any]:
    weights = prod(tensor.shape)
    return {
        "name": tensor.name,
        "shape": tensor.shape,
        "dtype": tensor.dtype,  # of the model, as safetensors names it
        "scheme": tensor.scheme.name if tensor.scheme else None,
        "density": tensor.nonzeros / weights if tensor.scheme else None,
        "bytes": tensor.size,
        "bits_per_weight": 8 * tensor.size / weights if weights else 0.0,
    }


@dataclass(frozen=True)
class UnpackedFile:
    """The file that :func:`unpack_model` has read, and written if given an ``output``."""

    input: Path
    output: Path | None
    tensors: tuple[dict[str, Any], ...]  # of each its scheme and errors, or None


def unpack_model(
    packed: Path, *, output: Path | None = None, reference: str | None = None
) -> UnpackedFile:
    """Check ``packed``, restore it to ``output``, compare it with the model ``reference``."""
    for source in (packed, reference):
        if output is not None and source is not None and _are_same(output, source):
            raise CommandError(f"{output}: the output cannot take the place of what is read")
    with ExitStack() as stack:
        model = stack.enter_context(PackedModel(packed))
        originals: Tensors = {}
        if reference is not None:
            originals = stack.enter_context(open_model(reference))
            _check_same_tensors(model, reference, originals)
        writer = None
        if output is not None:
            names = [(tensor.name, len(tensor.shape)) for tensor in model.tensors.values()]
            writer = stack.enter_context(_created(output, names))
        tick = stack.enter_context(progress("unpack", len(model.tensors)))
        rows = []
        for name, tensor in model.tensors.items():
            tick(name, 0)
            meter = ErrorMeter()
            region = None
            if writer is not None:
                region = writer.region(name, _dtype(tensor), tensor.shape)
            for piece in _restored(model, tensor, originals.get(name), meter):
                if region is not None:
                    region.write(piece)
            scheme = None if tensor.scheme is None else tensor.scheme.name
            rows.append({"name": name, "shape": tensor.shape, "scheme": scheme} | meter.errors)
            tick(name)
    return UnpackedFile(packed, output, tuple(rows))


@contextmanager
def _created(path: Path, tensors: Iterable[tuple[str, int]]) -> Iterator[TensorFileWriter]:
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
    def errors(self) -> dict[str, float | None]:
        """Figures, None where nothing was shown; without noise or signal there is no ratio."""
        if not self.count:
            return dict.fromkeys(("max_error", "rms_error", "snr_db"))
        heard = self._error_power and self._power
        return {
            "max_error": self.largest,
            "rms_error": (self._error_power / self.count) ** 0.5,
            "snr_db": 10 * log10(self._power / self._error_power) if heard else None,
        }


def _restored(
    model: PackedModel, tensor: PackedTensor, original: Tensor | None, meter: ErrorMeter
) -> Iterator[NDArray]:
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
    if tensor.scheme is None:
        return tensor.dtype
    return "F32" if tensor.scheme.config.int8 else "BF16"


def _check_same_tensors(model: PackedModel, name: str, reference: Tensors) -> None:
    for tensor in model.tensors.values():
        if tensor.name not in reference:
            raise CommandError(f"{name}: has no tensor {tensor.name}")
        if reference[tensor.name].shape != tensor.shape:
            raise CommandError(
                f"{name}: tensor {tensor.name} has shape {list(reference[tensor.name].shape)},"
                f" not {list(tensor.shape)}"
            )
