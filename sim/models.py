"""Language models as shapes: the table of this package, or any Hugging Face ``config.json``.

The table, ``sim/models.toml``, has the words of ``config.json`` too, so both are read alike. What a
family does with its fields stands in ``tilewright.sim.families``.
"""

import json
import tomllib
from collections.abc import Mapping
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.names import unknown
from tilewright.sim.families import shape_of

TABLE = Path(__file__).with_name("models.toml")
ABOUT = ("parameters", "digits", "active_billions", "source")  # entries that are no fields
CONFIG = "config.json"


@cache
def _table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(TABLE.read_text())


def model_names() -> list[str]:
    return list(_table())


def published(name: str) -> dict[str, Any]:
    """Return the published figures of a model of the table, those of ``ABOUT``, None if unknown.

    Parameters of the checkpoint, to how many digits (None: exactly), billions that a token uses,
    and the address of its config.json.
    """
    return {key: _table()[name].get(key) for key in ABOUT}


SHORT_NAMES = {"smollm2": "smollm2-135m"}  # as ``run`` and ``search`` name a model with weights


def resolve_model(text: str) -> LlmShape:
    """A model of the table by its name, or that of a ``.json`` file or of a folder with one."""
    if text.endswith(".json"):
        return _read_config(Path(text))
    name = text.lower()
    name = SHORT_NAMES.get(name, name)
    if name in _table():
        fields = {key: value for key, value in _table()[name].items() if key not in ABOUT}
        return shape_of(name, fields)
    if text and (Path(text) / CONFIG).is_file():
        return _read_config(Path(text) / CONFIG)
    path, listed = "or the path of a config.json", "see tilewright list models"
    # Names of other families are near by their size alone: mpt-7b is no opt-6.7b, llava no llama.
    near = [n for n in _table() if SequenceMatcher(None, _family(n), _family(name)).ratio() > 0.8]
    raise ValueError(unknown("model", text, near, path, listed))


def _family(name: str) -> str:
    return name[: len(name) - len(name.lstrip("abcdefghijklmnopqrstuvwxyz"))]


def _read_config(path: Path) -> LlmShape:
    try:
        config = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:  # text that is no UTF-8 is a ValueError as well
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(config, Mapping):
        raise ValueError(f"{path} is not a config.json: it holds a {type(config).__name__}")
    return shape_of(str(path), config)
