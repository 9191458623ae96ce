"""Answers of the cycle models that the site asks for, computed before and part of the package.

A stream of tiles or a program of a layer takes a tenth of a second to a second to follow, and the
claims and pages of results ask for hundreds. ``model_answers.json`` holds their answers, each
under the key of everything it follows from, the sources of the model among them: after a change of
the model nothing is found there, and answers are computed as if there were no such file.
``python -m tilewright.site.model_answers`` renews it.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.base.cache import content_key, get_or_make

ANSWERS = Path(__file__).with_name("model_answers.json")

_recorder: dict[str, Any] | None = None
_known: dict[str, Any] = {}


def get_or_compute(ingredients: Iterable[str], compute: Callable[[], Any]) -> Any:
    """Return ``compute()``, which is JSON data, from the package or the cache where it is there.

    ``ingredients`` name the question and the sources that answer it.
    """
    words = list(ingredients)
    key = content_key(words)
    if _recorder is not None:
        if key not in _recorder:
            _recorder[key] = _known[key] if key in _known else compute()
        return _recorder[key]
    known = shipped()
    return known[key] if key in known else get_or_make(words, compute)


@contextmanager
def recorded(known: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """Give a dictionary that takes answers by their keys; those not in ``known`` are computed."""
    global _recorder, _known
    _recorder, _known = {}, known or {}
    try:
        yield _recorder
    finally:
        _recorder, _known = None, {}


def text_of(answers: dict[str, Any]) -> str:
    """Return the file of ``answers``, one line for each."""
    lines = (f'"{key}": {json.dumps(answers[key])}' for key in sorted(answers))
    return "{\n" + ",\n".join(lines) + "\n}\n"


@cache
def shipped() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ANSWERS.read_text())
    return found
