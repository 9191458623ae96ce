"""Models in GGUF files, through the optional ``gguf`` package; quantised tensors count as float32.

Only tensors are read; all other metadata of a GGUF file is ignored.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.llm.gguf_file import open_gguf
from tilewright.studies.model_files import Tensor, Tensors

PIECE_ROWS = 64
DTYPES = {  # numpy's name -> that of safetensors
    **{"float64": "F64", "float32": "F32", "float16": "F16"},
    **{"int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8"},
}


@contextmanager
def open_tensors(path: Path) -> Iterator[Tensors]:
    """Open a GGUF file; the tensors can be read until the context ends."""
    _, tensors = open_gguf(path)
    yield {name: _tensor(tensor) for name, tensor in tensors.items()}


def _tensor(tensor: Any) -> Tensor:
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
