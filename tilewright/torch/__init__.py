"""The papers' number formats in PyTorch models, equal to the golden models bit for bit.

``quantize_(model, AndaConfig(7, 6, 7, 7))`` puts a format into a model in place, ``restore_`` takes
it out. Configurations and recipes need no PyTorch; everything else is imported when it is first
asked for, and then needs ``pip install 'tilewright[torch]'``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilewright.torch.config import AndaConfig, DecaConfig, FormatConfig, HarmoniaConfig
from tilewright.torch.recipe import Recipe, RecipeError

if TYPE_CHECKING:
    from tilewright.torch.cache import HarmoniaCache
    from tilewright.torch.convert import to_block_float
    from tilewright.torch.likelihood import loglikelihoods, perplexity
    from tilewright.torch.modules import ModuleError, recipe_of
    from tilewright.torch.quantize import quantize_, restore_
    from tilewright.torch.smoothing import learn_factors, smooth_

_LAZY = {
    "HarmoniaCache": "cache",
    "ModuleError": "modules",
    "learn_factors": "smoothing",
    "loglikelihoods": "likelihood",
    "perplexity": "likelihood",
    "quantize_": "quantize",
    "recipe_of": "modules",
    "restore_": "quantize",
    "smooth_": "smoothing",
    "to_block_float": "convert",
}
__all__ = ["AndaConfig", "DecaConfig", "FormatConfig", "HarmoniaCache", "HarmoniaConfig"]
__all__ += ["ModuleError", "Recipe", "RecipeError", "learn_factors", "loglikelihoods", "perplexity"]
__all__ += ["quantize_", "recipe_of", "restore_", "smooth_", "to_block_float"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"tilewright.torch.{_LAZY[name]}")
    except ModuleNotFoundError as error:
        if error.name in ("torch", "transformers"):
            raise ModuleNotFoundError(
                f"{name} needs {error.name}: pip install 'tilewright[torch]'", name=error.name
            ) from None
        raise
    return getattr(module, name)
