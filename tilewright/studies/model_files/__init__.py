"""Model files as the commands see them: named tensors, read a few rows at a time.

One module per file format, each with ``open_tensors(path)``: a context manager that yields the
tensors. They are imported when a file asks for them, so a missing optional package matters only
then.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.deca.tiles import ReadRows

__all__ = ["READERS", "Tensor", "Tensors", "open_model"]


@dataclass(frozen=True)
class Tensor:
    """One tensor of a model.

    ``rows(start, stop)`` gives rows of its matrix (see ``golden.deca.packed.as_matrix``) as
    floats of any numpy type; only float tensors have it. ``raw()`` gives all its bytes in pieces,
    in the type that ``dtype`` names as safetensors does.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    rows: ReadRows | None
    raw: Callable[[], Iterator[NDArray]]


Tensors = dict[str, Tensor]

READERS = {".safetensors": "safetensors", ".gguf": "gguf"}
SYNTHETIC = "synthetic:"


def open_model(text: str) -> AbstractContextManager[Tensors]:
    """The tensors of the model file ``text``, or of ``synthetic:ROWSxCOLUMNS[:SEED]``."""
    if text.startswith(SYNTHETIC):
        from tilewright.studies.model_files import synthetic

        return synthetic.open_tensors(text)
    path = Path(text)
    if path.suffix not in READERS:
        known = ", ".join(READERS)
        raise CommandError(f"{text}: a model file ends in {known}, not {path.suffix!r}")
    if not path.is_file():
        raise CommandError(f"{text}: no such file")
    return import_module(f"tilewright.studies.model_files.{READERS[path.suffix]}").open_tensors(
        path
    )
