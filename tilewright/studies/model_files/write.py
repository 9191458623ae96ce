"""Writing a model file tensor by tensor; its name says which format."""

import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.base.files import open_atomic
from tilewright.golden.tensorfile import DTYPE_BITS, TensorFileWriter
from tilewright.studies.model_files.npz import DTYPES
from tilewright.studies.model_files.safetensors import TO_FLOAT

__all__ = ["create_model"]

NUMPY_DTYPES = {name: np.dtype(numpy).newbyteorder("<") for numpy, name in DTYPES.items()}
Pieces = Iterable[NDArray]  # a tensor's bytes in order, arrays of any shape
Add = Callable[[str, str, tuple[int, ...], Pieces], None]  # name, safetensors' type, shape, bytes


@contextmanager
def create_model(path: Path, tensors: Iterable[tuple[str, int]]) -> Iterator[Add]:
    """A function that adds a tensor to ``path``, which is created when the block ends well.

    ``tensors`` are the names and numbers of dimensions of what will be added.
    """
    if path.suffix == ".npz":
        with open_atomic(path) as file, zipfile.ZipFile(file, "w") as archive:
            yield partial(_add_npz, archive)
    elif path.suffix == ".safetensors":
        with open_atomic(path) as file:
            writer = TensorFileWriter(file, tensors, metadata_room=64)
            yield partial(_add_safetensors, writer)
            writer.close({"format": "np"})
    else:
        raise CommandError(f"{path}: a model is written to .npz or .safetensors")


def _add_safetensors(
    writer: TensorFileWriter, name: str, dtype: str, shape: tuple[int, ...], pieces: Pieces
) -> None:
    region = writer.region(name, dtype, shape)
    for piece in pieces:
        region.write(piece)


def _add_npz(
    archive: zipfile.ZipFile, name: str, dtype: str, shape: tuple[int, ...], pieces: Pieces
) -> None:
    """bf16 and 8-bit floats, which numpy lacks, become float32, exactly."""
    if dtype not in DTYPE_BITS:
        raise CommandError(f"tensor {name}: a .npz file cannot hold {dtype}")
    numpy_dtype = NUMPY_DTYPES.get(dtype, np.dtype("<f4"))
    header = {
        "descr": np.lib.format.dtype_to_descr(numpy_dtype),
        "fortran_order": False,
        "shape": shape,
    }
    # ZipInfo's default date keeps equal models equal as files.
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
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
