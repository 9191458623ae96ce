"""Bench of the width converter: the same bit stream, cut differently."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.pack import Columns, pack, unpack
from tilewright.golden.params.stream import WidthConverterParams
from tilewright.verify.stimuli import random_inputs


def stimulus(params: WidthConverterParams, rng: Generator, cases: int) -> dict[str, Columns]:
    return random_inputs(params, rng, cases)


def expected(params: WidthConverterParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    """Bits that do not fill an output word stay inside."""
    (taken,), (given,) = params.inputs, params.outputs
    size = -(-taken.bits // 8)
    data = b"".join(word.to_bytes(size, "little") for word in pack(taken, columns["i"]))
    rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, size)
    bits = np.unpackbits(rows, axis=1, bitorder="little", count=taken.bits).ravel()
    whole = bits[: bits.size // given.bits * given.bits].reshape(-1, given.bits)
    words = np.packbits(whole, axis=1, bitorder="little")
    return {"o": unpack(given, [int.from_bytes(w.tobytes(), "little") for w in words])}
