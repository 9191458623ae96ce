"""The same model in the same formats by the language model engine, which knows no machine.

It has the image's integers as weights, activations in block floating point wherever the array
multiplies them, the cache with its windows as the steps of a prompt leave it, and offsets of keys
from the tokens of the first step. It adds and multiplies in float32 where the accelerator has fp16,
and has the true functions where the vector unit approximates them.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.harmonia.cached_attention import CacheFormat
from tilewright.golden.harmonia.llm_format import HarmoniaFormat
from tilewright.golden.llm.blockfloat import truncate
from tilewright.golden.llm.engine import Session
from tilewright.golden.llm.model import Model
from tilewright.golden.params.harmonia import ACTIVATION_BITS
from tilewright.golden.params.harmonia_machine import HarmoniaParams


class Reference:
    """One sequence; ``model`` has the weights of the image."""

    def __init__(self, params: HarmoniaParams, model: Model, window: int):
        """The first step has ``window`` tokens."""
        fmt = HarmoniaFormat(
            group=params.group,
            cache=CacheFormat.of(params.cache),
            step=params.columns,  # prompts are passed by tiles of keys
            offset_tokens=window,
        )
        self._group, self._head = params.group, model.head
        identity = np.eye(model.config.hidden_size, dtype=np.float32)
        self._session = Session(replace(model, head=identity), fmt)

    def feed(self, tokens: ArrayLike) -> NDArray[np.float32]:
        """Logits (tokens, vocabulary) of the next tokens."""
        hidden = truncate(self._session.feed(tokens), self._group, ACTIVATION_BITS)
        return hidden @ self._head.T
