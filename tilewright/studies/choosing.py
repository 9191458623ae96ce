"""The next token, chosen among logits by the host."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["chosen"]


def chosen(logits: NDArray[np.float32], temperature: float, rng: np.random.Generator) -> int:
    """The most likely token, the first of equals; or with a ``temperature`` one at random."""
    if temperature <= 0:
        return int(logits.argmax())
    scaled = (logits - logits.max()).astype(np.float64) / temperature
    weights = np.exp(scaled)
    return int(rng.choice(len(weights), p=weights / weights.sum()))
