"""Models by their names, and GGUF files of known families: tensors under Hugging Face's names."""

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.deca.packed import as_matrix
from tilewright.golden.llm.assemble import named_parts
from tilewright.golden.llm.folder import names_of
from tilewright.golden.llm.model import Model
from tilewright.studies.model_files import Tensor, Tensors

PIECE_ROWS = 64
Read = Callable[[], NDArray]


def tensors_of(model: Model) -> Tensors:
    """The tensors of a model; its layers may be lazy, one is in memory at a time."""
    layer = lru_cache(maxsize=1)(model.layers.__getitem__)
    parts = named_parts(model, names_of(model.config.model_type), layer)
    return {name: _tensor(name, shape, read) for name, (shape, read) in parts.items()}


def _tensor(name: str, shape: tuple[int, ...], read: Read) -> Tensor:
    def rows(start: int, stop: int) -> NDArray:
        return np.asarray(read()[start:stop])

    def raw() -> Iterator[NDArray]:
        for start in range(0, shape[0], PIECE_ROWS):
            yield np.ascontiguousarray(rows(start, start + PIECE_ROWS), "<f4")

    is_matrix = len(shape) == 2 and min(as_matrix(shape)) > 0
    return Tensor(name, "F32", shape, rows if is_matrix else None, raw)
