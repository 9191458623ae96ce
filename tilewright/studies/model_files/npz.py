"""Models in numpy's .npz files, compressed or not."""

import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path
from typing import IO

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
PIECE_BYTES = 1 << 20


@contextmanager
def open_tensors(path: Path) -> Iterator[Tensors]:
    """Open an .npz file; the tensors can be read until the context ends."""
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise CommandError(f"{path}: no .npz file, or a truncated one: {error}") from None
    with ExitStack() as stack:
        stack.enter_context(archive)
        try:
            members = [_Member(archive, m) for m in archive.namelist() if m.endswith(".npy")]
            for member in members:
                stack.callback(member.close)  # an open member keeps the archive's file open
            yield {tensor.name: tensor for tensor in (member.tensor() for member in members)}
        except zipfile.BadZipFile as error:
            raise CommandError(f"{path}: damaged: {error}") from None


class _Member:
    """One array of an archive; rows asked for in order are read without going back."""

    def __init__(self, archive: zipfile.ZipFile, member: str):
        self._archive, self._member = archive, member
        with archive.open(member) as stream:
            self.shape, self._fortran, self.dtype = self._header(stream)
        self._stream: IO[bytes] | None = None
        self._row = 0  # the next one in the stream

    def tensor(self) -> Tensor:
        """The member as a tensor of the model."""
        is_matrix = self.dtype.kind == "f" and len(self.shape) >= 2 and prod(self.shape) > 0
        name = self._member.removesuffix(".npy")
        rows = self.rows if is_matrix else None
        return Tensor(name, DTYPES[self.dtype.name], self.shape, rows, self.raw)

    def rows(self, start: int, stop: int) -> NDArray:
        _, columns = as_matrix(self.shape)
        if self._fortran:
            return self._whole().reshape(-1, columns)[start:stop]
        if self._stream is None or start != self._row:
            self._restart()
            self._read(start * columns)
        self._row = stop
        return self._read((stop - start) * columns).reshape(stop - start, columns)

    def raw(self) -> Iterator[NDArray]:
        if self._fortran:
            yield np.ascontiguousarray(self._whole()).reshape(-1)
            return
        self._restart()
        left = prod(self.shape)
        while left:
            count = min(left, PIECE_BYTES // self.dtype.itemsize)
            yield self._read(count)
            left -= count

    def close(self) -> None:
        """Forget where it was read."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _restart(self) -> None:
        self.close()
        self._stream, self._row = self._archive.open(self._member), 0
        self._header(self._stream)

    def _read(self, count: int) -> NDArray:
        """Read the next ``count`` elements, little-endian."""
        assert self._stream is not None
        content = self._stream.read(count * self.dtype.itemsize)
        if len(content) != count * self.dtype.itemsize:
            raise CommandError(f"{self._archive.filename}: {self._member} is truncated")
        elements = np.frombuffer(content, self.dtype)
        return elements.astype(self.dtype.newbyteorder("<"), copy=False)

    def _whole(self) -> NDArray:
        self._restart()
        elements = self._read(prod(self.shape))
        return elements.reshape(self.shape[::-1]).transpose()

    def _header(self, stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
        try:
            version = np.lib.format.read_magic(stream)
            read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
                version, np.lib.format.read_array_header_2_0
            )
            shape, fortran, dtype = read(stream)
        except ValueError as error:
            where = f"{self._archive.filename}: {self._member}"
            raise CommandError(f"{where} is no numpy array: {error}") from None
        if dtype.name not in DTYPES:
            raise CommandError(f"{self._archive.filename}: {self._member}: {dtype} is no tensor")
        return shape, fortran and len(shape) > 1, dtype
