"""One token through the decoder layers of a model of LLaMA's kind; needs the extra ``torch``.

Layer by layer (:func:`step`) it takes two calls of the library, between which PyTorch attends. A
layer does nine small things besides its four products, and each of them takes longer in Python than
on the processor. Here they are done where the products are; roundings stay where they were, and no
bit changes.

In one call (:func:`token`) a team of threads stays together from the first layer to the last, so
that neither Python nor the start of a team comes between two products. Attention is the library's
own, in fp32 with a softmax in float64; its last bits are not PyTorch's. A token goes layer by layer
after ``MOST_TOKENS`` others, in a cache of another kind, through a module with hooks, or with more
threads than there are processors, which would wait for each other at every turn.
"""

# Annotations stay text, so that the documentation can be built where PyTorch is not installed.
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import addressof, c_double, pointer
from itertools import repeat
from operator import contains, is_
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers.cache_utils import DynamicLayer

from tilewright.kernels import library as native
from tilewright.kernels.caches import DensePlace, room_in
from tilewright.kernels.matrix import ORDERS
from tilewright.kernels.operators import Prepared, angles_of, library
from tilewright.kernels.torch_layers import SparseLinear

# Kinds in src/step.cpp.
PARTS = ("norms", "linear layers", "positions and cache", "residual sums", "attention")
ATTENTION = PARTS.index("attention")
MOST_TOKENS = 1024  # beyond, a head's keys and values are too long for one thread at a time
# Angles that follow from a position alone; others also depend on the longest position so far.
STATIC_ANGLES = ("default", "linear", "yarn", "llama3")


class Clocks:
    """Seconds spent in the parts of steps while they are clocked."""

    def __init__(self) -> None:
        self.inside = (c_double * len(PARTS))()

    def seconds(self) -> dict[str, float]:
        return dict(zip(PARTS, self.inside, strict=True))


_clocks: Clocks | None = None


@contextmanager
def clocked() -> Iterator[Clocks]:
    """Take the time of every part of all steps until the end of the block."""
    global _clocks
    before, _clocks = _clocks, Clocks()
    try:
        yield _clocks
    finally:
        _clocks = before


def clocks_of_all() -> int | None:
    """Address where the library adds up the time of its parts; None unless clocked."""
    return None if _clocks is None else addressof(_clocks.inside)


def parts_of(layer: Any) -> tuple[Any, ...]:
    inner = layer._modules
    attention, mlp = inner["self_attn"], inner["mlp"]
    return (
        *(attention, mlp, attention._modules["qkv_proj"], attention._modules["o_proj"]),
        *(mlp._modules["gate_up_proj"], mlp._modules["down_proj"]),
        *(inner["input_layernorm"], inner["post_attention_layernorm"]),
    )


