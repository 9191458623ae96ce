"""Packing a model: its matrices pruned, quantised and compressed for DECA into one file."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path

import numpy as np

from tilewright.base.console import progress
from tilewright.base.errors import CommandError
from tilewright.base.files import open_atomic
from tilewright.golden.deca import NonFiniteWeightError, Scheme, effective_scheme, resolve_scheme
from tilewright.golden.deca.packed import PackedTensor, PackedWriter, as_matrix
from tilewright.golden.deca.tiles import tile_columns
from tilewright.golden.llm.on_deca import about_model
from tilewright.golden.params.deca import TILE_ROWS
from tilewright.golden.tensorfile import DTYPE_BITS
from tilewright.studies.model_files import Tensor, Tensors, known_model, open_model


@dataclass(frozen=True)
class PackedSize:
    """One tensor of a packed file; ``scheme`` and ``density`` are None if it was left as it is."""

    name: str
    shape: tuple[int, ...]
    dtype: str  # of the model, as safetensors names it
    scheme: str | None
    density: float | None  # share of its weights that are stored
    bytes: int
    bits_per_weight: float


@dataclass(frozen=True)
class PackedFile:
    """The output of :func:`pack_model`."""

    output: Path
    bytes: int
    runs: bool  # it has what tilewright run needs: the model's shape and tokenizer
    tensors: tuple[PackedSize, ...]


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
    source, places = Path(model), (output, output.parent)
    # A further file in a model's folder would be taken for a part of the model.
    if any(path.exists() and source.exists() and path.samefile(source) for path in places):
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


def _size(tensor: PackedTensor) -> PackedSize:
    weights = prod(tensor.shape)
    return PackedSize(
        name=tensor.name,
        shape=tensor.shape,
        dtype=tensor.dtype,
        scheme=tensor.scheme.name if tensor.scheme else None,
        density=tensor.nonzeros / weights if tensor.scheme else None,
        bytes=tensor.size,
        bits_per_weight=8 * tensor.size / weights if weights else 0.0,
    )
