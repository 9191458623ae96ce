"""Sparse models: ``sparsify`` for any PyTorch model, fused layers for those of LLaMA's kind.

In a model of Hugging Face Transformers whose attention and MLP are LLaMA's, the projections of
queries, keys and values become one layer, gates and values become another that gives their product,
and norms and rotary positions become one operator each. Roundings stay where they were.
"""

# Annotations stay text, so that the documentation can be built where PyTorch is not installed.
from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from tilewright.kernels.forms import check_form
from tilewright.kernels.operators import norm, rms_norm, rotate_, turn_, turn_into_cache
from tilewright.kernels.torch_layers import SparseLinear

if TYPE_CHECKING:
    from tilewright.kernels.caches import DensePlace, SparsePlace

# Families whose attention is LLaMA's: queries, keys and values of the same input, rotary positions
# on whole heads, no norm between. Others are made sparse layer by layer.
FAMILIES = ("Llama", "Mistral", "Qwen2")

Model = TypeVar("Model", bound=nn.Module)


def sparsify(
    model: Model,
    sparsity: float | None = 0.5,
    *,
    form: str = "bf16",
    skip: Collection[str] = (),
    fuse: bool = True,
    one_call: bool = True,
) -> Model:
    """Replace every linear layer of ``model`` in place by a packed one; returns ``model``.

    Parameters
    ----------
    sparsity:
        The share of each layer's weights that becomes zero, those of least magnitude; weights that
        are zero already count. None takes the weights as they are.
    form:
        "bf16"; "int8" with one scale per output and activations quantised row by row; or a scheme
        of DECA such as "bf8" or "mxfp4".
    skip:
        Names of layers that stay. One that cannot be replaced stays too, with a warning that says
        why.
    fuse:
        Join the projections of attention and MLP where the model is of a known family.
    one_call:
        Send a token through all decoder layers of a fused model in one call, with attention of the
        library's own, whose last bits are not PyTorch's. Where that is not possible, and with
        False, it goes layer by layer, with PyTorch's attention.

    Each layer's dense weights are freed as soon as it is packed.
    """
    if sparsity is not None and not 0 <= sparsity <= 1:
        raise ValueError(f"sparsity must be 0..1, not {sparsity!r}")
    check_form(form)
    replaced = 0
    for site in list(sites(model, skip, fuse)):
        try:
            site.put(SparseLinear.of(site.layers(), sparsity, form, gated=site.gated))
        except (ValueError, TypeError) as error:
            warnings.warn(f"{site.name} stays dense: {error}", stacklevel=2)
            continue
        replaced += 1
    if fuse:
        fuse_small_steps(model, one_call=one_call)
    if replaced:
        _note(model)
    else:
        warnings.warn("no linear layer was replaced", stacklevel=2)
    return model


def _note(model: nn.Module) -> None:
    """Let ``save_pretrained`` of Transformers write all that ``from_pretrained`` needs."""
    config = getattr(model, "config", None)
    if config is None or not hasattr(model, "save_pretrained"):
        return
    from tilewright.kernels.checkpoints import SparseConfig, describe

    config.quantization_config = SparseConfig(describe(model))
    if isinstance(getattr(model, "lm_head", None), SparseLinear):
        config.tie_word_embeddings = False  # the packed head is not the embedding
        model._tied_weights_keys = None


class Site:
    """A place in a model where one or several linear layers become a packed one."""

    def __init__(self, name: str, parent: nn.Module, keys: tuple[str, ...], new: str):
        self.name, self.parent, self.keys, self.new = name, parent, keys, new

    @property
    def gated(self) -> bool:
        """Whether the new layer gives silu(gate) * value."""
        return self.new == "gate_up_proj"

    def layers(self) -> list[nn.Linear]:
        return [getattr(self.parent, key) for key in self.keys]

    def put(self, layer: SparseLinear) -> None:
        """Replace the layers by a packed one, and the parent's forward by that of the joined."""
        for key in self.keys:
            if key != self.new:  # in its place otherwise: the order of a sequence is its meaning
                delattr(self.parent, key)
        setattr(self.parent, self.new, layer)
        if len(self.keys) > 1:
            mixin = FusedMlp if self.gated else FusedAttention
            self.parent.__class__ = joined_class(mixin, type(self.parent))


