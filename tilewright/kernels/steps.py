"""One token through a decoder layer in two calls of the library, between which PyTorch attends.

A layer of LLaMA's kind does nine small things besides its four products, and each of them takes
longer in Python than on the processor. Here they are done where the products are; roundings stay
where they were, and no bit changes. ``tilewright.kernels.tokens`` goes through all layers at once.
Needs the optional extra ``torch``.
"""

# Annotations stay text, so that the documentation can be built where PyTorch is not installed.
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import addressof, c_double
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from tilewright.kernels import library as native
from tilewright.kernels.caches import room_in
from tilewright.kernels.matrix import ORDERS
from tilewright.kernels.operators import Prepared, angles_of, library
from tilewright.kernels.torch_layers import SparseLinear

# Kinds in src/step.cpp.
PARTS = ("norms", "linear layers", "positions and cache", "residual sums", "attention")
ATTENTION = PARTS.index("attention")


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
    """Attention, MLP, their four layers, and the two norms of a decoder layer."""
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
            and not any(
                m._forward_hooks or m._forward_pre_hooks or "forward" in m.__dict__
                for m in self.parts
            )
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
