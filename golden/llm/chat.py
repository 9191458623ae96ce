"""How a model's own files end an answer and lay out a conversation."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_CONTROL = (3, 4)  # kinds of GGUF tokens: control, and those that the model's author added


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
    try:
        content = json.loads((path / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # start.py refuses files that are no JSON
        return {}
    return content if isinstance(content, dict) else {}
