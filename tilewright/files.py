"""Writing so that an interruption leaves the old file or the new one, never half of either."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replace_directory", "write_atomic"]


def write_atomic(path: str | Path, content: str | bytes) -> None:
    """Write ``content`` (text as UTF-8, newlines as they are) to ``path``, folders made."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o666 & ~_umask())  # mkstemp gives the owner alone access
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


@contextmanager
def replace_directory(path: str | Path) -> Iterator[Path]:
    """Fill the folder this yields; it takes the place of ``path`` when the block ends well.

    What was in ``path`` before is gone then. A ``path`` that is not a folder is refused.
    """
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is not a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        fresh.chmod(0o777 & ~_umask())
        yield fresh
        if path.exists():
            # A folder cannot be replaced in one step: the old one steps aside first.
            old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
            os.replace(path, old / path.name)
            os.replace(fresh, path)
            shutil.rmtree(old)
        else:
            os.replace(fresh, path)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
