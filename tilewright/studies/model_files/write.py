"""Writing a model file tensor by tensor; its name says which format."""

import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.base.files import open_atomic
from tilewright.golden.tensorfile import DTYPE_BITS, TensorFileWriter
from tilewright.studies.model_files.npz import DTYPES
from tilewright.studies.model_files.safetensors import TO_FLOAT

__all__ = ["ModelWriter", "create_model"]

NUMPY_DTYPES = {name: np.dtype(numpy).newbyteorder("<") for numpy, name in DTYPES.items()}
Pieces = Iterable[NDArray]  # a tensor's bytes in order, arrays of any shape


class ModelWriter(ABC):
    """Takes the tensors of a new model, one after the other."""

    @abstractmethod
    def add(self, name: str, dtype: str, shape: tuple[int, ...], pieces: Pieces) -> None:
        """Add a tensor of safetensors' type ``dtype``, whose bytes come in pieces."""


@contextmanager
def create_model(path: Path, tensors: Iterable[tuple[str, int]]) -> Iterator[ModelWriter]:
    """A writer for ``path``, which comes into being when the block ends well.

    ``tensors`` are the names and numbers of dimensions of what will be added.
    """
    if path.suffix == ".npz":
        with open_atomic(path) as file, zipfile.ZipFile(file, "w") as archive:
            yield _NpzWriter(archive)
    elif path.suffix == ".safetensors":
        with open_atomic(path) as file:
            writer = _SafetensorsWriter(file, tensors)
            yield writer
            writer.close()
    else:
        raise CommandError(f"{path}: a model is written to .npz or .safetensors")


class _SafetensorsWriter(ModelWriter):
    def __init__(self, file: BinaryIO, tensors: Iterable[tuple[str, int]]):
        self._writer = TensorFileWriter(file, tensors, metadata_room=64)

    def add(self, name: str, dtype: str, shape: tuple[int, ...], pieces: Pieces) -> None:
        region = self._writer.region(name, dtype, shape)
        for piece in pieces:
            region.write(piece)

    def close(self) -> None:
        self._writer.close({"format": "np"})


class _NpzWriter(ModelWriter):
    """What numpy has no type for - bf16 and 8-bit floats - becomes float32, exactly."""

    def __init__(self, archive: zipfile.ZipFile):
        self._archive = archive

    def add(self, name: str, dtype: str, shape: tuple[int, ...], pieces: Pieces) -> None:
        if dtype not in DTYPE_BITS:
            raise CommandError(f"tensor {name}: a .npz file cannot hold {dtype}")
        numpy_dtype = NUMPY_DTYPES.get(dtype, np.dtype("<f4"))
        header = {
            "descr": np.lib.format.dtype_to_descr(numpy_dtype),
            "fortran_order": False,
            "shape": shape,
        }
        # ZipInfo's default date keeps equal models equal as files.
        with self._archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
            np.lib.format.write_array_header_2_0(member, header)
            written = 0
            for piece in pieces:
                elements = piece.reshape(-1)
                if dtype not in NUMPY_DTYPES:
                    elements = TO_FLOAT[dtype](elements.view(np.uint8)).astype("<f4")
                member.write(elements.view(np.uint8).data)
                written += elements.nbytes
        if written != prod(shape) * numpy_dtype.itemsize:
            raise CommandError(f"tensor {name}: {written} bytes for shape {list(shape)}")
