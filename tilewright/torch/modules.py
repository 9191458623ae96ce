"""A model's modules: the recipe of a converted model, its attention, and where weights are.

``accelerate`` spreads a model that exceeds a GPU's memory: a hook on a module loads its weights,
calls the module's ``forward`` as of the time of hooking, and unloads the weights again. In between
the module has a weight without content.
"""

from __future__ import annotations

from typing import Any

import torch

from tilewright.torch.recipe import Recipe

STATE = "_tilewright"  # attribute of a converted model


class ModuleError(ValueError):
    """A module that a format cannot be put into; the text is one line that begins with its name."""

    def __init__(self, name: str, problem: str):
        super().__init__(f"{name}: {problem}")


def recipe_of(model: torch.nn.Module) -> Recipe:
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


def weight_of(module: Any) -> torch.Tensor:
    """The weight of a module, or the one its hook would load; without content if there is none."""
    weight: torch.Tensor = module.weight.detach()
    if weight.is_meta:
        for hook in _hooks(module):
            kept = getattr(hook, "weights_map", None)
            if kept is not None:
                return torch.as_tensor(kept["weight"])
    return weight


def device_of(model: Any) -> torch.device:
    """The device on which a module computes, or a model its input."""
    for parameter in model.parameters():
        if not parameter.is_meta:
            return torch.device(parameter.device)
    for module in model.modules():
        for hook in _hooks(module):
            device = getattr(hook, "execution_device", None)
            if device is not None:
                return torch.device(device)
    return torch.device("meta")


def call_through(module: Any, kind: type[torch.nn.Module]) -> None:
    """Let a module's hook, if it has one, call the ``forward`` of ``kind`` from now on."""
    if "_old_forward" in module.__dict__:
        module._old_forward = kind.forward.__get__(module)


def _hooks(module: Any) -> list[Any]:
    hook = getattr(module, "_hf_hook", None)
    return [] if hook is None else list(getattr(hook, "hooks", (hook,)))
