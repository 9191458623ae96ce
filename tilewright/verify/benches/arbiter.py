"""Bench of the arbiter: nothing lost, doubled or reordered within a source."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.pack import Columns
from tilewright.golden.params.stream import ArbiterParams
from tilewright.verify.stimuli import random_inputs


def stimulus(params: ArbiterParams, rng: Generator, cases: int) -> dict[str, Columns]:
    return random_inputs(params, rng, cases)


def expected(params: ArbiterParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    """The order when every input always has a word to offer: strictly in turn."""
    words = np.stack([columns[port.name]["data"] for port in params.inputs], axis=-1)
    sources = np.broadcast_to(np.arange(params.ways), words.shape)
    return {"o": {"data": words.ravel(), "source": sources.ravel()}}


def check(
    params: ArbiterParams, columns: dict[str, Columns], got: dict[str, Columns]
) -> str | None:
    """What is wrong with an output order, if anything: the merge depends on who asked when."""
    data, source = got["o"]["data"], got["o"]["source"].astype(np.int64)
    for k, port in enumerate(params.inputs):
        sent, received = columns[port.name]["data"], data[source == k]
        if len(sent) != len(received):
            return f"input {port.name}: {len(sent)} words went in, {len(received)} came out"
        wrong = np.flatnonzero(sent != received)
        if wrong.size:
            w = wrong[0]
            return f"input {port.name}, word {w}: got {received[w]:#x}, expected {sent[w]:#x}"
    return None
