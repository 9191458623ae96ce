"""The safetensors container, read and written piece by piece.

Layout, as published with the safetensors package: 8 bytes of header length, little-endian; a JSON
header, padded with spaces, of name -> {dtype, shape, data_offsets} and ``__metadata__``; then the
tensors' bytes without holes. That package handles whole tensors, and needs all of them at once to
write a file; models larger than memory pass through here instead.
"""

import json
import os
from collections.abc import Iterable
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

METADATA = "__metadata__"
MAX_HEADER_BYTES = 100_000_000  # what the safetensors package accepts
ALIGNMENT = 64  # of the first tensor, and of every one whose writer asks for it

DTYPE_BITS = {
    **{"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8},
    **{"I64": 64, "I32": 32, "I16": 16, "I8": 8, "U64": 64, "U32": 32, "U16": 16, "U8": 8},
    "BOOL": 8,
}

Bytes = bytes | NDArray  # arrays are contiguous


class TensorFileError(ValueError):
    """An invalid file; the text begins with its path."""


class Entry(NamedTuple):
    """One tensor of a file; ``start`` and ``stop`` are byte positions in it."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


class TensorFile:
    """A safetensors file open for reading: names and shapes at once, bytes when asked for."""

    entries: dict[str, Entry]
    metadata: dict[str, str]

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._file = open(self.path, "rb")  # noqa: SIM115 - closed by close()
        try:
            self.entries, self.metadata = self._read_header()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[np.uint8]:
        """Bytes [start, stop) of a tensor."""
        entry = self.entries[name]
        size = entry.stop - entry.start
        stop = size if stop is None else stop
        if not 0 <= start <= stop <= size:
            raise ValueError(f"{name} has no bytes {start} to {stop}, only {size}")
        self._file.seek(entry.start + start)
        content = np.empty(stop - start, np.uint8)
        if self._file.readinto(content.data) != len(content):
            raise TensorFileError(f"{self.path}: truncated while it was read")
        return content

    def _read_header(self) -> tuple[dict[str, Entry], dict[str, str]]:
        size = os.fstat(self._file.fileno()).st_size
        if size < 8:
            raise TensorFileError(f"{self.path}: no safetensors file: it has {size} bytes")
        length = int.from_bytes(self._file.read(8), "little")
        if length > min(size - 8, MAX_HEADER_BYTES):
            raise TensorFileError(
                f"{self.path}: no safetensors file, or a truncated one:"
                f" a header of {length} bytes in a file of {size}"
            )
        try:
            header = json.loads(self._file.read(length).decode())
            if not isinstance(header, dict):
                raise ValueError("no object")
            metadata = header.pop(METADATA, {})
            first = 8 + length
            entries = {name: _entry(value, first) for name, value in header.items()}
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise TensorFileError(f"{self.path}: no safetensors header: {error}") from None
        self._check_extents(entries, first, size)
        return entries, metadata

    def _check_extents(self, entries: dict[str, Entry], first: int, size: int) -> None:
        position = first
        for name, entry in sorted(entries.items(), key=lambda item: item[1].start):
            if entry.start != position or entry.stop < entry.start:
                raise TensorFileError(f"{self.path}: tensor {name} does not follow the one before")
            bits = DTYPE_BITS.get(entry.dtype)
            if bits is not None and bits * prod(entry.shape) != 8 * (entry.stop - entry.start):
                raise TensorFileError(
                    f"{self.path}: tensor {name}, {entry.dtype} of shape {list(entry.shape)},"
                    f" cannot have {entry.stop - entry.start} bytes"
                )
            position = entry.stop
        if position > size:
            raise TensorFileError(f"{self.path}: truncated: {position - size} bytes are missing")
        if position < size:
            raise TensorFileError(f"{self.path}: {size - position} bytes after the last tensor")


def _entry(value: dict[str, Any], first: int) -> Entry:
    start, stop = value["data_offsets"]
    return Entry(str(value["dtype"]), tuple(map(int, value["shape"])), first + start, first + stop)


class Region:
    """A tensor being written; bytes are given in order and hashed on the way."""

    def __init__(self, writer: "TensorFileWriter", start: int, length: int | None):
        self._writer, self.start, self._length = writer, start, length
        self.size = 0  # bytes written, padding not counted
        self._hash = sha256()

    def write(self, content: Bytes) -> None:
        if isinstance(content, bytes):
            view = memoryview(content)
        else:
            view = content.reshape(-1).view(np.uint8).data
        if self._length is not None and self.size + len(view) > self._length:
            raise ValueError(f"{self.size + len(view)} bytes for a tensor of {self._length}")
        self._writer.put(self.start + self.size, view)
        self._hash.update(view)
        self.size += len(view)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


class TensorFileWriter:
    """Writes a safetensors file piece by piece.

    The header precedes the bytes but is known last, so room is reserved for it: ``expected`` are
    the names and numbers of dimensions of all possible tensors, ``metadata_room`` the most bytes of
    ``__metadata__``.
    """

    def __init__(self, file: BinaryIO, expected: Iterable[tuple[str, int]], metadata_room: int = 0):
        self._file = file
        # An entry's fixed text and two offsets of 20 digits fit 128 bytes, a dimension 22.
        room = sum(len(json.dumps(name)) + 128 + 22 * dims for name, dims in expected)
        room += metadata_room + 32
        self._first = -(-(8 + room) // ALIGNMENT) * ALIGNMENT
        self._end = self._first
        self._header: dict[str, Any] = {}
        self._open: tuple[str, Region] | None = None

    def region(self, name: str, dtype: str, shape: tuple[int, ...]) -> Region:
        """A new tensor of known size, after all others."""
        length = DTYPE_BITS[dtype] * prod(shape) // 8
        return self._add(name, dtype, shape, length)

    def open_region(self, name: str) -> Region:
        """A new tensor of bytes that ends where the next one begins, on a multiple of 64."""
        region = self._add(name, "U8", (), None)
        self._open = name, region
        return region

    def put(self, position: int, content: memoryview) -> None:
        self._file.seek(position)
        self._file.write(content)

    def close(self, metadata: dict[str, str]) -> None:
        """Write the header; the file is complete then."""
        self._close_open_region()
        header = json.dumps({METADATA: metadata, **self._header}, separators=(",", ":")).encode()
        room = self._first - 8
        if len(header) > room:
            raise ValueError(f"a header of {len(header)} bytes does not fit the {room} kept for it")
        self._file.truncate(self._end)
        self._file.seek(0)
        self._file.write(room.to_bytes(8, "little") + header.ljust(room))

    def _add(self, name: str, dtype: str, shape: tuple[int, ...], length: int | None) -> Region:
        self._close_open_region()
        if name in self._header:
            raise ValueError(f"two tensors are called {name}")
        region = Region(self, self._end, length)
        self._end += length or 0
        self._header[name] = {
            "dtype": dtype,
            "shape": list(shape),
            "data_offsets": [region.start - self._first, self._end - self._first],
        }
        return region

    def _close_open_region(self) -> None:
        if self._open is None:
            return
        name, region = self._open
        self._open = None
        length = -(-region.size // ALIGNMENT) * ALIGNMENT
        self._end = region.start + length
        start = region.start - self._first
        self._header[name].update(shape=[length], data_offsets=[start, start + length])