def sites(model: nn.Module, skip: Collection[str] = (), fuse: bool = True) -> Iterator[Site]:
    """Every place where ``sparsify`` packs, in the order of the model."""
    for prefix, parent in model.named_modules():
        path = f"{prefix}." if prefix else ""
        taken: set[str] = set()
        for keys, new in groups_of(parent) if fuse else ():
            if not any(path + key in skip for key in keys):
                taken.update(keys)
                yield Site(path + new, parent, keys, new)
        for key, child in parent.named_children():
            if isinstance(child, nn.Linear) and key not in taken and path + key not in skip:
                yield Site(path + key, parent, (key,), key)


def groups_of(module: nn.Module) -> list[tuple[tuple[str, ...], str]]:
    """Layers of a module that may become one, and its name."""
    kind = type(module).__name__
    keys: tuple[str, ...]
    if kind in {f"{family}Attention" for family in FAMILIES}:
        keys, new = ("q_proj", "k_proj", "v_proj"), "qkv_proj"
    elif kind in {f"{family}MLP" for family in FAMILIES}:
        keys, new = ("gate_proj", "up_proj"), "gate_up_proj"
        if type(module.act_fn).__name__ not in ("SiLU", "SiLUActivation"):
            return []
        if getattr(module, "gate_proj", None) is None or module.gate_proj.out_features % 16:
            return []
    else:
        return []
    plain = all(type(getattr(module, key, None)) is nn.Linear for key in keys)
    return [(keys, new)] if plain else []


def joined_class(mixin: type[nn.Module], base: type[nn.Module]) -> type[nn.Module]:
    """``base`` with the forward of ``mixin``; always the same class."""
    known = _joined.get((mixin, base))
    if known is None:
        known = type(f"Sparse{base.__name__}", (mixin, base), {"__module__": mixin.__module__})
        _joined[mixin, base] = known
    return known


_joined: dict[tuple[type, type], type] = {}


class FusedMlp(nn.Module):
    """A gated MLP whose gates and values are one layer."""

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.gate_up_proj(x))


