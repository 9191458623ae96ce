"""Writing so that an interruption leaves the old file or the new one, never half of either."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

MARK = ".written-by-tilewright"


def write_atomic(path: str | Path, content: str | bytes) -> None:
    """Write ``content`` (text as UTF-8, newlines as they are) to a ``path`` whose folder exists."""
    with open_atomic(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> list[Path]:
    """Write each file by its name in ``folder``, whole or not at all; return their paths."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / name, content)
    return [folder / name for name in files]


def require_folder(path: Path) -> None:
    """Refuse a file to be written whose folder does not exist."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(path.parent))


@contextmanager
def open_atomic(path: str | Path) -> Iterator[BinaryIO]:
    """A new file to write; it takes the place of ``path`` when the block ends well."""
    path = Path(path)
    require_folder(path)
    with _said_of(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(name, 0o666 & ~_umask())  # mkstemp gives the owner alone access
        with _said_of(path):
            os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


@contextmanager
def replace_directory(path: str | Path) -> Iterator[Path]:
    """Fill the folder this yields; it takes the place of ``path`` when the block ends well.

    The former content of ``path`` is lost, so only an empty folder or one that was written this
    way is replaced; anything else is refused.
    """
    path = Path(path).resolve()
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is not a folder")
    if path.exists() and any(path.iterdir()) and not (path / MARK).exists():
        raise FileExistsError(f"{path} holds files that are not ours to replace: name another")
    path.parent.mkdir(parents=True, exist_ok=True)
    with _said_of(path):
        fresh = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        fresh.chmod(0o777 & ~_umask())
        (fresh / MARK).write_text("This folder is replaced as a whole when it is written again.\n")
        yield fresh
        _take_place(fresh, path)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


@contextmanager
def _said_of(path: Path) -> Iterator[None]:
    """Errors about a temporary name show the name that the user gave."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _take_place(fresh: Path, path: Path) -> None:
    if not path.exists():
        os.replace(fresh, path)
        return
    # A folder with content cannot be replaced in one step: the old one is moved aside, and back if
    # the new one does not get there.
    aside = fresh.with_name(f"{fresh.name}.old")
    os.replace(path, aside)
    try:
        os.replace(fresh, path)
    except BaseException:
        os.replace(aside, path)
        raise
    shutil.rmtree(aside)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