class Plan:
    """State of one decoder layer that is the same for every token."""

    def __init__(self, layer: Any):
        self.parts = parts_of(layer)
        attention = self.parts[0]
        self.layers: tuple[SparseLinear, ...] = self.parts[2:6]
        self.norms = self.parts[6:]
        self.prepared: tuple[Prepared, ...] = ()
        self.places: tuple[int, ...] = ()
        self.steps: dict[tuple[int, int], native.CStep] = {}  # by threads and rows
        self.heads, self.dim = attention.config.num_key_value_heads, attention.head_dim
        self.queries = self.heads * attention.num_key_value_groups
        self.width = self.layers[0].in_features
        self.features = self.layers[0].out_features

    def usable(self) -> bool:
        """Whether all is packed and of bf16, and no part has hooks or is replaced."""
        return (
            all(type(layer) is SparseLinear for layer in self.layers)
            and all(norm.weight.dtype is torch.bfloat16 for norm in self.norms)
            and not any(map(listened_to, self.parts))
        )

    def description(self, threads: int, rows: int) -> native.CStep:
        """A new description of a step, for this call alone: threads may share a layer."""
        prepared = tuple(layer.prepared() for layer in self.layers)
        places = tuple(norm.weight.data_ptr() for norm in self.norms)
        if prepared != self.prepared or places != self.places:
            self.prepared, self.places, self.steps = prepared, places, {}
        found = self.steps.get((threads, rows))
        if found is None:
            found = self.steps[threads, rows] = self._describe(threads, rows)
        return native.CStep.from_buffer_copy(found)

    def _describe(self, threads: int, rows: int) -> native.CStep:
        path = native.available_paths()[-1]
        made = native.CStep(threads=threads, path=path, rows=rows, width=self.width)
        for k, prepared in enumerate(self.prepared):
            made.layers[k] = native.CProduct.from_buffer_copy(prepared.template)
            made.bounds[k] = prepared.matrix.bounds_address(threads)
            made.orders[k] = ORDERS[prepared.matrix.default_order(rows, path)]
        made.first_norm, made.second_norm = self.places
        made.first_epsilon, made.second_epsilon = (n.variance_epsilon for n in self.norms)
        made.queries, made.keys, made.dim = self.queries, self.heads, self.dim
        made.scale = self.parts[0].scaling
        return made


def step(layer: Any, hidden: Tensor, cache: Any, angles: tuple[Tensor, Tensor]) -> Tensor | None:
    """The hidden states after one token of ``layer``; None where it has to take the usual path.

    ``hidden`` is (sequences, 1, features). Nothing has been done where None is returned.
    """
    plan = plan_of(layer)
    attention, rows = plan.parts[0], len(hidden)
    if hidden.dtype is not torch.bfloat16 or type(hidden) is not Tensor or not plan.usable():
        return None
    place = room_in(cache, attention.layer_idx, rows, 1)
    if place is None or angles[0].dtype is not torch.bfloat16:
        return None
    hidden = hidden.contiguous()
    cosines, sines = angles_of(angles, rows)
    joined = hidden.new_empty((rows, 1, plan.features))
    result = torch.empty_like(hidden)
    call = plan.description(native.default_threads(), rows)
    call.hidden, call.joined, call.result = (t.data_ptr() for t in (hidden, joined, result))
    call.cosines, call.sines = cosines.data_ptr(), sines.data_ptr()
    if place.rooms is not None:
        call.key_room, call.value_room = (room.data_ptr() for room in place.rooms)
        call.room, call.position = place.rooms[0].shape[2], place.before
    clocks = _clocks
    if clocks is not None:
        call.spent = addressof(clocks.inside)
    library().tw_step_in(addressof(call))
    start = perf_counter() if clocks is not None else 0.0
    mixed = place.attend(joined, plan.queries, plan.dim, attention.scaling)
    call.mixed = mixed.data_ptr()
    if clocks is not None:
        clocks.inside[ATTENTION] += perf_counter() - start
    library().tw_step_out(addressof(call))
    return result


def plan_of(layer: Any) -> Plan:
    plan: Plan | None = layer.__dict__.get("_step_plan")
    if plan is None or plan.parts != parts_of(layer):
        plan = layer.__dict__["_step_plan"] = Plan(layer)
    return plan


# --- all layers in one call


class Angles:
    """Cosines and sines of positions, made by the model's own module for many at a time."""

    BLOCK = 256

    def __init__(self, module: Any):
        self.module = module
        self.blocks: dict[int, tuple[Tensor, Tensor]] = {}
        self.frequencies: Tensor | None = None

    def at(self, hidden: Tensor, position: int) -> tuple[Tensor, Tensor]:
        """Those of one position, (1, 1, head size) each."""
        module = self.module
        if getattr(module, "rope_type", None) not in STATIC_ANGLES or listened_to(module):
            cosines, sines = module(hidden, position_ids=torch.full((1, 1), position))
            return cosines, sines
        if self.frequencies is None or not torch.equal(module.inv_freq, self.frequencies):
            self.frequencies, self.blocks = module.inv_freq.clone(), {}
        index, row = divmod(position, self.BLOCK)
        found = self.blocks.get(index)
        if found is None:
            positions = torch.arange(index * self.BLOCK, (index + 1) * self.BLOCK)[None]
            found = self.blocks[index] = module(hidden, position_ids=positions)
        return found[0].narrow(1, row, 1), found[1].narrow(1, row, 1)


