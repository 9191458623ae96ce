"""A memory image that is written piece by piece, each with its hash."""

import hashlib
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.folder import sha256

_PIECE = 1 << 22  # bytes of zeros that are hashed at a time


class ImageFile:
    """``lines`` lines of external memory, zero where nothing is put."""

    def __init__(self, path: Path, lines: int, line_bytes: int):
        self.size, self._line_bytes = lines * line_bytes, line_bytes
        self.tensors: list[dict[str, Any]] = []  # name, first line, bytes and hash
        self._file = path.open("wb")
        self._file.truncate(self.size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def put(self, name: str, line: int, data: NDArray[np.uint8]) -> None:
        """Write the bytes of a tensor."""
        whole = np.ascontiguousarray(data)
        self._file.seek(line * self._line_bytes)
        self._file.write(whole.data)
        self._note(name, line, len(whole), sha256(whole))

    def zeros(self, name: str, line: int) -> None:
        """Note that from ``line`` on everything is zero."""
        left = count = self.size - line * self._line_bytes
        piece, digest = bytes(_PIECE), hashlib.sha256()
        while left:
            digest.update(piece[:left])
            left -= min(left, _PIECE)
        self._note(name, line, count, digest.hexdigest())

    def _note(self, name: str, line: int, size: int, digest: str) -> None:
        self.tensors.append({"name": name, "line": line, "bytes": size, "sha256": digest})
