"""One token of a model of LLaMA's kind through all decoder layers, in one call of the library.

A team of threads stays together from the first layer to the last, so that neither Python nor the
start of a team comes between two products. Attention is the library's own, in fp32 with a softmax
in float64; its last bits are not PyTorch's. All else is as layer by layer
(``tilewright.kernels.steps``), which takes the tokens that cannot go here: after ``MOST_TOKENS``
others, in a cache of another kind, through a module with hooks, or with more threads than there
are processors, which would wait for each other at every turn. Needs the optional extra ``torch``.
"""

# Annotations stay text, so that the documentation can be built where PyTorch is not installed.
from __future__ import annotations

from ctypes import addressof, pointer
from itertools import repeat
from operator import contains, is_
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers.cache_utils import DynamicLayer

from tilewright.kernels import library as native
from tilewright.kernels.caches import DensePlace, room_in
from tilewright.kernels.operators import angles_of, library
from tilewright.kernels.steps import clocks_of_all, parts_of, plan_of

MOST_TOKENS = 1024  # beyond, a head's keys and values are too long for one thread at a time
# Angles that follow from a position alone; others also depend on the longest position so far.
STATIC_ANGLES = ("default", "linear", "yarn", "llama3")


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
