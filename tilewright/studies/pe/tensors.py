"""Operands of a real language model for the energy of processing elements, as a file of samples.

    python -m tilewright.studies.pe.tensors

takes them anew from SmolLM2-135M (`pip install 'tilewright[llm]'`), a layer of its middle reading
the default text: streams of dot products, a quarter from each linear module. A stream is one output
of a projection, int4 in groups of 128, and meets the activations of successive tokens.
"""

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.base.files import open_atomic
from tilewright.golden.weights import WEIGHT_GROUP

__all__ = ["DOTS", "LENGTH", "SAMPLES", "STREAMS", "sampled", "samples"]

SAMPLES = Path(__file__).parents[1] / "records" / "pe_tensors.npy"
STREAMS, DOTS, LENGTH = 64, 3, 256
MODEL, LAYER, TOKENS, SEED = "smollm2", 15, 128, 7

_KIND = np.dtype(
    [
        ("activation", "<u2", (DOTS, LENGTH)),  # fp16 patterns
        ("weight", "i1", (LENGTH,)),
        ("scale", "<u2", (LENGTH // WEIGHT_GROUP,)),  # fp16 patterns
    ]
)


@cache
def samples() -> NDArray:
    """Return the committed samples, (streams,) of activation, weight and scale."""
    return np.load(SAMPLES)


def sampled() -> NDArray:
    """Take the same samples from the model itself."""
    from tilewright.golden.llm.block import captured
    from tilewright.golden.llm.load import load_model
    from tilewright.golden.llm.text import default_text

    model = load_model(MODEL)
    assert model.tokenizer is not None
    tokens = model.tokenizer.encode(default_text()[: 16 * TOKENS])[:TOKENS]
    modules, _ = captured(model, tokens, LAYER, TOKENS)
    rng = np.random.default_rng(SEED)
    streams = np.zeros(STREAMS, _KIND)
    for stream, module in zip(np.split(streams, len(modules)), modules.values(), strict=True):
        values = np.concatenate([w.values for w in module.integers.values()])
        scales = np.concatenate([w.scales for w in module.integers.values()])
        outputs, inputs = values.shape
        for one in stream:
            output = rng.integers(outputs)
            token = rng.integers(TOKENS - DOTS + 1)
            group = rng.integers((inputs - LENGTH) // WEIGHT_GROUP + 1)
            first = group * WEIGHT_GROUP
            one["activation"] = module.activations[token : token + DOTS, first : first + LENGTH]
            one["weight"] = values[output, first : first + LENGTH]
            one["scale"] = scales[output, group : group + LENGTH // WEIGHT_GROUP]
    return streams


if __name__ == "__main__":
    with open_atomic(SAMPLES) as file:
        np.save(file, sampled())
