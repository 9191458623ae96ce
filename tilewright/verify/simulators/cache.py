"""Build results kept by content: what they were made from is their name.

An entry is a folder that appears complete or not at all. Processes that need the same entry at
the same time wait for the first of them.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["cache_folder", "cached"]

UNUSED_SECONDS = 30 * 24 * 3600  # an entry not used for a month goes


def cache_folder() -> Path:
    """Where built simulators are kept: ``$XDG_CACHE_HOME`` or ``~/.cache``, tilewright/sim."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tilewright" / "sim"


def cached(ingredients: Iterable[str], make: Callable[[Path], None]) -> Path:
    """The folder that ``make(folder)`` fills, made once per list of ``ingredients``."""
    digest = hashlib.sha256()
    for text in ingredients:
        # Each part hashed alone: ("ab", "c") is not ("a", "bc").
        digest.update(hashlib.sha256(text.encode()).digest())
    root = cache_folder()
    entry = root / digest.hexdigest()[:32]
    if not entry.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        with _lock(entry.with_suffix(".lock")):
            if not entry.is_dir():
                _remove_unused(root)
                _make(entry, make)
    os.utime(entry)  # the time of the last use
    return entry


def _make(entry: Path, make: Callable[[Path], None]) -> None:
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


def _remove_unused(root: Path) -> None:
    limit = time.time() - UNUSED_SECONDS
    for path in root.iterdir():
        try:
            if path.stat().st_mtime < limit:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        except FileNotFoundError:
            pass  # another process was faster
