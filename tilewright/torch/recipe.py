"""A record of the changes to a model: small, readable, and enough to repeat them.

A recipe names the configuration and every module with its shape, so that it refuses a model it was
not made for. Files end in ``.toml`` or ``.json``.
"""

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.torch.config import Config, config_from

VERSION = 1
Factors = list[list[float]]  # (key heads, channels)


class RecipeError(ValueError):
    """A recipe that cannot be read or does not fit a model; the text is one line."""


@dataclass(frozen=True)
class Recipe:
    """The changes that ``quantize_`` made."""

    model: str  # class of the model
    config: Config
    modules: Mapping[str, tuple[str, int, int]]  # name -> kind, outputs, inputs
    baked: bool = False  # weights were converted for good
    smoothing: Mapping[str, Factors] = field(default_factory=dict)  # attention -> factors of K

    def as_dict(self) -> dict[str, Any]:
        return {
            "recipe": VERSION,
            "model": self.model,
            "baked": self.baked,
            "config": {k: _plain(v) for k, v in self.config.as_dict().items() if v is not None},
            "modules": {name: list(entry) for name, entry in self.modules.items()},
            "smoothing": {name: _plain(rows) for name, rows in self.smoothing.items()},
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "Recipe":
        """The recipe of plain data; refuses invalid data."""
        if data.get("recipe") != VERSION:
            raise RecipeError(f"recipe must be {VERSION}, not {data.get('recipe')!r}")
        try:
            config = dict(data["config"])
            if config.get("method") in ("anda", "harmonia"):
                config.setdefault("weight_bits", None)
            if config.get("method") == "format":
                config.setdefault("weights", None)
            modules = {
                name: (str(kind), int(outputs), int(inputs))
                for name, (kind, outputs, inputs) in data["modules"].items()
            }
            return Recipe(
                str(data["model"]),
                config_from(config),
                modules,
                bool(data.get("baked", False)),
                dict(data.get("smoothing", {})),
            )
        except KeyError as error:
            raise RecipeError(f"the recipe has no {error}") from None
        except (TypeError, AttributeError) as error:
            raise RecipeError(f"no recipe: {error}") from None

    def save(self, path: str | Path) -> None:
        """Write the recipe, all of it or nothing."""
        path = Path(path)
        data = self.as_dict()
        _name_files(data, lambda file: os.path.relpath(file, path.parent))
        if path.suffix == ".json":
            text = json.dumps(data, indent=1) + "\n"
        elif path.suffix == ".toml":
            text = _toml(data)
        else:
            raise RecipeError(f"{path}: a recipe's name ends in .toml or .json")
        draft = path.with_name(f".{path.name}.part")
        draft.write_text(text)
        draft.replace(path)

    @staticmethod
    def load(path: str | Path) -> "Recipe":
        """The recipe of a file; every refusal begins with the file's name."""
        path = Path(path)
        try:
            text = path.read_text()
        except OSError as error:
            raise RecipeError(f"{path}: {error.strerror}") from None
        try:
            data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        except ValueError as error:
            kind = "JSON" if path.suffix == ".json" else "TOML"
            raise RecipeError(f"{path}: no {kind}: {error}") from None
        try:
            _name_files(data, lambda file: os.path.normpath(path.parent / file))
            return Recipe.from_dict(data)
        except ValueError as error:
            raise RecipeError(f"{path}: {error}") from None


def _name_files(data: Mapping[str, Any], named: Callable[[str], str]) -> None:
    """Rename files of formats: in a recipe they are relative to its folder."""
    config = data.get("config")
    if not isinstance(config, dict) or config.get("method") != "format":
        return
    for operand in ("weights", "activations"):
        file, colon, kind = str(config.get(operand)).rpartition(":")
        if file.endswith(".py"):
            config[operand] = f"{named(file)}{colon}{kind}"


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    return value


def _toml(data: Mapping[str, Any]) -> str:
    """Strings, numbers, booleans and lists of them: JSON writes these as TOML does."""
    lines = [f"{key} = {json.dumps(v)}" for key, v in data.items() if not isinstance(v, dict)]
    for name, table in data.items():
        if isinstance(table, dict) and table:
            lines += ["", f"[{name}]"]
            lines += [f"{json.dumps(key)} = {json.dumps(v)}" for key, v in table.items()]
    return "\n".join(lines) + "\n"
