"""Model files as the commands see them: named tensors, read a few rows at a time.

One module per file format, each with ``open_tensors(path)``: a context manager that yields the
tensors. They are imported on demand, so a missing optional package matters only then.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.deca.tiles import ReadRows
from tilewright.golden.llm.load import NAMES, load_model
from tilewright.golden.llm.model import Model, ModelError

__all__ = ["READERS", "Tensor", "Tensors", "known_model", "open_model"]


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


def known_model(text: str) -> Model | None:
    """The model of a name, a folder or a GGUF file, its layers lazy; None of other families."""
    if text not in NAMES and not Path(text).is_dir() and not text.endswith(".gguf"):
        return None
    try:
        return load_model(text, lazy=True)
    except ModelError:
        if text in NAMES:
            raise
        return None


def open_model(text: str) -> AbstractContextManager[Tensors]:
    """The tensors of a model: a file, a Hugging Face folder, a name of ``golden.llm.load.NAMES``.

    Or of ``synthetic:ROWSxCOLUMNS[:SEED]``, a matrix of random numbers.
    """
    if text.startswith(SYNTHETIC):
        from tilewright.studies.model_files import synthetic

        return synthetic.open_tensors(text)
    path = Path(text)
    if text in NAMES or path.suffix == ".gguf":
        model = known_model(text)
        if model is not None:
            from tilewright.studies.model_files.named import tensors_of

            return nullcontext(tensors_of(model))
    if path.is_dir():
        from tilewright.studies.model_files import safetensors

        return safetensors.open_tensors(path)
    if path.suffix not in READERS:
        known = ", ".join(READERS)
        raise CommandError(
            f"{text}: a model is a folder, a file that ends in {known}, or {', '.join(NAMES)}"
        )
    if not path.is_file():
        raise CommandError(f"{text}: no such file")
    return import_module(f"tilewright.studies.model_files.{READERS[path.suffix]}").open_tensors(
        path
    )
