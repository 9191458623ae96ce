"""Packed models: files of compressed matrices. docs/deca-format.md describes the format.

A packed model is a safetensors file. A compressed matrix NAME is up to four of its tensors, all
plain bytes that start on a multiple of 64: NAME#masks, NAME#scales, NAME#row_scales, NAME#data;
tensors that were not compressed keep their name, type and bytes. The tensor ``#manifest`` holds
JSON that describes each of them, with SHA-256 sums; a tile's address follows from its masks.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.deca.coding import CompressedTiles, data_lengths, mask_nonzeros
from tilewright.golden.deca.matrix import CompressedMatrix, compress_bands, effective_scheme
from tilewright.golden.deca.scheme import Scheme
from tilewright.golden.deca.tiles import ReadRows, band_rows, grid
from tilewright.golden.params.deca import TILE_ROWS
from tilewright.golden.tensorfile import (
    ALIGNMENT,
    Bytes,
    Region,
    TensorFile,
    TensorFileError,
    TensorFileWriter,
)

FORMAT, VERSION = "tilewright-deca", "1"
MANIFEST = "#manifest"
PARTS = ("masks", "scales", "row_scales", "data")
_METADATA_ROOM = 256


@dataclass(frozen=True)
class Part:
    """Bytes of one structure of a matrix, padding not counted."""

    size: int
    sha256: str


@dataclass(frozen=True)
class PackedTensor:
    """The manifest's entry of one tensor of the model; ``scheme`` None: not compressed."""

    name: str
    dtype: str  # of the model it came from
    shape: tuple[int, ...]
    scheme: Scheme | None
    nonzeros: int  # weights that are stored
    parts: dict[str, Part]

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """Rows and columns it was compressed as."""
        return as_matrix(self.shape)

    @property
    def size(self) -> int:
        """Bytes it takes, padding not counted."""
        return sum(part.size for part in self.parts.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as JSON data."""
        entry: dict[str, Any] = {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}
        if self.scheme is not None:
            entry |= {"scheme": self.scheme.name, "nonzeros": self.nonzeros}
        parts = {n: {"bytes": part.size, "sha256": part.sha256} for n, part in self.parts.items()}
        return entry | {"parts": parts}


def as_matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """A tensor's rows and columns: the last dimension is the columns, all others the rows."""
    return prod(shape[:-1]), shape[-1]


class PackedWriter:
    """Writes a packed model tensor by tensor, holding one band of one tensor at a time.

    ``names`` are the names and dimensions of all tensors to come. Compressed ones should come
    before kept ones, so that their parts start on a multiple of 64.
    """

    def __init__(self, file: BinaryIO, names: Iterable[tuple[str, int]]):
        expected = [(MANIFEST, 1)]
        for name, dims in names:
            expected += [(name, dims), *((f"{name}#{part}", 1) for part in PARTS)]
        self._writer = TensorFileWriter(file, expected, _METADATA_ROOM)
        self._tensors: list[PackedTensor] = []

    def compress(
        self,
        name: str,
        dtype: str,
        shape: tuple[int, ...],
        read_rows: ReadRows,
        scheme: Scheme,
        density: float | None = None,
    ) -> PackedTensor:
        """Compress the tensor whose rows ``read_rows`` gives; see ``compress_bands``."""
        matrix = as_matrix(shape)
        scheme = effective_scheme(scheme, density)
        regions = self._regions(name, scheme, matrix)
        nonzeros = 0 if scheme.config.sparse else prod(shape)
        for band in compress_bands(scheme, matrix, read_rows, density):
            nonzeros += int(np.bitwise_count(band.tiles.masks).sum())
            contents = {"masks": band.tiles.masks, "scales": band.tiles.scales}
            contents["data"] = band.tiles.data
            if band.row_scales is not None:
                contents["row_scales"] = band.row_scales.astype("<f4").view(np.uint8)
            for part, region in regions.items():
                region.write(contents[part])
        parts = {part: Part(region.size, region.sha256) for part, region in regions.items()}
        return self._note(PackedTensor(name, dtype, shape, scheme, nonzeros, parts))

    def keep(
        self, name: str, dtype: str, shape: tuple[int, ...], content: Iterable[Bytes]
    ) -> PackedTensor:
        """Store a tensor's bytes unchanged."""
        region = self._writer.region(name, dtype, shape)
        for piece in content:
            region.write(piece)
        parts = {"content": Part(region.size, region.sha256)}
        return self._note(PackedTensor(name, dtype, shape, None, prod(shape), parts))

    def close(self, about: dict[str, Any] | None = None) -> None:
        """Write manifest and header; the file is complete then. ``about``: JSON of the model."""
        manifest: dict[str, Any] = {} if about is None else {"model": about}
        manifest |= {
            "schemes": {t.scheme.name: t.scheme.as_dict() for t in self._tensors if t.scheme},
            "tensors": [tensor.as_dict() for tensor in self._tensors],
        }
        content = json.dumps(manifest, separators=(",", ":")).encode()
        region = self._writer.open_region(MANIFEST)
        region.write(content + b" " * (-len(content) % ALIGNMENT))
        self._writer.close({"format": FORMAT, "version": VERSION, "manifest_sha256": region.sha256})

    def _regions(self, name: str, scheme: Scheme, shape: tuple[int, int]) -> dict[str, Region]:
        config = scheme.config
        down, along = grid(config, shape)
        sizes = {
            "masks": down * along * config.mask_bytes,
            "scales": down * along * config.scale_bytes,
            "row_scales": 4 * shape[0] if config.int8 else 0,
        }
        regions = {}
        for part, size in sizes.items():
            if size:
                padded = -(-size // ALIGNMENT) * ALIGNMENT
                regions[part] = self._writer.region(f"{name}#{part}", "U8", (padded,))
        regions["data"] = self._writer.open_region(f"{name}#data")
        return regions

    def _note(self, tensor: PackedTensor) -> PackedTensor:
        self._tensors.append(tensor)
        return tensor


class PackedModel:
    """A packed model open for reading; what is read to its end is checked against its sums."""

    tensors: dict[str, PackedTensor]
    about: dict[str, Any] | None  # JSON of the model, where the file has it

    def __init__(self, path: str | Path):
        self._file = TensorFile(path)
        try:
            self.tensors = self._read_manifest()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @property
    def path(self) -> Path:
        return self._file.path

    def bands(self, name: str) -> Iterator[CompressedMatrix]:
        """A compressed matrix from the top down, in bands that fit the caches."""
        tensor = self.tensors[name]
        if tensor.scheme is None:
            raise ValueError(f"tensor {name} is not compressed")
        config = tensor.scheme.config
        rows, columns = tensor.matrix_shape
        _, along = grid(config, (rows, columns))
        step = band_rows(config, (rows, columns))
        parts = {part: _PartReader(self._file, tensor, part) for part in tensor.parts}
        for top in range(0, rows, step):
            height = min(step, rows - top)
            tiles = -(-height // TILE_ROWS) * along
            masks = _read(parts, "masks", tiles * config.mask_bytes).reshape(tiles, -1)
            scales = _read(parts, "scales", tiles * config.scale_bytes).reshape(tiles, -1)
            lengths = data_lengths(config, mask_nonzeros(config, masks))
            data = parts["data"].read(int(lengths.sum()))
            row_scales = None
            if config.int8:
                row_scales = parts["row_scales"].read(4 * height).view("<f4")
            compressed = CompressedTiles(config, masks, scales, data, lengths)
            yield CompressedMatrix(tensor.scheme, (height, columns), compressed, row_scales)
        for part in parts.values():
            part.check()

    def matrix(self, name: str) -> CompressedMatrix:
        """A whole compressed matrix."""
        return CompressedMatrix.join(self.bands(name), self.tensors[name].matrix_shape)

    def kept(self, name: str) -> Iterator[NDArray[np.uint8]]:
        """The bytes of a tensor that was not compressed, in pieces."""
        part = _PartReader(self._file, self.tensors[name], "content")
        while part.left:
            yield part.read(min(part.left, 1 << 20))
        part.check()

    def _read_manifest(self) -> dict[str, PackedTensor]:
        path, metadata = self._file.path, self._file.metadata
        if metadata.get("format") != FORMAT:
            raise TensorFileError(f"{path}: no packed model: tilewright pack makes one of it")
        if metadata.get("version") != VERSION:
            raise TensorFileError(
                f"{path}: packed model of version {metadata.get('version')}, not {VERSION}"
            )
        try:
            content = self._file.read(MANIFEST).tobytes()
            if sha256(content).hexdigest() != metadata["manifest_sha256"]:
                raise ValueError("its checksum does not match")
            manifest = json.loads(content.decode())
            schemes = {name: Scheme.from_dict(d) for name, d in manifest["schemes"].items()}
            tensors = [_tensor(entry, schemes) for entry in manifest["tensors"]]
            self.about = manifest.get("model")
            for tensor in tensors:
                _check_sizes(tensor, self._file)
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise TensorFileError(f"{path}: damaged manifest: {error}") from None
        return {tensor.name: tensor for tensor in tensors}


def _tensor(entry: dict[str, Any], schemes: dict[str, Scheme]) -> PackedTensor:
    shape = tuple(map(int, entry["shape"]))
    scheme = schemes[entry["scheme"]] if "scheme" in entry else None
    parts = {
        name: Part(int(part["bytes"]), str(part["sha256"])) for name, part in entry["parts"].items()
    }
    nonzeros = int(entry.get("nonzeros", prod(shape)))
    return PackedTensor(entry["name"], entry["dtype"], shape, scheme, nonzeros, parts)


def _check_sizes(tensor: PackedTensor, file: TensorFile) -> None:
    """Refuse a manifest that asks for bytes its file does not have."""
    for part, content in tensor.parts.items():
        entry = file.entries[_stored_name(tensor, part)]
        if not 0 <= content.size <= entry.stop - entry.start:
            raise ValueError(f"{tensor.name} has no {content.size} bytes of {part}")


def _stored_name(tensor: PackedTensor, part: str) -> str:
    return tensor.name if tensor.scheme is None else f"{tensor.name}#{part}"


def _read(parts: dict[str, "_PartReader"], part: str, size: int) -> NDArray[np.uint8]:
    """``size`` bytes, or none where the scheme has no such part."""
    return parts[part].read(size) if size else np.zeros(0, np.uint8)


class _PartReader:
    """Reads a part from its start to its end and checks its sum there."""

    def __init__(self, file: TensorFile, tensor: PackedTensor, part: str):
        self._file, self._tensor, self._part = file, tensor, part
        self._content = tensor.parts[part]
        self._position = 0
        self._hash = sha256()

    @property
    def left(self) -> int:
        return self._content.size - self._position

    def read(self, size: int) -> NDArray[np.uint8]:
        if size > self.left:
            self._refuse(f"{size - self.left} bytes too short for its tiles")
        stop = self._position + size
        content = self._file.read(_stored_name(self._tensor, self._part), self._position, stop)
        self._position = stop
        self._hash.update(content.data)
        return content

    def check(self) -> None:
        if self.left:
            self._refuse(f"{self.left} bytes too long for its tiles")
        if self._hash.hexdigest() != self._content.sha256:
            self._refuse("damaged: its checksum does not match")

    def _refuse(self, what: str) -> None:
        where = f"{self._file.path}: tensor {self._tensor.name}"
        raise TensorFileError(f"{where}: {self._part} {what}")
