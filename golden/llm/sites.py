"""The sites where activations enter a GEMM, and number formats of activations.

A decoder layer multiplies activations at eight sites: Anda's (the inputs of its four linear
modules) and Harmonia's (both products of attention too):

    A_qkv  normed tokens, before the query, key and value projections
    A_o    attention's result, before the output projection
    A_u    normed tokens, before gate and up
    A_d    the inner activations, before down
    Q, K   before the scores, after the rotary embedding
    P, V   before the weighted sum

The engine passes the values of a site through a ``Format`` before it multiplies them. The product
sums over the last axis, along which groups of block floating point run.
"""

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.llm.model import Linear

Floats = NDArray[np.float32]


class Site(Enum):
    """Shapes: T tokens of this call, S tokens up to its end, C channels of a head."""

    A_QKV = "A_qkv"  # (T, width)
    A_O = "A_o"  # (T, heads * C)
    A_U = "A_u"  # (T, width)
    A_D = "A_d"  # (T, hidden)
    Q = "Q"  # (heads, T, C), with the factor 1/sqrt(C)
    K = "K"  # (key heads, S, C)
    V = "V"  # (key heads, C, S): grouped along the tokens
    P = "P"  # (heads, T, S): rows sum to one, 0 where a token is not seen

    @property
    def is_linear(self) -> bool:
        """Whether the other operand is a weight."""
        return self in LINEAR_SITES


LINEAR_SITES = (Site.A_QKV, Site.A_O, Site.A_U, Site.A_D)
ATTENTION_SITES = (Site.Q, Site.K, Site.V, Site.P)


class Format:
    """A number format of activations; this one changes nothing.

    A subclass overrides ``activation``, or ``attend`` as a whole if its cached keys or values
    depend on the query (tokens age). Formats have no state: every call gets all keys and values of
    the sequence, unformatted, so that prefill and decode see the same. Query t of T is the token
    at position S - T + t.
    """

    def activation(self, site: Site, layer: int, values: Floats) -> Floats:
        """``values`` in this format; they are contiguous float32 and may be overwritten."""
        return values

    def multiply(self, site: Site, layer: int, values: Floats, linear: Linear) -> Floats:
        """The product of a linear site, (T, outputs); ``values`` come from ``activation``.

        Overridden where every rounding of the hardware's sums matters; ``linear.integers`` has the
        quantised weights then. ``values`` are shared between projections: read only.
        """
        return linear(values)

    def head(self, values: Floats, weights: Floats) -> Floats:
        """Logits (T, vocabulary) of tokens (T, width) after the final norm."""
        return values @ weights.T

    def attend(
        self, layer: int, q: Floats, k: Floats, v: Floats, window: int | None = None
    ) -> Floats:
        """Causal attention, (heads, T, C), of q (heads, T, C) with 1/sqrt(C) in it.

        k and v are (key heads, S, C) and read only; q is the last T of the S tokens. Head h of q
        attends to key head h // (heads / key heads). With a ``window``, a query sees that many of
        the last tokens, including its own.
        """
        heads, tokens, channels = q.shape
        key_heads, seen, _ = k.shape
        q = self.activation(Site.Q, layer, q)
        k = self.activation(Site.K, layer, k.copy())
        v = self.activation(Site.V, layer, v.swapaxes(1, 2).copy())
        scores = q.reshape(key_heads, -1, channels) @ k.swapaxes(1, 2)
        p = self.activation(Site.P, layer, softmax(scores.reshape(heads, tokens, seen), window))
        result = p.reshape(key_heads, -1, seen) @ v.swapaxes(1, 2)
        return result.reshape(heads, tokens, channels)


PLAIN = Format()


def softmax(scores: Floats, window: int | None = None) -> Floats:
    """Causal, over the last axis, in place; with a ``window``, a row sees that many at most."""
    tokens, seen = scores.shape[-2:]
    token = np.arange(seen)
    newest = np.arange(seen - tokens, seen)[:, np.newaxis]  # that each row sees
    hidden = token > newest
    if window is not None:
        hidden |= token <= newest - window
    np.copyto(scores, -np.inf, where=hidden)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores
