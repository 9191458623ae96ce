"""A model from named tensors: which tensor is which weight, and nothing left over.

Files differ in names only. A tensor that is missing, superfluous, or of another shape than the
configuration says is refused: the result would not be the file's model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.llm.model import (
    Chat,
    Gemma,
    Layer,
    LazyLayers,
    LazyRows,
    Linear,
    Model,
    ModelError,
    Norm,
)
from tilewright.golden.llm.tokenizer import Tokenizer
from tilewright.golden.params.llm import OPT_POSITION_OFFSET, LlmShape

Floats = NDArray[np.float32]
Reader = Callable[[slice], NDArray]  # rows of a tensor as floats
GEMMA_PERIOD = 6  # every sixth layer of Gemma 3 sees the whole context
GEMMA_WINDOW_THETA = 10000.0  # base of the rotary embedding in layers with a window


@dataclass(frozen=True, kw_only=True)
class Names:
    """Tensor names of a kind of file; ``.weight`` and ``.bias`` follow each, but not here."""

    embedding: str
    head: str
    final_norm: str
    layer: str  # prefix of a layer's tensors, with {} for its number
    attention_norm: str
    query: str
    key: str
    value: str
    output: str
    feed_norm: str
    up: str
    down: str
    gate: str | None = None
    positions: str | None = None
    # Gemma 3 alone:
    query_norm: str = ""
    key_norm: str = ""
    after_attention: str = ""
    after_feed: str = ""


def named_parts(
    model: Model, names: Names, layer: Callable[[int], Layer] | None = None
) -> dict[str, tuple[tuple[int, ...], Callable[[], NDArray]]]:
    """Shape of each tensor of a model, and how to read it, by the names of a kind of file.

    ``layer`` gives a layer by its number. A table of positions has two rows before the first.
    """
    found: dict[str, tuple[tuple[int, ...], Callable[[], NDArray]]] = {}
    get = layer or model.layers.__getitem__

    def add(name: str, part: Linear | Norm, read: Callable[[], Linear | Norm]) -> None:
        for field in ("weight", "gain", "bias"):
            values = getattr(part, field, None)
            if values is not None:
                last = "bias" if field == "bias" else "weight"
                found[f"{name}.{last}"] = values.shape, partial(_field, read, field)

    found[f"{names.embedding}.weight"] = model.embedding.shape, lambda: model.embedding
    if model.head is not model.embedding:
        found[f"{names.head}.weight"] = model.head.shape, lambda: model.head
    if model.positions is not None:
        table = np.pad(model.positions, [(OPT_POSITION_OFFSET, 0), (0, 0)])
        found[f"{names.positions}.weight"] = table.shape, lambda: table
    add(names.final_norm, model.final_norm, lambda: model.final_norm)
    first = _parts(get(0))
    for number in range(len(model.layers)):
        for part, values in first.items():
            name = names.layer.format(number) + getattr(names, part)
            add(name, values, partial(_part, get, number, part))
    return found


def _field(read: Callable[[], Linear | Norm], field: str) -> NDArray:
    return cast(NDArray, getattr(read(), field))


def _part(layer: Callable[[int], Layer], number: int, part: str) -> Linear | Norm:
    return _parts(layer(number))[part]


def _parts(layer: Layer) -> dict[str, Linear | Norm]:
    found: dict[str, Linear | Norm] = {**layer.linears}
    found |= {"attention_norm": layer.attention_norm, "feed_norm": layer.feed_norm}
    if layer.gemma is not None:
        norms = ("query_norm", "key_norm", "after_attention", "after_feed")
        found |= {name: getattr(layer.gemma, name) for name in norms}
    return found


class Tensors:
    """The tensors of a file, each read when it is taken; ``readers`` give float arrays."""

    def __init__(self, path: Path, readers: Mapping[str, Reader]):
        self.path = path
        self._readers = dict(readers)
        self._left = dict.fromkeys(self._readers)

    def __contains__(self, name: str) -> bool:
        return name in self._readers

    def claim(self, name: str, *shape: int) -> Floats:
        """Mark a tensor that will be taken later; return an empty array."""
        if name not in self._readers:
            raise ModelError(f"{self.path}: tensor {name} is missing")
        self._left.pop(name, None)
        return np.empty(0, np.float32)

    def take(self, name: str, *shape: int) -> Floats:
        self.claim(name)
        values = self._readers[name](slice(None))
        if values.shape != shape:
            raise ModelError(f"{self.path}: tensor {name} has shape {values.shape}, not {shape}")
        return np.ascontiguousarray(values, np.float32)

    def matrix(self, name: str, rows: int, columns: int, *, lazy: bool) -> Floats:
        """A matrix; ``lazy``: its rows are read on access."""
        if not lazy:
            return self.take(name, rows, columns)
        self.claim(name)

        def floats(chosen: slice) -> Floats:
            return np.ascontiguousarray(self._readers[name](chosen), np.float32)

        if floats(slice(0, 1)).shape != (1, columns):
            return self.take(name, rows, columns)  # which says what is wrong
        return cast(Floats, LazyRows((rows, columns), floats))

    def finish(self) -> None:
        for name in self._left:
            raise ModelError(f"{self.path}: tensor {name} has no place in this kind of model")


def assemble(
    config: LlmShape,
    names: Names,
    tensors: Tensors,
    *,
    tied: bool,
    tokenizer: Tokenizer | None,
    start: int | None = None,
    chat: Chat | None = None,
    rope_factors: Floats | None = None,
    position_offset: int = 0,
    lazy: bool = False,
) -> Model:
    """The model; ``tied``: its head is the embedding; ``lazy``: parts are read on every access.

    The first ``position_offset`` rows of the learned positions are unused.
    """
    width, inner, keys = config.hidden_size, config.query_width, config.kv_width

    take = tensors.take

    def bias(name: str, size: int) -> Floats | None:
        return take(f"{name}.bias", size) if f"{name}.bias" in tensors else None

    def linear(name: str, outputs: int, inputs: int) -> Linear:
        weight = take(f"{name}.weight", outputs, inputs)
        return Linear(weight, bias(name, outputs))

    def norm(name: str, size: int = width) -> Norm:
        return Norm(take(f"{name}.weight", size), bias(name, size))

    def gemma(prefix: str, index: int) -> Gemma:
        whole = (index + 1) % GEMMA_PERIOD == 0
        return Gemma(
            query_norm=norm(prefix + names.query_norm, config.head_dim),
            key_norm=norm(prefix + names.key_norm, config.head_dim),
            after_attention=norm(prefix + names.after_attention),
            after_feed=norm(prefix + names.after_feed),
            window=None if whole else config.sliding_window,
            rope_theta=config.rope_theta if whole else GEMMA_WINDOW_THETA,
        )

    def layer(index: int) -> Layer:
        prefix = names.layer.format(index)
        gate = None
        if names.gate is not None:
            gate = linear(prefix + names.gate, config.intermediate_size, width)
        return Layer(
            attention_norm=norm(prefix + names.attention_norm),
            query=linear(prefix + names.query, inner, width),
            key=linear(prefix + names.key, keys, width),
            value=linear(prefix + names.value, keys, width),
            output=linear(prefix + names.output, width, inner),
            feed_norm=norm(prefix + names.feed_norm),
            gate=gate,
            up=linear(prefix + names.up, config.intermediate_size, width),
            down=linear(prefix + names.down, width, config.intermediate_size),
            gemma=gemma(prefix, index) if config.model_type == "gemma3_text" else None,
        )

    embedding = tensors.matrix(f"{names.embedding}.weight", config.vocab_size, width, lazy=lazy)
    head = embedding
    if f"{names.head}.weight" in tensors or not tied:
        head = tensors.matrix(f"{names.head}.weight", config.vocab_size, width, lazy=lazy)
    positions = None
    if names.positions is not None:
        rows = config.max_position_embeddings + position_offset
        positions = tensors.take(f"{names.positions}.weight", rows, width)[position_offset:]
    layers: Sequence[Layer]
    if lazy:
        take = tensors.claim
        for number in range(config.num_hidden_layers):
            layer(number)
        take = tensors.take
        layers = LazyLayers(config.num_hidden_layers, layer)
    else:
        layers = tuple(layer(number) for number in range(config.num_hidden_layers))
    final_norm = norm(names.final_norm)
    tensors.finish()
    name = tensors.path.stem if tensors.path.is_file() else tensors.path.name
    return Model(
        name=name,
        config=replace(config, name=name, tie_word_embeddings=head is embedding),
        embedding=embedding,
        positions=positions,
        layers=layers,
        final_norm=final_norm,
        head=head,
        rope_factors=rope_factors,
        tokenizer=tokenizer,
        start=start,
        chat=chat or Chat(),
    )
