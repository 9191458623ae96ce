"""Language models as shapes: the table of this package, or any Hugging Face ``config.json``.

The families are those of :class:`tilewright.golden.params.llm.LlmShape`.
"""

import json
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.golden.params.block import require
from tilewright.golden.params.llm import MODEL_TYPES, LlmShape
from tilewright.golden.params.names import unknown

__all__ = ["model_names", "published_parameters", "resolve_model"]

TABLE = Path(__file__).with_name("models.toml")


@cache
def _table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(TABLE.read_text())


def model_names() -> list[str]:
    """Return the names of the models of the table."""
    return list(_table())


def published_parameters(name: str) -> int:
    """Return how many parameters the published checkpoint has."""
    return int(_table()[name]["parameters"])


def resolve_model(text: str) -> LlmShape:
    """A model of the table by its name, or the one that a file ending in ``.json`` describes."""
    if text.endswith(".json"):
        return _read_config(Path(text))
    name = text.lower()
    if name not in _table():
        raise ValueError(unknown("model", text, [*_table()], "or the path of a config.json"))
    return _from_config(name, _table()[name])


def _read_config(path: Path) -> LlmShape:
    try:
        config = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path} is not a config.json: it holds a {type(config).__name__}")
    try:
        return _from_config(str(path), config)
    except KeyError as missing:
        raise ValueError(f"{path} is not a config.json: {missing.args[0]} is missing") from None


def _from_config(name: str, config: Mapping[str, Any]) -> LlmShape:
    family = config["model_type"]
    if family not in MODEL_TYPES:
        raise ValueError(unknown("model_type", str(family), MODEL_TYPES))
    hidden, heads = (_number(name, config, key) for key in ("hidden_size", "num_attention_heads"))
    opt = family == "opt"
    if config.get("head_dim") is None:
        require(hidden % heads == 0, f"{name}: {heads} heads do not divide hidden_size {hidden}")
    embedding = _number(name, config, "word_embed_proj_dim", hidden)
    sizes = {
        key: _number(name, config, key)
        for key in ("num_hidden_layers", "vocab_size", "max_position_embeddings")
    }
    try:
        return LlmShape(
            model_type=family,
            name=name,
            hidden_size=hidden,
            # OPT has its own word for it.
            intermediate_size=_number(name, config, "ffn_dim" if opt else "intermediate_size"),
            num_attention_heads=heads,
            num_key_value_heads=_number(name, config, "num_key_value_heads", heads),
            head_dim=_number(name, config, "head_dim", hidden // heads),
            tie_word_embeddings=bool(config.get("tie_word_embeddings", opt)),
            do_layer_norm_before=bool(config.get("do_layer_norm_before", True)),
            word_embed_proj_dim=None if embedding == hidden else embedding,
            **sizes,
        )
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


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
