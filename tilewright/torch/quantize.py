"""``quantize_`` and ``restore_``: formats put into a model in place, and taken out again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch

from tilewright.torch.attention import (
    IMPLEMENTATION,
    SETTINGS,
    attention_forward,
    register_attention,
)
from tilewright.torch.config import (
    CONFIGS,
    KIND_OF_NAME,
    KINDS,
    Config,
    HarmoniaConfig,
    LinearFormat,
)
from tilewright.torch.linear import FormatLinear, convert_linear, restore_linear, weights_problem
from tilewright.torch.modules import STATE, ModuleError, attention_modules
from tilewright.torch.recipe import Factors, Recipe, RecipeError
from tilewright.torch.smoothing import apply_factors


def quantize_(
    model: torch.nn.Module,
    config: Config | Recipe,
    *,
    modules: Mapping[str, str] | None = None,
    skip: Collection[str] = (),
    bake: bool = False,
) -> Recipe:
    """Put a format into every linear module of a model, and into its attention where it has one.

    The model is changed in place and not copied; ``restore_`` undoes it. Nothing is changed where
    anything is refused.

    Parameters
    ----------
    model
        A model of Transformers, or any module whose layers are ``torch.nn.Linear``.
    config
        An ``AndaConfig``, ``HarmoniaConfig``, ``DecaConfig`` or ``FormatConfig``; or a ``Recipe``,
        which refuses a model that it was not made for.
    modules
        Kinds (qkv, o, u, d) of modules by the last part of their names, besides those known.
    skip
        Last parts of names of modules that stay as they are. The head always does.
    bake
        Convert the weights now instead of at every call: faster, but for good.

    Returns
    -------
    The recipe: save it, and give it to ``quantize_`` to do the same again.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"the model must be a torch.nn.Module, not {type(model).__name__}")
    if not isinstance(config, (*CONFIGS.values(), Recipe)):
        names = ", ".join(kind.__name__ for kind in CONFIGS.values())
        raise TypeError(f"the configuration must be one of {names} or a Recipe, not {config!r}")
    smoothing: Mapping[str, Factors] = {}
    if isinstance(config, Recipe):
        found, settings, smoothing = _modules_of(model, config), config.config, config.smoothing
        bake = bake or config.baked
    else:
        found, settings = linear_modules(model, modules, skip), config
    for name, (kind, module) in found.items():
        _check(name, module, settings.linear(kind))
        if bake and module.weight.is_meta:
            raise ModuleError(name, "accelerate keeps the weights elsewhere: bake=False")
    attentions = attention_modules(model) if settings.attention is not None else {}
    for kind, module in found.values():
        form = settings.linear(kind)
        if form.activation is not None or form.weight is not None:
            convert_linear(module, form, bake=bake)
    previous = None
    if settings.attention is not None:
        previous = _attach(model, attentions, settings.attention)
    made = Recipe(
        model=type(model).__name__,
        config=settings,
        modules={
            name: (kind, module.out_features, module.in_features)
            for name, (kind, module) in found.items()
        },
        baked=bake,
        smoothing=smoothing,
    )
    object.__setattr__(model, STATE, {"recipe": made, "attention": previous})
    if made.smoothing:
        apply_factors(model, made.smoothing)
    return made


def restore_(model: torch.nn.Module) -> None:
    """Undo ``quantize_``: the model computes as before, with the parameters it has.

    Weights that were baked stay converted and are refused.
    """
    state = getattr(model, STATE, None)
    if state is None:
        raise ValueError(f"{type(model).__name__}: no format to take out")
    for name, module in model.named_modules():
        if isinstance(module, FormatLinear) and module.baked:
            raise ModuleError(name, "its weights were converted for good: load them again")
    for module in list(model.modules()):
        if isinstance(module, FormatLinear):
            restore_linear(module)
        if hasattr(module, SETTINGS):
            delattr(module, SETTINGS)
    if state["attention"] is not None:
        plain: Any = model
        plain.set_attn_implementation(state["attention"])
    object.__delattr__(model, STATE)


Found = dict[str, tuple[str, torch.nn.Linear]]


def linear_modules(
    model: torch.nn.Module, modules: Mapping[str, str] | None = None, skip: Collection[str] = ()
) -> Found:
    """Linear modules by name with their kinds; whatever has none is refused."""
    for name, kind in (modules or {}).items():
        if kind not in KINDS:
            raise ModuleError(name, f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    kinds = KIND_OF_NAME | dict(modules or {})
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    found: Found = {}
    for name, module in model.named_modules():
        leaf = name.rpartition(".")[2]
        if module is head or leaf in skip or not name:
            continue
        if leaf in kinds or isinstance(module, FormatLinear):
            linear = _plain(name, module)
            found[name] = (kinds[leaf], linear)
        elif isinstance(module, torch.nn.Linear):
            raise ModuleError(
                name,
                "a linear layer of no known kind: give modules={"
                f"{leaf!r}: 'qkv', 'o', 'u' or 'd'}} or skip=({leaf!r},)",
            )
        elif any(p.ndim == 3 for p in module.parameters(recurse=False)) and "expert" in name:
            raise ModuleError(name, f"{type(module).__name__} layers are not supported")
    if not found:
        raise ModuleError(type(model).__name__, "no linear layer of a known kind")
    return found


def _modules_of(model: torch.nn.Module, recipe: Recipe) -> Found:
    """The modules that a recipe names, as they are in this model."""
    if type(model).__name__ != recipe.model:
        raise RecipeError(f"the recipe is of a {recipe.model}, not of a {type(model).__name__}")
    have = dict(model.named_modules())
    found: Found = {}
    for name, (kind, outputs, inputs) in recipe.modules.items():
        module = have.get(name)
        if module is None:
            raise RecipeError(f"{name}: the recipe names it, the model has no such module")
        linear = _plain(name, module)
        shape = (linear.out_features, linear.in_features)
        if shape != (outputs, inputs):
            raise RecipeError(
                f"{name}: the recipe has {outputs} x {inputs}, the model {shape[0]} x {shape[1]}:"
                " it belongs to another model"
            )
        found[name] = (kind, linear)
    return found


def _plain(name: str, module: torch.nn.Module) -> torch.nn.Linear:
    if isinstance(module, FormatLinear):
        raise ModuleError(name, "it has a format already: restore_ the model first")
    if type(module) is not torch.nn.Linear:
        kind = type(module).__name__
        raise ModuleError(name, f"{kind} layers are not supported; torch.nn.Linear is")
    return module


def _check(name: str, module: torch.nn.Linear, form: LinearFormat) -> None:
    group = form.group
    if group is not None and module.in_features % group and not form.pad:
        raise ModuleError(
            name,
            f"{module.in_features} inputs are no multiple of the group of {group}:"
            " give a group that divides them, or pad=True",
        )
    problem = weights_problem(module, form)
    if problem is not None:
        raise ModuleError(name, problem)


def _attach(model: Any, attentions: Mapping[str, torch.nn.Module], config: HarmoniaConfig) -> str:
    """Give attention modules their settings; the name of the implementation before."""
    register_attention(IMPLEMENTATION, attention_forward)
    for module in attentions.values():
        setattr(module, SETTINGS, config)
    previous = str(model.config._attn_implementation)
    model.set_attn_implementation(IMPLEMENTATION)
    return previous
