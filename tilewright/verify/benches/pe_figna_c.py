"""Bench of FIGNA-C: that of FIGNA, and a distance to the group's exponent with every beat."""

import numpy as np
from numpy.random import Generator

from tilewright.golden.pack import Columns
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.pe import FignaChunkParams
from tilewright.golden.pe import chunked_dot
from tilewright.verify.benches import pe_figna
from tilewright.verify.pe_stimuli import beats_of


def stimulus(params: FignaChunkParams, rng: Generator, cases: int) -> dict[str, Columns]:
    columns = pe_figna.stimulus(params, rng, cases)["i"]
    # Mostly near, so that chunks meet; some so far that nothing or only a sign is left.
    near = rng.integers(0, 4, cases)
    distance = np.where(rng.random(cases) < 0.3, rng.integers(0, 32, cases), near)
    exponent = columns["exponent"] | (distance << FP16.exponent_bits)
    return {"i": columns | {"exponent": exponent}}


def expected(params: FignaChunkParams, columns: dict[str, Columns]) -> dict[str, Columns]:
    x = beats_of(params, columns["i"])
    fields = ("activation", "weight", "exponent", "scale", "group_end")
    return {"o": {"y": chunked_dot(params, *(x[name] for name in fields))}}
