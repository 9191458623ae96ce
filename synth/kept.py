"""Results kept by content: what they were made from is their name.

One file per result in the user's cache, gzipped JSON, written whole or not at all; a damaged one
counts as absent. Sources of the flow are part of the content, so a changed recipe finds nothing.
"""

import gzip
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["cache_folder", "content_key", "keep", "kept", "kept_or_made", "kept_path", "source_of"]


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME`` or ``~/.cache``, tilewright/results."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tilewright" / "results"


def content_key(ingredients: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in ingredients:
        # Each part hashed alone: ("ab", "c") is not ("a", "bc").
        digest.update(hashlib.sha256(text.encode()).digest())
    return digest.hexdigest()[:40]


def kept(key: str) -> Any | None:
    """The result under ``key``, or None."""
    try:
        return json.loads(gzip.decompress(kept_path(key).read_bytes()))
    except (OSError, EOFError, zlib.error, ValueError):
        return None


def keep(key: str, result: Any) -> None:
    path = kept_path(key)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(gzip.compress(json.dumps(result).encode(), compresslevel=1))
    os.replace(partial, path)


def kept_path(key: str) -> Path:
    return cache_folder() / f"{key}.json.gz"


def kept_or_made(ingredients: Iterable[str], make: Callable[[], Any]) -> Any:
    """``make()``, plain JSON data, unless it is kept from an earlier run."""
    key = content_key(ingredients)
    result = kept(key)
    if result is None:
        result = make()
        keep(key, result)
    return result


@cache
def source_of(*modules: str) -> str:
    """Source text of ``modules``, for what a result depends on beside its input."""
    files = (import_module(name).__file__ for name in modules)
    return "\n".join(Path(file).read_text() for file in files if file)