def listened_to(module: nn.Module) -> bool:
    """Whether a call of the module would do more than the module itself."""
    return bool(module._forward_hooks or module._forward_pre_hooks or "forward" in module.__dict__)


class Stack:
    """State of all decoder layers and their cache that is the same for every token."""

    def __init__(self, layers: nn.ModuleList, cache: Any, threads: int, rows: int, until: int):
        self.list, self.threads, self.rows = layers, threads, rows
        self.plans = [plan_of(layer) for layer in layers]
        self.places: list[DensePlace] = []
        if any(listened_to(layer) for layer in layers) or not all(p.usable() for p in self.plans):
            return
        found = [room_in(cache, plan.parts[0].layer_idx, rows, 1) for plan in self.plans]
        if not all(type(p) is DensePlace and p.before == until - 1 for p in found):
            return
        self.places = [place for place in found if type(place) is DensePlace]
        self.all = together(self.places)
        self.room = self.all.shape[3]
        self.views = [(place.layer.keys, place.layer.values) for place in self.places]
        self.steps = (native.CStep * len(self.plans))()
        for made, plan, place in zip(self.steps, self.plans, self.places, strict=True):
            description = plan.description(threads, rows)
            description.key_room, description.value_room = (r.data_ptr() for r in place.rooms)
            description.room = place.rooms[0].shape[2]
            pointer(made)[0] = description
        # The descriptions hold addresses; whatever could invalidate them is checked before every
        # token: replaced modules, loaded weights, hooks.
        self.prepared = [plan.prepared for plan in self.plans]
        self.owners, self.names, self.found = zip(*self._watched(), strict=True)
        modules = [*layers, *(part for plan in self.plans for part in plan.parts)]
        self.listeners = [
            hooks for m in modules for hooks in (m._forward_hooks, m._forward_pre_hooks)
        ]
        self.own = [m.__dict__ for m in modules]

    def _watched(self) -> list[tuple[dict[str, Any], str, Any]]:
        """Dictionaries, keys, and what is found there as long as nothing was replaced."""
        found: list[tuple[dict[str, Any], str, Any]] = []
        for name, layer in self.list._modules.items():
            attention, mlp, *linear, first, second = parts_of(layer)
            found.append((self.list._modules, name, layer))
            for owner in (layer, attention, mlp):
                found += [(owner._modules, key, part) for key, part in owner._modules.items()]
            found += [(norm._parameters, "weight", norm.weight) for norm in (first, second)]
            found += [(part.__dict__, "_ready", part._ready) for part in linear]
        return found

    def holds(self, layers: nn.ModuleList, threads: int, rows: int, until: int) -> bool:
        """Whether nothing has changed since: layers, packed arrays, the cache, and room in it."""
        return (
            layers is self.list
            and len(layers) == len(self.places)
            and (self.threads, self.rows) == (threads, rows)
            and until <= self.room
            and not any(self.listeners)
            and not any(map(contains, self.own, repeat("forward")))
            and all(map(is_, map(dict.get, self.owners, self.names), self.found))
            and all(map(self._in_place, self.places, self.views, repeat(until - 1)))
        )

    def _in_place(self, place: DensePlace, views: tuple[Tensor, Tensor], before: int) -> bool:
        """Whether a layer of the cache is as we left it, or has only been cut at its end."""
        layer = place.layer
        if layer.keys is views[0] and layer.values is views[1]:
            return True
        return all(
            part.data_ptr() == room.data_ptr() and part.shape[::2] == (self.rows, before)
            for part, room in zip((layer.keys, layer.values), place.rooms, strict=True)
        )

    def filled(self, until: int) -> None:
        parts = self.all.narrow(3, 0, until).unbind()
        self.views = list(zip(parts[::2], parts[1::2], strict=True))
        for place, (keys, values) in zip(self.places, self.views, strict=True):
            place.layer.keys, place.layer.values = keys, values


