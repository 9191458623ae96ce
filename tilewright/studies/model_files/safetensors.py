"""Models in safetensors files."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path

from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.deca.packed import FORMAT, as_matrix
from tilewright.golden.llm.folder import FLOATS, shards
from tilewright.golden.tensorfile import DTYPE_BITS, TensorFile
from tilewright.studies.model_files import Tensor, Tensors

PIECE_BYTES = 1 << 20


@contextmanager
def open_tensors(path: Path) -> Iterator[Tensors]:
    """Open a safetensors file, or those of a folder, until the context ends."""
    tensors: Tensors = {}
    with ExitStack() as stack:
        for part in shards(path) if path.is_dir() else [path]:
            file = stack.enter_context(TensorFile(part))
            if file.metadata.get("format") == FORMAT:
                raise CommandError(f"{part}: packed already; tilewright unpack restores it")
            for name in file.entries:
                if name in tensors:
                    raise CommandError(f"{part}: another file of the folder has a tensor {name}")
                tensors[name] = _tensor(file, name)
        yield tensors


def _tensor(file: TensorFile, name: str) -> Tensor:
    entry = file.entries[name]

    def rows(start: int, stop: int) -> NDArray:
        _, columns = as_matrix(entry.shape)
        row_bytes = columns * DTYPE_BITS[entry.dtype] // 8
        raw = file.read(name, start * row_bytes, stop * row_bytes)
        return FLOATS[entry.dtype](raw).reshape(stop - start, columns)

    def raw() -> Iterator[NDArray]:
        size = entry.stop - entry.start
        for start in range(0, size, PIECE_BYTES):
            yield file.read(name, start, min(start + PIECE_BYTES, size))

    is_matrix = entry.dtype in FLOATS and len(entry.shape) >= 2 and prod(entry.shape) > 0
    return Tensor(name, entry.dtype, entry.shape, rows if is_matrix else None, raw)
