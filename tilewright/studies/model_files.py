"""Model files as the commands see them: named tensors, read a few rows at a time."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.deca.packed import FORMAT, as_matrix
from tilewright.golden.deca.tiles import ReadRows
from tilewright.golden.llm.assemble import named_parts
from tilewright.golden.llm.folder import FLOATS, names_of, shards
from tilewright.golden.llm.gguf_file import open_gguf
from tilewright.golden.llm.load import NAMES, load_model
from tilewright.golden.llm.model import Model, ModelError
from tilewright.golden.tensorfile import DTYPE_BITS, TensorFile


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

SYNTHETIC = "synthetic:"
SUFFIXES = (".safetensors", ".gguf")
PIECE_BYTES, PIECE_ROWS = 1 << 20, 64


def known_model(text: str) -> Model | None:
    """The model of a name, a folder or a GGUF file, its layers lazy; None of other families."""
    if text not in NAMES and not Path(text).is_dir() and not text.endswith(".gguf"):
        return None
    try:
        return load_model(text, lazy=True)
    except ModelError:
        if text in NAMES:
            raise
        return None


@contextmanager
def open_model(text: str) -> Iterator[Tensors]:
    """The tensors of a model, until the context ends.

    ``text`` is a file, a Hugging Face folder, a name of ``golden.llm.load.NAMES``, or
    ``synthetic:ROWSxCOLUMNS[:SEED]``, a matrix of random numbers.
    """
    path = Path(text)
    with ExitStack() as stack:
        if text.startswith(SYNTHETIC):
            yield _synthetic(text)
        elif text in NAMES or path.suffix == ".gguf":
            model = known_model(text)
            if model is None:
                _check_file(text)
                yield {name: _of_gguf(tensor) for name, tensor in open_gguf(path)[1].items()}
            else:
                yield _of_model(model)
        else:
            if not path.is_dir():
                _check_file(text)
            yield _of_safetensors(stack, shards(path) if path.is_dir() else [path])


def _check_file(text: str) -> None:
    if Path(text).suffix not in SUFFIXES:
        raise CommandError(
            f"{text}: a model is a folder, a file that ends in {', '.join(SUFFIXES)}, or"
            f" {', '.join(NAMES)}"
        )
    if not Path(text).is_file():
        raise CommandError(f"{text}: no such file")


def _of_safetensors(stack: ExitStack, files: list[Path]) -> Tensors:
    tensors: Tensors = {}
    for part in files:
        file = stack.enter_context(TensorFile(part))
        if file.metadata.get("format") == FORMAT:
            raise CommandError(f"{part}: packed already; tilewright unpack restores it")
        for name in file.entries:
            if name in tensors:
                raise CommandError(f"{part}: another file of the folder has a tensor {name}")
            tensors[name] = _of_file(file, name)
    return tensors


def _of_file(file: TensorFile, name: str) -> Tensor:
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


def _of_gguf(tensor: Any) -> Tensor:
    """A tensor of a file of another family; a quantised one counts as float32."""
    from gguf.quants import dequantize

    shape = tuple(int(n) for n in reversed(tensor.shape))  # GGUF names the fastest one first
    data, native = tensor.data, tensor.data.dtype != np.uint8
    stored = data.reshape(-1, data.shape[-1]) if prod(shape) else data

    def rows(start: int, stop: int) -> NDArray:
        part = np.asarray(stored[start:stop])
        return part if native else dequantize(part, tensor.tensor_type)

    # numpy's letter and size in bytes: of floats "f4", of integers "i8"
    dtype = f"{data.dtype.kind.upper()}{8 * data.dtype.itemsize}" if native else "F32"
    is_matrix = dtype.startswith("F") and len(shape) >= 2 and prod(shape) > 0
    raw = partial(_in_pieces, rows, len(stored))
    return Tensor(tensor.name, dtype, shape, rows if is_matrix else None, raw)


def _of_model(model: Model) -> Tensors:
    """Tensors under Hugging Face's names; layers may be lazy, one is in memory at a time."""
    layer = lru_cache(maxsize=1)(model.layers.__getitem__)
    parts = named_parts(model, names_of(model.config.model_type), layer)
    return {name: _of_part(name, shape, read) for name, (shape, read) in parts.items()}


def _of_part(name: str, shape: tuple[int, ...], read: Callable[[], NDArray]) -> Tensor:
    def rows(start: int, stop: int) -> NDArray:
        return np.asarray(read()[start:stop], "<f4")

    is_matrix = len(shape) == 2 and min(as_matrix(shape)) > 0
    raw = partial(_in_pieces, rows, shape[0])
    return Tensor(name, "F32", shape, rows if is_matrix else None, raw)


def _in_pieces(rows: ReadRows, count: int) -> Iterator[NDArray]:
    for start in range(0, count, PIECE_ROWS):
        yield np.ascontiguousarray(rows(start, min(start + PIECE_ROWS, count)))


BLOCK_ROWS = 16  # rows drawn together, so that any of them can be made without those before
MOST_COLUMNS, MOST_WEIGHTS = 1 << 20, 1 << 34
SPREAD = 0.02  # standard deviation, as in the linear layers of a language model


def _synthetic(text: str) -> Tensors:
    """A random matrix, whose rows are made when they are read, and a vector of ones."""
    parsed = re.fullmatch(r"synthetic:(\d+)x(\d+)(?::(\d+))?", text)
    if parsed is None:
        raise CommandError(f"{text}: expected synthetic:ROWSxCOLUMNS[:SEED]")
    rows, columns, seed = (int(n or 0) for n in parsed.groups())
    if not (rows and columns):
        raise CommandError(f"{text}: a matrix has at least one row and one column")
    if columns > MOST_COLUMNS or rows * columns > MOST_WEIGHTS:
        raise CommandError(
            f"{text}: a matrix has at most {MOST_COLUMNS} columns and {MOST_WEIGHTS} weights"
        )

    def block(number: int) -> NDArray[np.float32]:
        rng = np.random.default_rng([seed, number])
        return SPREAD * rng.standard_normal((BLOCK_ROWS, columns), np.float32)

    def weight_rows(start: int, stop: int) -> NDArray[np.float32]:
        first = start // BLOCK_ROWS
        blocks = [block(k) for k in range(first, -(-stop // BLOCK_ROWS))]
        return np.concatenate(blocks)[start - first * BLOCK_ROWS : stop - first * BLOCK_ROWS]

    raw = partial(_in_pieces, weight_rows, rows)
    return {
        "weight": Tensor("weight", "F32", (rows, columns), weight_rows, raw),
        "norm": Tensor("norm", "F32", (rows,), None, lambda: iter([np.ones(rows, np.float32)])),
    }
