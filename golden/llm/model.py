"""A decoder-only language model: its shape and its weights.

Two families. LLaMA: RMS norm, rotary embedding, grouped-query attention, SwiGLU, no biases. OPT:
layer norm, learned positions, ReLU, biases. Matrices are (outputs, inputs), as files store them.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.llm.tokenizer import Tokenizer
from tilewright.golden.params.block import require
from tilewright.golden.weights import Weights

FAMILIES = ("llama", "opt")


class ModelError(ValueError):
    """A model that cannot be read or run; the text is one line that begins with its path."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """The shape of a model."""

    family: str  # one of FAMILIES
    layers: int
    width: int  # of a token between layers
    hidden: int  # inner width of the feed-forward part
    heads: int
    key_heads: int  # of K and V; each serves heads / key_heads query heads
    channels: int  # of one head
    vocabulary: int
    context: int  # tokens of the longest sequence
    norm_epsilon: float = 1e-5
    rope_base: float = 10000.0

    def __post_init__(self) -> None:
        require(self.family in FAMILIES, f"family must be one of {FAMILIES}, not {self.family!r}")
        for name in ("layers", "width", "hidden", "key_heads", "channels", "vocabulary", "context"):
            value = getattr(self, name)
            require(value >= 1, f"{name} must be at least 1, not {value!r}")
        require(
            self.heads >= 1 and self.heads % self.key_heads == 0,
            f"heads must be a multiple of the {self.key_heads} key_heads, not {self.heads!r}",
        )
        if self.family == "llama":
            require(
                self.channels % 2 == 0,
                f"channels must be even for a rotary embedding, not {self.channels!r}",
            )


@dataclass(frozen=True, eq=False)
class Linear:
    """A projection; ``integers`` are the quantised weights that ``weight`` stands for, if any."""

    weight: NDArray[np.float32]  # (outputs, inputs)
    bias: NDArray[np.float32] | None = None
    integers: Weights | None = None

    def __call__(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """(T, inputs) -> (T, outputs)."""
        result = values @ self.weight.T
        if self.bias is not None:
            result += self.bias
        return result


@dataclass(frozen=True, eq=False)
class Norm:
    """Layer norm with its ``bias``, RMS norm without."""

    gain: NDArray[np.float32]
    bias: NDArray[np.float32] | None = None


@dataclass(frozen=True, eq=False)
class Layer:
    """One decoder layer; ``gate`` is None in OPT, whose ``up`` and ``down`` are fc1 and fc2."""

    attention_norm: Norm
    query: Linear  # rotary pairs are channels c and c + C/2
    key: Linear
    value: Linear
    output: Linear
    feed_norm: Norm
    gate: Linear | None
    up: Linear
    down: Linear

    @property
    def linears(self) -> dict[str, Linear]:
        """The projections by the names of their fields, in the order they are used."""
        names = ("query", "key", "value", "output", "gate", "up", "down")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(frozen=True, eq=False)
class Model:
    """Everything inference needs; ``head`` is ``embedding`` itself where the two are tied."""

    name: str
    config: Config
    embedding: NDArray[np.float32]  # (vocabulary, width)
    positions: NDArray[np.float32] | None  # (context, width): OPT's learned positions
    layers: tuple[Layer, ...]
    final_norm: Norm
    head: NDArray[np.float32]  # (vocabulary, width)
    rope_factors: NDArray[np.float32] | None = None  # (channels / 2,): divide the frequencies
    tokenizer: Tokenizer | None = field(default=None, repr=False)

    def with_linears(self, layer: int, **linears: Linear) -> "Model":
        """This model with some projections of one layer replaced: ``with_linears(3, query=w)``."""
        changed = list(self.layers)
        parts: dict[str, Any] = dict(linears)
        changed[layer] = replace(changed[layer], **parts)
        return replace(self, layers=tuple(changed))
