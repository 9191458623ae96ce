"""Language models as shapes: the table of this package, or any Hugging Face ``config.json``.

Two families cover them all: OPT (plain feed-forward layer, biases, learnt positions, embeddings
shared with the output) and LLaMA (gated feed-forward layer, grouped queries, no biases, rotary
positions).
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.golden.params.block import require
from tilewright.golden.params.names import unknown

__all__ = ["Model", "model_names", "resolve_model"]

TABLE = Path(__file__).with_name("models.toml")
GATED = ("llama", "mistral")  # families whose configuration reads as LLaMA's
FAMILIES = ("opt", *GATED)
OPT_POSITION_OFFSET = 2  # OPT's table of positions starts two rows late


@dataclass(frozen=True, kw_only=True)
class Model:
    """Sizes of one decoder-only transformer; everything else follows from them."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    context: int  # the longest sequence it was trained for
    gated: bool  # SwiGLU: gate and up projection
    bias: bool
    tied: bool  # the output projection is the embedding table
    learnt_positions: bool
    final_norm: bool = True
    embedding: int | None = None  # width of the embeddings where it differs from hidden

    def __post_init__(self) -> None:
        for field in ("hidden", "layers", "heads", "kv_heads", "head_dim", "ffn", "vocab"):
            value = getattr(self, field)
            require(
                isinstance(value, int) and 1 <= value <= 1 << 24,
                f"{self.name}: {field} must be 1..{1 << 24}, not {value!r}",
            )
        require(
            self.heads % self.kv_heads == 0,
            f"{self.name}: {self.heads} heads cannot share {self.kv_heads} key-value heads",
        )

    @property
    def query_width(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Keys of one token in one layer; as many values."""
        return self.kv_heads * self.head_dim

    @property
    def linear_weights(self) -> int:
        """Weights of the projections of all layers: what a compression scheme acts on."""
        attention = self.hidden * (2 * self.query_width + 2 * self.kv_width)
        return self.layers * (attention + (3 if self.gated else 2) * self.hidden * self.ffn)

    @property
    def head_weights(self) -> int:
        """Weights of the output projection, which are the embeddings where tied."""
        return self.vocab * (self.embedding or self.hidden)

    @property
    def parameters(self) -> int:
        """Every number of a checkpoint."""
        norms = (2 * self.layers + self.final_norm) * self.hidden * (2 if self.bias else 1)
        biases = 0
        if self.bias:
            per_layer = self.query_width + 2 * self.kv_width + 2 * self.hidden + self.ffn
            biases = self.layers * per_layer
        embeddings = self.head_weights * (1 if self.tied else 2)
        if self.embedding:
            embeddings += 2 * self.embedding * self.hidden  # to the hidden width and back
        if self.learnt_positions:
            embeddings += (self.context + OPT_POSITION_OFFSET) * self.hidden
        return self.linear_weights + norms + biases + embeddings

    def kv_elements(self, tokens: int) -> int:
        """Keys and values that ``tokens`` cached tokens leave in all layers."""
        return 2 * self.layers * self.kv_width * tokens


@cache
def _table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(TABLE.read_text())


def model_names() -> list[str]:
    return list(_table())


def published_parameters(name: str) -> int:
    return int(_table()[name]["parameters"])


def resolve_model(text: str) -> Model:
    """A model of the table by its name, or the one that a file ending in ``.json`` describes."""
    if text.endswith(".json"):
        return _read_config(Path(text))
    name = text.lower()
    if name not in _table():
        raise ValueError(unknown("model", text, [*_table()], "or the path of a config.json"))
    return _from_config(name, _table()[name])


def _read_config(path: Path) -> Model:
    try:
        config = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path} is not a config.json: it holds a {type(config).__name__}")
    try:
        return _from_config(str(path), config)
    except KeyError as missing:
        raise ValueError(f"{path} is not a config.json: {missing.args[0]} is missing") from None


def _from_config(name: str, config: Mapping[str, Any]) -> Model:
    family = config["model_type"]
    if family not in FAMILIES:
        raise ValueError(unknown("model_type", str(family), FAMILIES))
    hidden, heads = (_number(name, config, key) for key in ("hidden_size", "num_attention_heads"))
    gated = family in GATED
    if config.get("head_dim") is None:
        require(hidden % heads == 0, f"{name}: {heads} heads do not divide hidden_size {hidden}")
    embedding = config.get("word_embed_proj_dim", hidden)
    return Model(
        name=name,
        hidden=hidden,
        layers=_number(name, config, "num_hidden_layers"),
        heads=heads,
        kv_heads=_number(name, config, "num_key_value_heads", heads),
        head_dim=_number(name, config, "head_dim", hidden // heads),
        ffn=_number(name, config, "intermediate_size" if gated else "ffn_dim"),
        vocab=_number(name, config, "vocab_size"),
        context=_number(name, config, "max_position_embeddings"),
        gated=gated,
        bias=not gated,
        tied=bool(config.get("tie_word_embeddings", not gated)),
        learnt_positions=not gated,
        final_norm=bool(config.get("do_layer_norm_before", True)),
        embedding=None if embedding == hidden else embedding,
    )


def _number(name: str, config: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = config.get(key)
    if value is None:
        if default is None:
            raise KeyError(key)
        return default
    require(
        isinstance(value, int) and not isinstance(value, bool) and value >= 1,
        f"{name}: {key} must be a positive number, not {value!r}",
    )
    return int(value)
