"""Models in safetensors files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.bits import decode
from tilewright.golden.deca.packed import FORMAT, as_matrix
from tilewright.golden.params.formats import E4M3, E5M2
from tilewright.golden.tensorfile import DTYPE_BITS, TensorFile
from tilewright.studies.model_files import Tensor, Tensors

__all__ = ["open_tensors"]

PIECE_BYTES = 1 << 20


def _bf16(raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)


TO_FLOAT: dict[str, Callable[[NDArray[np.uint8]], NDArray]] = {
    "F64": lambda raw: raw.view("<f8"),
    "F32": lambda raw: raw.view("<f4"),
    "F16": lambda raw: raw.view("<f2"),
    "BF16": _bf16,
    "F8_E4M3": lambda raw: decode(E4M3, raw),
    "F8_E5M2": lambda raw: decode(E5M2, raw),
}


@contextmanager
def open_tensors(path: Path) -> Iterator[Tensors]:
    """Open a safetensors file; the tensors can be read until the context ends."""
    with TensorFile(path) as file:
        if file.metadata.get("format") == FORMAT:
            raise CommandError(f"{path}: packed already; tilewright unpack restores it")
        yield {name: _tensor(file, name) for name in file.entries}


def _tensor(file: TensorFile, name: str) -> Tensor:
    entry = file.entries[name]

    def rows(start: int, stop: int) -> NDArray:
        _, columns = as_matrix(entry.shape)
        row_bytes = columns * DTYPE_BITS[entry.dtype] // 8
        raw = file.read(name, start * row_bytes, stop * row_bytes)
        return TO_FLOAT[entry.dtype](raw).reshape(stop - start, columns)

    def raw() -> Iterator[NDArray]:
        size = entry.stop - entry.start
        for start in range(0, size, PIECE_BYTES):
            yield file.read(name, start, min(start + PIECE_BYTES, size))

    is_matrix = entry.dtype in TO_FLOAT and len(entry.shape) >= 2 and prod(entry.shape) > 0
    return Tensor(name, entry.dtype, entry.shape, rows if is_matrix else None, raw)
