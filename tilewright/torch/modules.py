"""A converted model's recipe and attention modules, for formats and for smoothing factors."""

from __future__ import annotations

import torch

from tilewright.torch.recipe import Recipe

STATE = "_tilewright"  # attribute of a converted model


class ModuleError(ValueError):
    """A module that a format cannot be put into; the text is one line that begins with its name."""

    def __init__(self, name: str, problem: str):
        super().__init__(f"{name}: {problem}")


def recipe_of(model: torch.nn.Module) -> Recipe:
    """The recipe that was applied to a model."""
    state = getattr(model, STATE, None)
    if state is None:
        raise ValueError(f"{type(model).__name__}: no format was put in")
    return state["recipe"]


def attention_modules(model: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """Modules that call Transformers' attention interface."""
    found = {
        name: module
        for name, module in model.named_modules()
        if hasattr(module, "layer_idx") and hasattr(module, "is_causal")
    }
    if not found or not hasattr(model, "set_attn_implementation"):
        raise ModuleError(
            type(model).__name__,
            "Harmonia's attention needs a model of Transformers whose attention is exchangeable",
        )
    return found
