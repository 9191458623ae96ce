"""Models in numpy's .npz files, compressed or not."""

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.deca.packed import as_matrix
from tilewright.studies.model_files import Tensor, Tensors

__all__ = ["DTYPES", "open_tensors"]

DTYPES = {  # numpy's name -> that of safetensors
    **{"float64": "F64", "float32": "F32", "float16": "F16", "bool": "BOOL"},
    **{"int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8"},
    **{"uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8"},
}


@contextmanager
def open_tensors(path: Path) -> Iterator[Tensors]:
    """Open an .npz file; the tensors can be read until the context ends."""
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise CommandError(f"{path}: no .npz file, or a truncated one: {error}") from None

    @lru_cache(maxsize=1)  # the rows of a tensor are asked for in turn
    def read(member: str) -> NDArray:
        with archive.open(member) as stream:
            try:
                array = np.lib.format.read_array(stream)
            except ValueError:
                raise CommandError(f"{path}: {member} is truncated") from None
        return array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)

    try:
        with archive:
            members = [name for name in archive.namelist() if name.endswith(".npy")]
            tensors = [_tensor(archive, member, partial(read, member)) for member in members]
            yield {tensor.name: tensor for tensor in tensors}
    except zipfile.BadZipFile as error:
        raise CommandError(f"{path}: damaged: {error}") from None


def _tensor(archive: zipfile.ZipFile, member: str, read: Callable[[], NDArray]) -> Tensor:
    shape, dtype = _header(archive, member)
    if dtype.name not in DTYPES:
        raise CommandError(f"{archive.filename}: {member}: {dtype} is no tensor")

    def rows(start: int, stop: int) -> NDArray:
        return read().reshape(as_matrix(shape))[start:stop]

    is_matrix = dtype.kind == "f" and len(shape) >= 2 and prod(shape) > 0
    name = member.removesuffix(".npy")
    return Tensor(
        name, DTYPES[dtype.name], shape, rows if is_matrix else None, lambda: iter([read()])
    )


def _header(archive: zipfile.ZipFile, member: str) -> tuple[tuple[int, ...], np.dtype]:
    with archive.open(member) as stream:
        try:
            version = np.lib.format.read_magic(stream)
            first = version == (1, 0)
            read = (
                np.lib.format.read_array_header_1_0
                if first
                else np.lib.format.read_array_header_2_0
            )
            shape, _, dtype = read(stream)
        except ValueError as error:
            where = f"{archive.filename}: {member}"
            raise CommandError(f"{where} is no numpy array: {error}") from None
    return shape, dtype
