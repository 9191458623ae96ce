"""The token that begins a text, those that end an answer, and chat templates, by a model's files.

Some models, Gemma among them, were trained with a token before every text and are several times
less certain of a text without it. Files name the token and say whether the tokenizer puts it there;
libraries that read them have disagreed on both, so this reads the files itself.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.llm.model import Chat, ModelError
from tilewright.golden.params.block import require

_ADDED_UNLESS_DENIED = ("llama",)  # kinds of a GGUF tokenizer: SentencePiece
_SPLITTING_WITH_START = ("llama-bpe",)  # of LLaMA 3, whose kind is that of GPT-2
_CONTROL = (3, 4)  # kinds of GGUF tokens: control, and those that the model's author added


@dataclass(frozen=True)
class Start:
    """``token`` begins a sequence, if the model has one; ``added``: before every text."""

    token: int | None = None
    added: bool = False

    @property
    def before_text(self) -> int | None:
        """The token that a text needs before it."""
        return self.token if self.added else None


def begun(ids: NDArray[np.int64], start: int | None, window: int) -> NDArray[np.int64]:
    """Consecutive full windows of ``window`` tokens, each beginning with ``start``, if any."""
    if start is None:
        return ids
    step = window - 1
    count = len(ids) // step
    require(count >= 1, f"the text has {len(ids)} tokens, fewer than a window of {window}")
    pieces = ids[: count * step].reshape(count, step)
    return np.insert(pieces, 0, start, axis=1).reshape(-1)


def start_of_gguf(fields: Mapping[str, Any]) -> Start:
    """By the fields of a GGUF file, with llama.cpp's defaults where they say nothing."""
    token = fields.get("tokenizer.ggml.bos_token_id")
    usual = (
        fields.get("tokenizer.ggml.model") in _ADDED_UNLESS_DENIED
        or fields.get("tokenizer.ggml.pre") in _SPLITTING_WITH_START
    )
    added = bool(fields.get("tokenizer.ggml.add_bos_token", usual))
    return Start(None if token is None else int(token), added and token is not None)


def start_of_folder(path: Path) -> Start:
    """By the files of a Hugging Face folder.

    ``add_bos_token`` of tokenizer_config.json decides where it is given, else the post-processor
    of tokenizer.json does. The token is the post-processor's, or the one that tokenizer_config.json
    names, or that of config.json, or that of generation_config.json.
    """
    tokenizer, settings = _object(path, "tokenizer.json"), _object(path, "tokenizer_config.json")
    first = _first_of(tokenizer.get("post_processor"))
    token = first if first is not None else _named(tokenizer, settings.get("bos_token"))
    for name in ("config.json", "generation_config.json"):
        if token is None:
            given = _object(path, name).get("bos_token_id")
            token = given if isinstance(given, int) else None
    said = settings.get("add_bos_token")
    added = said if isinstance(said, bool) else first is not None
    return Start(token, added and token is not None)


def _first_of(processor: Any) -> int | None:
    if not isinstance(processor, dict):
        return None
    if processor.get("type") == "Sequence":
        found = (_first_of(part) for part in processor.get("processors", ()))
        return next((token for token in found if token is not None), None)
    if processor.get("type") == "TemplateProcessing":
        match processor.get("single"):
            case [{"SpecialToken": {"id": name}}, *_]:
                return int(processor["special_tokens"][name]["ids"][0])
    return None


def _named(tokenizer: Mapping[str, Any], name: Any) -> int | None:
    """The number of a token; its name may be the content of an object."""
    if isinstance(name, dict):
        name = name.get("content")
    for token in tokenizer.get("added_tokens", ()):
        if token.get("content") == name:
            return int(token["id"])
    vocabulary = tokenizer.get("model", {}).get("vocab")
    return vocabulary.get(name) if isinstance(vocabulary, dict) else None


def chat_of_gguf(fields: Mapping[str, Any]) -> Chat:
    """By the fields of a GGUF file."""
    prefix = "tokenizer.ggml"
    texts, kinds = fields.get(f"{prefix}.tokens", ()), fields.get(f"{prefix}.token_type", ())
    control = {
        str(text): number
        for number, (text, kind) in enumerate(zip(texts, kinds, strict=False))
        if int(kind) in _CONTROL
    }
    known = (fields.get(f"{prefix}.{name}_token_id") for name in ("eos", "eot"))
    ends = dict.fromkeys(int(token) for token in known if token is not None)
    names = {}
    for name in ("bos", "eos"):
        token = fields.get(f"{prefix}.{name}_token_id")
        if token is not None and int(token) < len(texts):
            names[f"{name}_token"] = str(texts[int(token)])
    return Chat(tuple(ends), fields.get("tokenizer.chat_template"), control, names)


def chat_of_folder(path: Path) -> Chat:
    """By the files of a Hugging Face folder."""
    settings, tokenizer = _object(path, "tokenizer_config.json"), _object(path, "tokenizer.json")
    control = {
        entry["content"]: int(entry["id"])
        for entry in tokenizer.get("added_tokens", ())
        if entry.get("special")
    }
    names = {}
    for name in ("bos_token", "eos_token"):
        text = settings.get(name)
        text = text.get("content") if isinstance(text, dict) else text
        if isinstance(text, str):
            names[name] = text
    return Chat(tuple(_ends(path, control, names)), _template(path, settings), control, names)


def _ends(path: Path, control: Mapping[str, int], names: Mapping[str, str]) -> Iterator[int]:
    for file in ("generation_config.json", "config.json"):
        given = _object(path, file).get("eos_token_id")
        if given is not None:
            yield from given if isinstance(given, list) else [given]
            return
    if names.get("eos_token") in control:
        yield control[names["eos_token"]]


def _template(path: Path, settings: Mapping[str, Any]) -> str | None:
    file = path / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    given = settings.get("chat_template")
    if isinstance(given, list):  # several, by name
        given = {entry.get("name"): entry.get("template") for entry in given}.get("default")
    return given if isinstance(given, str) else None


def _object(path: Path, name: str) -> dict[str, Any]:
    return json_object(path, name) if (path / name).is_file() else {}


def json_object(path: Path, name: str) -> dict[str, Any]:
    """The object of a JSON file of a Hugging Face folder."""
    try:
        content = json.loads((path / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path}: no Hugging Face folder: {name} is missing") from None
    except ValueError as error:
        raise ModelError(f"{path}: {name} is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path}: {name} holds no object")
    return content
