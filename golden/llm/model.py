"""A decoder-only language model: its weights and shape.

Families: LLaMA (RMS norm, rotary embedding, grouped-query attention, SwiGLU, no biases); Qwen2 (the
same with biases of queries, keys and values); Gemma 3 (norms of queries and keys and after both
parts of a layer, GELU for SiLU, embeddings scaled, most layers with a sliding window); OPT (layer
norm, learned positions, ReLU, biases). Matrices are (outputs, inputs), as files store them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.llm.tokenizer import Tokenizer
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.weights import Weights


class ModelError(ValueError):
    """A model that cannot be read or run; the text is one line that begins with its path."""


@dataclass(frozen=True, eq=False)
class Linear:
    """A projection; ``integers`` are the quantised weights of ``weight``, if any."""

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
class Gemma:
    """Parts of a layer of Gemma 3 that LLaMA's lacks."""

    query_norm: Norm  # of each head's channels, before the rotary embedding
    key_norm: Norm
    after_attention: Norm  # before the residual is added
    after_feed: Norm
    window: int | None  # tokens that a query sees, its own among them; None: all
    rope_theta: float


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
    gemma: Gemma | None = None

    @property
    def linears(self) -> dict[str, Linear]:
        """The projections by the names of their fields, in the order they are used."""
        names = ("query", "key", "value", "output", "gate", "up", "down")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(frozen=True)
class Chat:
    """``ends`` are tokens after which an answer is complete; ``template`` is Jinja's.

    ``control`` are tokens that a text cannot contain but a template can, by their names; ``names``
    are the template's variables ``bos_token`` and ``eos_token``.
    """

    ends: tuple[int, ...] = ()
    template: str | None = None
    control: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Mapping[str, Any] | None) -> "Chat":
        """From the fields of ``asdict``, which JSON has as lists; None: nothing is known."""
        data = data or {}
        return cls(**{**data, "ends": tuple(data.get("ends", ()))})


@dataclass(frozen=True, eq=False)
class Model:
    """Everything inference needs; ``head`` is ``embedding`` itself where the two are tied."""

    name: str
    config: LlmShape
    embedding: NDArray[np.float32]  # (vocab_size, hidden_size)
    positions: NDArray[np.float32] | None  # of OPT: (max_position_embeddings, hidden_size)
    layers: Sequence[Layer]  # a tuple, or layers that are read one at a time
    final_norm: Norm
    head: NDArray[np.float32]  # (vocab_size, hidden_size)
    rope_factors: NDArray[np.float32] | None = None  # (head_dim / 2,): divide the frequencies
    tokenizer: Tokenizer | None = field(default=None, repr=False)
    start: int | None = None  # the token that its tokenizer puts before every text, if any
    chat: Chat = field(default_factory=Chat, repr=False)

    def with_linears(self, layer: int, **linears: Linear) -> "Model":
        """This model with some projections of one layer replaced: ``with_linears(3, query=w)``."""
        changed = list(self.layers)
        parts: dict[str, Any] = dict(linears)
        changed[layer] = replace(changed[layer], **parts)
        return replace(self, layers=tuple(changed))


class LazyLayers(Sequence[Layer]):
    """``count`` layers, each made by ``make(number)`` on every access and not cached."""

    def __init__(self, count: int, make: Callable[[int], Layer]):
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, number: int) -> Layer: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Layer]: ...
    def __getitem__(self, number: int | slice) -> Layer | Sequence[Layer]:
        if isinstance(number, slice):
            return [self._make(k) for k in range(self._count)[number]]
        return self._make(range(self._count)[number])


class LazyRows:
    """A matrix whose rows are read on every access, all of them unless a slice is asked for."""

    dtype = np.dtype(np.float32)
    ndim = 2

    def __init__(self, shape: tuple[int, int], read: Callable[[slice], NDArray[np.float32]]):
        self.shape, self._read = shape, read

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> NDArray[np.float32]:
        if isinstance(index, slice) and index.step in (None, 1):
            return self._read(index)
        values: NDArray[np.float32] = np.asarray(self)[index]
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return self._read(slice(None)).astype(dtype or self.dtype, copy=False)

    @property
    def T(self) -> NDArray[np.float32]:  # noqa: N802  (numpy's name)
        return np.asarray(self).T