class FusedAttention(nn.Module):
    """LLaMA's attention with one layer for queries, keys and values."""

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute as in Transformers: the result and, from some implementations, the weights."""
        shape, dim = hidden_states.shape[:-1], self.head_dim
        keys = self.config.num_key_value_heads
        queries = keys * self.num_key_value_groups
        cosines, sines = position_embeddings
        joined = self.qkv_proj(hidden_states)
        heads = joined.view(*shape, -1, dim).transpose(1, 2)
        query = heads[:, :queries]
        place = None
        if past_key_values is not None and not torch.compiler.is_compiling():
            place = place_for(past_key_values, self.layer_idx, joined, cosines)
        if place is not None and place.rooms is not None:
            turn_into_cache(joined, cosines, sines, place.rooms, place.before)
        else:
            turn = rotate_ if torch.compiler.is_compiling() else turn_
            turn(joined, cosines, sines, queries + keys)
        plain = self.config._attn_implementation == "sdpa" and attention_mask is None
        if place is not None and plain and shape[1] == 1:
            # One token sees all before it: no mask, and none of the wrapper's checks.
            return self.o_proj(place.attend(joined, queries, dim, self.scaling)), None
        key, value = heads[:, queries : queries + keys], heads[:, queries + keys :]
        if place is not None and place.rooms is not None:
            key, value = place.filled()
        elif past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        sliding = getattr(self, "sliding_window", None)
        if sliding is not None:
            kwargs["sliding_window"] = sliding
        mixed, weights = attention_of(self.config._attn_implementation)(
            *(self, query, key, value, attention_mask), dropout=0.0, scaling=self.scaling, **kwargs
        )
        return self.o_proj(mixed.reshape(*shape, -1)), weights


def attention_of(implementation: str) -> Callable[..., tuple[Tensor, Tensor | None]]:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    from transformers.models.llama.modeling_llama import eager_attention_forward

    # A mapping in every release; the model was not made if the name is unknown.
    found: Callable[..., tuple[Tensor, Tensor | None]] = ALL_ATTENTION_FUNCTIONS.get(
        implementation, eager_attention_forward
    )
    return found


def place_for(
    cache: Any, index: int, joined: Tensor, cosines: Tensor
) -> DensePlace | SparsePlace | None:
    """Where new tokens go without a copy of the others; None where the usual path applies."""
    if joined.dtype is not torch.bfloat16 or cosines.dtype is not torch.bfloat16:
        return None
    from tilewright.kernels.caches import room_in  # needs Transformers

    return room_in(cache, index, *joined.shape[:2])


def fuse_small_steps(model: nn.Module, *, one_call: bool = True) -> None:
    """Let every RMS norm of a known family be one operator, and a token of its layers one call.

    Without ``one_call`` it is two calls for each layer.
    """
    for module in model.modules():
        kind = type(module).__name__
        if kind in {f"{family}RMSNorm" for family in FAMILIES}:
            module.__class__ = joined_class(FusedNorm, type(module))
        elif kind in {f"{family}DecoderLayer" for family in FAMILIES} and can_step(module):
            module.__class__ = joined_class(FusedLayer, type(module))
    for module in model.modules() if one_call else ():
        kind = type(module).__name__
        if kind in {f"{family}Model" for family in FAMILIES} and all(
            isinstance(layer, FusedLayer) for layer in module.layers
        ):
            module.__class__ = joined_class(FusedStack, type(module))


def sees_all(mask: Any) -> bool:
    """Whether a mask, as a caller of the model gives it, hides no token."""
    if mask is None:
        return True
    return isinstance(mask, Tensor) and mask.dim() == 2 and bool(mask.all())


class FusedStack(nn.Module):
    """A model's decoder layers, through which one token goes in one call."""

    def forward(self, input_ids: Tensor | None = None, *args: Any, **named: Any) -> Any:
        if (
            input_ids is not None
            and input_ids.shape[1] == 1
            and not args
            and named.get("inputs_embeds") is None
            and named.get("past_key_values") is not None
            and named.get("use_cache") is not False
            and not torch.compiler.is_compiling()
            and self.config._attn_implementation == "sdpa"
            and not any(value for key, value in named.items() if key.startswith("output_"))
            and not (self.config.output_hidden_states or self.config.output_attentions)
            and named.get("return_dict", self.config.return_dict) is not False
            and sees_all(named.get("attention_mask"))
        ):
            positions = named.get("position_ids")
            done = self._one_token(input_ids, positions, named["past_key_values"])
            if done is not None:
                return done
        return super().forward(input_ids, *args, **named)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_angles"}

    def _one_token(self, input_ids: Tensor, position_ids: Tensor | None, cache: Any) -> Any:
        from transformers.modeling_outputs import BaseModelOutputWithPast

        from tilewright.kernels.steps import token

        done = token(self, self.embed_tokens(input_ids), cache, position_ids)
        if done is None:
            return None
        return BaseModelOutputWithPast(last_hidden_state=self.norm(done), past_key_values=cache)


class FusedLayer(nn.Module):
    """A decoder layer whose small steps, for one token, are done where its products are."""

    def forward(self, hidden_states: Tensor, *args: Any, **named: Any) -> Any:
        cache, angles = named.get("past_key_values"), named.get("position_embeddings")
        if (
            hidden_states.shape[1] == 1
            and not args
            and named.get("attention_mask") is None
            and cache is not None
            and angles is not None
            and not torch.compiler.is_compiling()
            and not named.get("output_attentions")
            and self.self_attn.config._attn_implementation == "sdpa"
        ):
            from tilewright.kernels.steps import step

            done = step(self, hidden_states, cache, angles)
            if done is not None:
                return done
        return super().forward(hidden_states, *args, **named)

    def __getstate__(self) -> dict[str, Any]:
        # Addresses mean nothing in a copy or elsewhere.
        return {key: value for key, value in self.__dict__.items() if key != "_step_plan"}


def can_step(layer: nn.Module) -> bool:
    attention, mlp = getattr(layer, "self_attn", None), getattr(layer, "mlp", None)
    packed = (
        *(getattr(attention, name, None) for name in ("qkv_proj", "o_proj")),
        *(getattr(mlp, name, None) for name in ("gate_up_proj", "down_proj")),
    )
    return all(isinstance(part, SparseLinear) for part in packed)


class FusedNorm(nn.Module):
    """An RMS norm in one pass."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        compute = rms_norm if torch.compiler.is_compiling() else norm
        return compute(hidden_states, self.weight, self.variance_epsilon)
