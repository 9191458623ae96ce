"""Model files as the commands see them: named tensors, read a few rows at a time."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.bits import decode
from tilewright.golden.deca.packed import FORMAT, as_matrix
from tilewright.golden.deca.tiles import ReadRows
from tilewright.golden.params.formats import E4M3, E5M2
from tilewright.golden.tensorfile import DTYPE_BITS, TensorFile

__all__ = ["READERS", "Tensor", "Tensors", "open_model"]


@dataclass(frozen=True)
class Tensor:
    """One tensor of a model.

    ``rows(start, stop)`` gives rows of its matrix (see ``golden.deca.packed.as_matrix``) as
    floats of any numpy type; only float tensors have it. ``raw()`` gives all its bytes in pieces,
    in the type that ``dtype`` names as safetensors does.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    rows: ReadRows | None
    raw: Callable[[], Iterator[NDArray]]


Tensors = dict[str, Tensor]

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
def _open_safetensors(path: Path) -> Iterator[Tensors]:
    """Open a safetensors file; the tensors can be read until the context ends."""
    with TensorFile(path) as file:
        if file.metadata.get("format") == FORMAT:
            raise CommandError(f"{path}: packed already; tilewright unpack restores it")
        yield {name: _stored_tensor(file, name) for name in file.entries}


def _stored_tensor(file: TensorFile, name: str) -> Tensor:
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


PIECE_ROWS = 64
DTYPES = {  # numpy's name -> that of safetensors
    **{"float64": "F64", "float32": "F32", "float16": "F16"},
    **{"int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8"},
}


@contextmanager
def _open_gguf(path: Path) -> Iterator[Tensors]:
    """Open a GGUF file by the optional ``gguf``; quantised tensors count as float32."""
    from tilewright.golden.llm.gguf_file import open_gguf

    _, tensors = open_gguf(path)
    yield {name: _gguf_tensor(tensor) for name, tensor in tensors.items()}


def _gguf_tensor(tensor: Any) -> Tensor:
    from gguf.quants import dequantize

    shape = tuple(int(n) for n in reversed(tensor.shape))  # GGUF names the fastest one first
    native = tensor.data.dtype != np.uint8
    stored = tensor.data.reshape(-1, tensor.data.shape[-1]) if prod(shape) else tensor.data

    def rows(start: int, stop: int) -> NDArray:
        part = np.asarray(stored[start:stop])
        return part if native else dequantize(part, tensor.tensor_type)

    def raw() -> Iterator[NDArray]:
        for start in range(0, len(stored), PIECE_ROWS):
            yield np.ascontiguousarray(rows(start, start + PIECE_ROWS))

    dtype = DTYPES[tensor.data.dtype.name] if native else "F32"
    is_matrix = dtype.startswith("F") and len(shape) >= 2 and prod(shape) > 0
    return Tensor(tensor.name, dtype, shape, rows if is_matrix else None, raw)


BLOCK_ROWS = 16  # rows drawn together, so that any of them can be made without those before
SPREAD = 0.02  # standard deviation, as in the linear layers of a language model


@contextmanager
def _open_synthetic(text: str) -> Iterator[Tensors]:
    """Normally distributed weights, the same for the same seed.

    ``synthetic:ROWSxCOLUMNS[:SEED]`` is a matrix ``weight`` and a vector ``norm``. Rows are made
    when they are read, so its size is no matter of memory or disk.
    """
    parsed = re.fullmatch(r"synthetic:(\d+)x(\d+)(?::(\d+))?", text)
    if parsed is None:
        raise CommandError(f"{text}: expected synthetic:ROWSxCOLUMNS[:SEED]")
    rows, columns, seed = (int(n or 0) for n in parsed.groups())
    if not (rows and columns):
        raise CommandError(f"{text}: a matrix has at least one row and one column")

    def block(number: int) -> NDArray[np.float32]:
        rng = np.random.default_rng([seed, number])
        return SPREAD * rng.standard_normal((BLOCK_ROWS, columns), np.float32)

    def weight_rows(start: int, stop: int) -> NDArray[np.float32]:
        first = start // BLOCK_ROWS
        blocks = [block(k) for k in range(first, -(-stop // BLOCK_ROWS))]
        return np.concatenate(blocks)[start - first * BLOCK_ROWS : stop - first * BLOCK_ROWS]

    def weight_raw() -> Iterator[NDArray]:
        for start in range(0, rows, BLOCK_ROWS):
            yield weight_rows(start, min(start + BLOCK_ROWS, rows))

    yield {
        "weight": Tensor("weight", "F32", (rows, columns), weight_rows, weight_raw),
        "norm": Tensor("norm", "F32", (rows,), None, lambda: iter([np.ones(rows, np.float32)])),
    }


READERS: dict[str, Callable[[Path], AbstractContextManager[Tensors]]] = {
    ".safetensors": _open_safetensors,
    ".gguf": _open_gguf,
}


def open_model(text: str) -> AbstractContextManager[Tensors]:
    """The tensors of the model file ``text``, or of ``synthetic:ROWSxCOLUMNS[:SEED]``.

    They can be read until the context ends.
    """
    if text.startswith("synthetic:"):
        return _open_synthetic(text)
    path = Path(text)
    if path.suffix not in READERS:
        known = ", ".join(READERS)
        raise CommandError(f"{text}: a model file ends in {known}, not {path.suffix!r}")
    if not path.is_file():
        raise CommandError(f"{text}: no such file")
    return READERS[path.suffix](path)
