"""The same model in the same formats by the language model engine, which knows no machine.

It has the image's integers as weights and Anda activations before every product. It adds and
multiplies in float32 where the accelerator has fp16, and has the true functions where the vector
unit approximates them.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.anda_machine.mantissas import Mantissas
from tilewright.golden.llm.blockfloat import truncate
from tilewright.golden.llm.engine import Session
from tilewright.golden.llm.formats import AndaFormat
from tilewright.golden.llm.model import Model
from tilewright.golden.params.anda_machine import AndaParams


class Reference:
    """One sequence; ``model`` has the weights of the image."""

    def __init__(self, params: AndaParams, mantissas: Mantissas, model: Model):
        m = mantissas
        self._group, self._bits = params.group, m.qkv  # the head's are those of queries
        self._head = model.head
        identity = np.eye(model.config.hidden_size, dtype=np.float32)
        fmt = AndaFormat((m.qkv, m.o, m.u, m.d), self._group)
        self._session = Session(replace(model, head=identity), fmt)

    def feed(self, tokens: ArrayLike) -> NDArray[np.float32]:
        """Logits (tokens, vocabulary) of the next tokens."""
        hidden = truncate(self._session.feed(tokens), self._group, self._bits)
        return hidden @ self._head.T
