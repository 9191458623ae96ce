"""The same model in the same formats by the language model engine, which knows no machine.

It has the image's integers as weights, activations in block floating point wherever the array
meets them, the cache with its windows, and offsets of keys from the tokens of the first step. It
adds and multiplies in float32 where the accelerator has fp16, and has the true functions where the
vector unit approximates them.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.harmonia.cached_attention import CacheFormat
from tilewright.golden.harmonia.llm_format import HarmoniaFormat
from tilewright.golden.harmonia.offset import largest_halved
from tilewright.golden.llm.blockfloat import truncate
from tilewright.golden.llm.engine import Session
from tilewright.golden.llm.model import Model
from tilewright.golden.llm.sites import Floats
from tilewright.golden.params.harmonia import ACTIVATION_BITS
from tilewright.golden.params.harmonia_machine import HarmoniaParams

__all__ = ["Reference"]


@dataclass(frozen=True, kw_only=True)
class _Format(HarmoniaFormat):
    """Keys lose offsets that the first ``window`` tokens give."""

    window: int
    offsets: int

    def attend(
        self, layer: int, q: Floats, k: Floats, v: Floats, window: int | None = None
    ) -> Floats:
        shifted = k.copy()
        for head in shifted:
            seen = head[: self.window].astype(np.float16).view(np.uint16)
            offset = largest_halved(seen, self.offsets).view(np.float16).astype(np.float64)
            chosen = np.flatnonzero(offset)
            exact = head[:, chosen].astype(np.float16).astype(np.float64)
            head[:, chosen] = (exact - offset[chosen]).astype(np.float16)
        return super().attend(layer, q, shifted, v, window)


class Reference:
    """One sequence; ``model`` has the weights of the image."""

    def __init__(self, params: HarmoniaParams, model: Model, window: int):
        """The first step has ``window`` tokens."""
        p = params
        cache = replace(CacheFormat.of(p.cache), offset_channels=0)
        fmt = _Format(
            group=p.group,
            cache=cache,
            window=window,
            offsets=p.offsets,
        )
        self._group, self._head = p.group, model.head
        identity = np.eye(model.config.hidden_size, dtype=np.float32)
        self._session = Session(replace(model, head=identity), fmt)

    def feed(self, tokens: ArrayLike) -> NDArray[np.float32]:
        """Logits (tokens, vocabulary) of the next tokens."""
        hidden = truncate(self._session.feed(tokens), self._group, ACTIVATION_BITS)
        return hidden @ self._head.T