def together(places: list[DensePlace]) -> Tensor:
    """The rooms of all layers in one: (keys and values in turn, sequences, heads, room, dim).

    Views of all of them are then made at once. Tokens move there once for each time a cache grows.
    """
    rooms = [room for place in places for room in place.rooms]
    first, size = rooms[0], rooms[0].numel() * rooms[0].element_size()
    if (
        all(
            room.data_ptr() == first.data_ptr() + k * size and room.shape == first.shape
            for k, room in enumerate(rooms)
        )
        and (base := getattr(places[0].layer, "all_rooms", None)) is not None
    ):
        return base
    longest = max(room.shape[2] for room in rooms)
    shape = (len(rooms), *first.shape[:2], longest, first.shape[3])
    found = first.new_empty(shape)
    for place, keys, values in zip(places, found[::2], found[1::2], strict=True):
        before = place.before
        for new, old in zip((keys, values), place.rooms, strict=True):
            new[:, :, :before] = old[:, :, :before]
        place.layer.rooms = place.rooms = (keys, values)
        place.layer.all_rooms = found
        place.layer.keys, place.layer.values = keys[:, :, :before], values[:, :, :before]
    return found


_stacks: WeakKeyDictionary[Any, Stack] = WeakKeyDictionary()  # by their caches


def token(model: Any, hidden: Tensor, cache: Any, position_ids: Tensor | None) -> Tensor | None:
    """The hidden states after one token through all layers; None where they go one by one.

    ``model`` has the layers and ``rotary_emb``; ``hidden`` is (sequences, 1, features), before the
    first layer. Nothing has been done where None is returned.
    """
    rows, before = len(hidden), cache.get_seq_length()
    layers, until, threads = model.layers, before + 1, native.default_threads()
    window = getattr(model.config, "sliding_window", None)
    if (
        not 0 < before < MOST_TOKENS
        or (window is not None and until > window)
        or len(layers) != model.config.num_hidden_layers
        or not native.has_room(threads)
        or type(hidden) is not Tensor
        or hidden.dtype is not torch.bfloat16
        or not all(type(layer) is DynamicLayer for layer in cache.layers)
    ):
        return None
    angles = angles_for(model, hidden, before, position_ids)
    if angles[0].dtype is not torch.bfloat16:
        return None
    stack = _stacks.get(cache)
    if stack is None or not stack.holds(layers, threads, rows, until):
        stack = Stack(layers, cache, threads, rows, until)
        if not stack.places:
            return None
        _stacks[cache] = stack
    hidden = hidden.contiguous()
    cosines, sines = angles_of(angles, rows)
    result = torch.empty_like(hidden)
    call = native.CToken(
        *(addressof(stack.steps), len(stack.plans), hidden.data_ptr(), cosines.data_ptr()),
        *(sines.data_ptr(), result.data_ptr(), before, clocks_of_all()),
    )
    library().tw_token(addressof(call))
    stack.filled(until)
    return result


def angles_for(
    model: Any, hidden: Tensor, before: int, position_ids: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Cosines and sines of a token after ``before`` others, or at the positions given."""
    module = model.rotary_emb
    if position_ids is not None and position_ids.numel() > 1:
        cosines, sines = module(hidden, position_ids=position_ids)
        return cosines, sines
    known: Angles | None = model.__dict__.get("_angles")
    if known is None or known.module is not module:
        known = model.__dict__["_angles"] = Angles(module)
    return known.at(hidden, before if position_ids is None else int(position_ids))
