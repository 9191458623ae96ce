"""Random payloads of any port, for blocks whose fields are plain integers."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.params.block import Field, Port
from tilewright.golden.payload import Columns


def random_columns(port: Port, rng: Generator, cases: int) -> Columns:
    """Draw ``cases`` payloads: all fields smallest, all largest, then uniformly random bits."""
    return {field.name: _random_field(field, rng, cases) for field in port.fields}


def _random_field(field: Field, rng: Generator, cases: int) -> NDArray:
    shape = (cases,) if field.count is None else (cases, field.count)
    low = -(1 << (field.bits - 1)) if field.signed else 0
    high = low + (1 << field.bits) - 1
    if field.bits <= 64:
        dtype = np.int64 if field.signed else np.uint64
        values = rng.integers(low, high, size=shape, dtype=dtype, endpoint=True)
    else:
        size = -(-field.bits // 8)
        data = rng.bytes(size * int(np.prod(shape)))
        words = (data[k : k + size] for k in range(0, len(data), size))
        draws = [low + int.from_bytes(w, "little") % (1 << field.bits) for w in words]
        values = np.array(draws, dtype=object).reshape(shape)
    values[:1], values[1:2] = low, high
    return values


def random_masks(rng: Generator, cases: int, width: int) -> NDArray:
    """Draw ``(cases, width)`` zeros and ones: all clear, all set, then every density alike."""
    density = rng.random((cases, 1))
    density[:1], density[1:2] = 0.0, 1.0
    return (rng.random((cases, width)) < density).astype(np.int64)
