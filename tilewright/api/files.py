"""Files that the project wrote, opened by what they contain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.api.models import CompiledLLM
    from tilewright.api.weights import PackedWeights
    from tilewright.torch.recipe import Recipe


def load(path: str | Path) -> CompiledLLM | PackedWeights | Recipe:
    """Open a compiled model's folder, a packed ``.safetensors`` file or a ``.toml`` recipe.

    Examples
    --------
    >>> import tilewright as tw
    >>> tiny = tw.compile("tiny-llama", on="harmonia:small", context=32)
    >>> tw.load(tiny.folder.path).folder.manifest["target"]
    'harmonia:small'
    """
    path = Path(path)
    if (path / "manifest.json").is_file():
        from tilewright.api.models import CompiledLLM
        from tilewright.compiler.folder import open_folder

        return CompiledLLM(open_folder(path))
    if path.suffix == ".safetensors":
        from tilewright.api.weights import PackedWeights
        from tilewright.golden.deca.packed import PackedModel

        return PackedWeights(path, PackedModel(path))
    if path.suffix == ".toml":
        from tilewright.torch.recipe import Recipe

        return Recipe.load(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    raise ValueError(
        f"{path} is no folder of tilewright compile, packed .safetensors file or .toml recipe"
    )
