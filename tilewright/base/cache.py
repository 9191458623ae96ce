"""A content-addressed cache: an entry is named by what it was made from.

Entries lie in the user's cache folder and appear whole or not at all. An entry is JSON data, in one
gzipped file, or a folder; entries unused for a month are removed. Sources that decide a
result are part of what it was made from, so a changed recipe finds nothing.
"""

import fcntl
import gzip
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tilewright.base.files import write_atomic

UNUSED_SECONDS = 30 * 24 * 3600
IMPORT = re.compile(r"^ *(?:from|import) (tilewright(?:\.\w+)+)", re.MULTILINE)


def cache_folder(kind: str) -> Path:
    """Return ``$XDG_CACHE_HOME/tilewright/KIND``, by default in ``~/.cache``; it is made."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "tilewright" / kind
    with suppress(OSError):  # a read-only user finds nothing in it
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def content_key(ingredients: Iterable[str]) -> str:
    """Return the name of what is made from ``ingredients``."""
    digest = hashlib.sha256()
    for text in ingredients:
        # Each part hashed alone: ("ab", "c") is not ("a", "bc").
        digest.update(hashlib.sha256(text.encode()).digest())
    return digest.hexdigest()[:40]


# Results: JSON data.


def get_or_make(ingredients: Iterable[str], make: Callable[[], Any]) -> Any:
    """Return ``make()``, which is JSON data, from the cache where it was made before.

    Processes that need the same result at the same time wait for the first of them.
    """
    key = content_key(ingredients)
    result = load(key)
    if result is None:
        with _lock(result_path(key).with_suffix(".lock")):
            result = load(key)
            if result is None:
                result = make()
                store(key, result)
    return result


def load(key: str) -> Any | None:
    """Return the result under ``key``, or None; a damaged one counts as absent."""
    path = result_path(key)
    try:
        result = json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, zlib.error, ValueError):
        return None
    _note_use(path)
    return result


def store(key: str, result: Any) -> None:
    """Put ``result``, which is JSON data, into the cache under ``key``."""
    path = result_path(key)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, gzip.compress(json.dumps(result).encode(), compresslevel=1))
    _remove_unused(path.parent)


def result_path(key: str) -> Path:
    """Return where the result under ``key`` lies, if there is one."""
    return cache_folder("results") / f"{key}.json.gz"


# Folders: built programs.


def get_or_make_folder(kind: str, ingredients: Iterable[str], make: Callable[[Path], None]) -> Path:
    """Return the folder that ``make(folder)`` fills, from the cache where it was made before.

    Processes that need the same folder at the same time wait for the first of them.
    """
    root = cache_folder(kind)
    entry = root / content_key(ingredients)[:32]
    if not entry.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        with _lock(entry.with_suffix(".lock")):
            if not entry.is_dir():
                _remove_unused(root)
                _make_folder(entry, make)
    _note_use(entry)
    return entry


def _make_folder(entry: Path, make: Callable[[Path], None]) -> None:
    fresh = Path(tempfile.mkdtemp(dir=entry.parent, prefix=f".{entry.name}."))
    try:
        make(fresh)
        os.replace(fresh, entry)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file closes, also by a crash
        yield


def _note_use(path: Path) -> None:
    with suppress(OSError):  # a cache that can only be read
        os.utime(path)


@cache  # once per process: there may be thousands of entries
def _remove_unused(root: Path) -> None:
    limit = time.time() - UNUSED_SECONDS
    for path in root.iterdir():
        try:
            if path.stat().st_mtime < limit:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        except FileNotFoundError:
            pass  # another process was faster


@cache
def source_of(*modules: str) -> str:
    """Return the source text of ``modules``, on which a result depends besides its input."""
    files = (import_module(name).__file__ for name in modules)
    return "\n".join(Path(file).read_text() for file in files if file)


def with_imports(*modules: str) -> list[str]:
    """Return ``modules`` and all modules of this package that they import, directly or not."""
    found, waiting = set[str](), list(modules)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += IMPORT.findall("\n".join(sources_of(name)))
    return sorted(found)


def sources_of(*modules: str) -> list[str]:
    """Return the source texts of ``modules`` as they are on disk; of a package, of all in it."""
    texts = []
    for name in modules:
        spec = find_spec(name)
        assert spec is not None and spec.origin is not None
        place = Path(spec.origin)
        files = sorted(place.parent.rglob("*.py")) if place.name == "__init__.py" else [place]
        texts += [file.read_text() for file in files]
    return texts
