"""The sources that a test file reaches by its imports, and a key of their code.

Imports are read from the syntax trees, everywhere in a file, and followed inside the checkout. An
import of a package reaches its ``__init__`` and no further. Data files that code reads while it
runs are not seen: a record that changes does not make a test's outcome old, nor does another
comment or docstring.
"""

import ast
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.base.cache import get_or_make, source_of
from tilewright.base.code import code_of

__all__ = ["sources_key", "sources_of"]

# What lies at the top of the checkout and is imported as a part of tilewright.
INSIDE = ("golden", "hw", "sim", "synth")
OURS = ("tilewright", "tests", "benchmarks")


def sources_of(test: str, root: Path) -> list[Path]:
    """Every source below ``root`` that ``test``, a path such as tests/FILE.py, reaches."""
    first = root / test
    if not first.is_file():
        raise ValueError(f"{test} is no file of {root}")
    found, ahead = {first}, [first]
    while ahead:
        for path in _imported(ahead.pop(), root) - found:
            found.add(path)
            ahead.append(path)
    return sorted(found)


def sources_key(test: str, root: Path) -> str:
    """A key of what a test file reaches: other code or other files give another key."""
    digest = hashlib.sha256()
    for path in sources_of(test, root):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(_parsed(path.read_text(encoding="utf-8"))["code"].encode())
    return digest.hexdigest()[:16]


@cache
def _imported(path: Path, root: Path) -> frozenset[Path]:
    names = _parsed(path.read_text(encoding="utf-8"))["imports"]
    return frozenset().union(*(_files(name, root) for name in names))


@cache  # many test files reach the same sources
def _parsed(text: str) -> dict[str, Any]:
    """Names that a source imports, and its code; some seconds for all, so they are kept on disk."""

    def make() -> dict[str, Any]:
        return {"imports": sorted(_imports(text)), "code": code_of(text)}

    return get_or_make(("imports and code", text, source_of(__name__, code_of.__module__)), make)


def _imports(text: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@cache  # most modules are imported by many others
def _files(module: str, root: Path) -> frozenset[Path]:
    """The source of a module of ours, and those of the packages that it lies in."""
    parts = module.split(".")
    if parts[0] not in OURS:
        return frozenset()
    found = set()
    for count in range(1, len(parts) + 1):
        inner = parts[:count]
        is_inside = inner[0] == "tilewright" and "".join(inner[1:2]) in INSIDE
        place = inner[1:] if is_inside else inner
        path = root.joinpath(*place)
        found |= {p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()}
    return frozenset(found)
