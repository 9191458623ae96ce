"""A synthetic model: normally distributed weights, the same for the same seed.

``synthetic:ROWSxCOLUMNS[:SEED]`` is a matrix ``weight`` and a vector ``norm``. Rows are made when
they are read, so its size costs neither memory nor disk.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.studies.model_files import Tensor, Tensors

BLOCK_ROWS = 16  # rows drawn together, so that any of them can be made without those before
MOST_COLUMNS, MOST_WEIGHTS = 1 << 20, 1 << 34
SPREAD = 0.02  # standard deviation, as in the linear layers of a language model


@contextmanager
def open_tensors(text: str) -> Iterator[Tensors]:
    """Open the synthetic model that ``text`` describes."""
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

    def weight_raw() -> Iterator[NDArray]:
        for start in range(0, rows, BLOCK_ROWS):
            yield weight_rows(start, min(start + BLOCK_ROWS, rows))

    yield {
        "weight": Tensor("weight", "F32", (rows, columns), weight_rows, weight_raw),
        "norm": Tensor("norm", "F32", (rows,), None, lambda: iter([np.ones(rows, np.float32)])),
    }
