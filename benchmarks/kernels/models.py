"""Whole models: tokens of a LLaMA-shaped model, stock PyTorch and packed, in turn.

Weights are random, since speed needs only shapes. All contestants live in one process with the
environment as it is; they take turns, a few tokens at a time, with nothing between the turns. Needs
the optional extra ``torch`` and Hugging Face Transformers.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.race import race
from tilewright.golden.sparamx.attention import KEY_SPARSITY, VALUE_SPARSITY
from tilewright.golden.sparamx.coded import repeated
from tilewright.kernels.caches import SparseCache
from tilewright.kernels.compressed import CodedMatrix
from tilewright.kernels.forms import coded_parts, family, matrix_of
from tilewright.kernels.models import (
    FusedLayer,
    FusedStack,
    Site,
    fuse_small_steps,
    sites,
    sparsify,
)
from tilewright.kernels.steps import clocked
from tilewright.kernels.torch_layers import SparseLinear, settled

STOCK = "stock bf16"
Row = dict[str, Any]
Models = dict[str, nn.Module]


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """A model's shape in Hugging Face's words, and its measurements: Llama 3 8B."""

    hidden_size: int = 4096
    intermediate_size: int = 14336
    num_attention_heads: int = 32
    num_key_value_heads: int = 8
    num_hidden_layers: int = 32
    vocab_size: int = 128256
    # How the packed models keep their weights, and which share of them is zero.
    forms: tuple[tuple[str, float], ...] = (
        *(("bf16", 0.5), ("int8", 0.5), ("int8", 0.0)),
        *(("bf8", 0.5), ("mxfp4", 0.0), ("mxfp4", 0.5)),
    )
    sparsities: tuple[float, ...] = (0.3, 0.5, 0.7, 0.9)  # bf16, batch 1
    batches: tuple[int, ...] = (1, 16, 32)
    context: int = 128  # tokens in the cache when decoding starts
    long_context: int = 16384  # the same where keys and values are pruned, and where they are not
    tokens: int = 4  # of a turn
    rounds: int = 5


QUICK = ModelPlan(  # shows that it runs, says nothing about speed
    hidden_size=64,
    intermediate_size=96,
    num_attention_heads=4,
    num_key_value_heads=2,
    num_hidden_layers=2,
    vocab_size=100,
    sparsities=(0.5, 0.9),
    batches=(1, 3),
    context=8,
    long_context=40,
    tokens=2,
    rounds=2,
)


def run(plan: ModelPlan) -> Iterator[tuple[str, Row]]:
    """Measure everything that ``plan`` asks for: what was done, and that part of the record."""
    yield (
        "environment",
        {
            "threads": torch.get_num_threads(),
            "environment": {
                k: v for k, v in os.environ.items() if re.match("OMP_|GOMP_|MKL_|KMP_", k)
            },
        },
    )
    # First, while nothing else is in memory.
    first, packing = measure_packing(plan, *plan.forms[0])
    yield "packing", {"packing": [packing]}
    models: Models = {STOCK: random_model(plan), name_of(*plan.forms[0]): first}
    for form, sparsity in plan.forms[1:]:
        models[name_of(form, sparsity)] = packed_twin(models[STOCK], form, sparsity)
    decode: list[Row] = []
    operators: list[Row] = []
    with torch.inference_mode():
        for batch in plan.batches:
            decoders = {name: Decoder(model, plan, batch) for name, model in models.items()}
            decode += measure_decode(plan, decoders, batch)
            for name, decoder in decoders.items():
                operators += measure_operators(plan, name, decoder, batch)
            yield f"decode, batch {batch}", {"decode": decode, "operators": operators}
        yield "long context", {"long_context": measure_long_context(plan, models)}
        yield "sparsities", {"sparsity": measure_sparsities(plan, models)}


def name_of(form: str, sparsity: float) -> str:
    return f"sparse {form}" if sparsity else f"dense {form}"


def measure_packing(plan: ModelPlan, form: str, sparsity: float) -> tuple[Any, Row]:
    """A whole packed model, and the seconds and the memory that ``sparsify`` took."""
    model = random_model(plan)
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    before = peak_memory(reset=True)
    start = perf_counter()
    sparsify(model, sparsity, form=form)
    seconds = perf_counter() - start
    return model, {
        "form": form,
        "seconds": seconds,
        "model_bytes": size,
        "bytes_before": before,
        "peak_bytes": peak_memory(),
    }


# --- models


def random_model(plan: ModelPlan) -> nn.Module:
    """A LLaMA of the plan's shape; its decoder layers are copies of one, in memory of their own."""
    model = empty_model(plan)
    state = model.state_dict()
    torch.manual_seed(9)
    noise = (0.02 * torch.randn(1 << 22)).to(torch.bfloat16)  # over and over: fast to make
    first: dict[str, Tensor] = {}
    with torch.no_grad():
        for name, tensor in state.items():
            key = re.sub(r"\.layers\.\d+\.", ".layers.", name)
            if key in first:
                tensor.copy_(first[key])
                continue
            first[key] = tensor
            if "norm" in name:
                tensor.fill_(1)
            else:
                for piece in tensor.view(-1).split(len(noise)):
                    piece.copy_(noise[: len(piece)])
    return model


def empty_model(plan: ModelPlan) -> Any:
    """The model with memory for its weights, which have no values yet."""
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = {
        k: v for k, v in asdict(plan).items() if k.startswith(("hidden", "inter", "num", "voc"))
    }
    config = LlamaConfig(**shape, max_position_embeddings=8192, attn_implementation="sdpa")
    with torch.device("meta"):
        model = LlamaForCausalLM(config).to(torch.bfloat16)
    model.to_empty(device="cpu")
    model.model.rotary_emb = type(model.model.rotary_emb)(config)  # its buffers are computed
    return model.eval().requires_grad_(False)


def twin(model: Any) -> Any:
    """The same model; it shares the weights, which ``sparsify`` replaces and does not change."""
    with torch.device("meta"):
        copy = type(model)(model.config).to(torch.bfloat16)
    copy.load_state_dict(model.state_dict(), assign=True)
    copy.model.rotary_emb = model.model.rotary_emb
    return copy.eval().requires_grad_(False)


def packed_twin(model: Any, form: str, sparsity: float) -> Any:
    """The same model with packed layers: one decoder layer is packed, the others are copies."""
    copy = twin(model)
    done: dict[str, SparseLinear] = {}
    for site in list(sites(copy)):
        key = re.sub(r"\.layers\.\d+\.", ".layers.", site.name)
        if key not in done:
            done[key] = packed_layer(site, form, sparsity)
        site.put(copy_of(done[key]))
    fuse_small_steps(copy)
    return copy


def packed_layer(site: Site, form: str, sparsity: float) -> SparseLinear:
    """The packed form of layers, made of a few of their outputs over and over where it can be.

    The golden model that packs the schemes of DECA takes its time.
    """
    layers = site.layers()
    if family(form) != "coded" or sum(layer.out_features for layer in layers) % 16:
        return SparseLinear.of(layers, sparsity, form, gated=site.gated)
    outputs, inputs = sum(layer.out_features for layer in layers), layers[0].in_features
    most = min(256, layers[0].out_features)
    some = next(n for n in range(most - most % 16, 0, -16) if outputs % n == 0)
    few = nn.Linear(inputs, some, bias=False, device="meta")
    few.weight = nn.Parameter(layers[0].weight[:some], requires_grad=False)
    parts = {n: p.numpy() for n, p in SparseLinear.of(few, sparsity, form).named_parts()}
    matrix = matrix_of(form, (some, inputs), parts)
    assert isinstance(matrix, CodedMatrix)
    longer = coded_parts(repeated(matrix.coded, outputs // some))
    tensors = {name: torch.from_numpy(part) for name, part in longer.items()}
    return SparseLinear(form, (outputs, inputs), tensors, gated=site.gated)


def copy_of(layer: SparseLinear) -> SparseLinear:
    """A layer with the same weights in memory of their own."""
    parts = {name: settled(part) for name, part in layer.named_parts()}
    shape = (layer.out_features, layer.in_features)
    return SparseLinear(layer.form, shape, parts, layer.scales, layer.bias, gated=layer.gated)


def peak_memory(*, reset: bool = False) -> int:
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return 1024 * int(found.group(1)) if found else 0


# --- measurements


class Decoder:
    """A model with a filled cache that decodes some tokens at a time, from the same point on."""

    def __init__(self, model: Any, plan: ModelPlan, batch: int, cache: Any = None):
        from transformers import DynamicCache

        self.model, self.plan, self.cache = model, plan, cache
        torch.manual_seed(3)
        if cache is None:
            prompt = torch.randint(0, plan.vocab_size, (1, plan.context))
            self.cache = DynamicCache(config=model.config)
            model(prompt, past_key_values=self.cache, use_cache=True, logits_to_keep=1)
            if batch > 1:
                self.cache.batch_repeat_interleave(batch)
        self.token = torch.arange(batch)[:, None]

    def decode(self, tokens: int) -> None:
        """Greedy decoding; the cache is then as before."""
        token = self.token
        for _ in range(tokens):
            logits = self.model(token, past_key_values=self.cache, use_cache=True).logits
            token = torch.from_numpy(logits[:, -1].float().numpy().argmax(-1, keepdims=True))
        self.cache.crop(-tokens)


def decode_times(plan: ModelPlan, decoders: Mapping[str, Decoder]) -> dict[str, Row]:
    """Seconds per token (a step of the whole batch) of all models, in turn."""
    laps = race({n: partial(d.decode, plan.tokens) for n, d in decoders.items()}, plan.rounds)
    return {name: lap.row(plan.tokens) for name, lap in laps.items()}


def measure_decode(plan: ModelPlan, decoders: Mapping[str, Decoder], batch: int) -> list[Row]:
    found = decode_times(plan, decoders)
    return [{"model": name, "batch": batch, **times} for name, times in found.items()]


def measure_long_context(plan: ModelPlan, models: Models) -> list[Row]:
    """Seconds per token where the cache is long: as Transformers has it, and packed, in turn.

    Keys and values are random; every layer has the same in memory of its own, since speed needs no
    more and a prompt of this length would take minutes.
    """
    from transformers import DynamicCache

    config: Any = models[STOCK].config
    heads = config.num_key_value_heads
    shape = (1, heads, plan.long_context, config.hidden_size // config.num_attention_heads)
    torch.manual_seed(5)
    keys, values = (torch.randn(shape).to(torch.bfloat16) for _ in range(2))

    def plain() -> Any:
        cache = DynamicCache(config=config)
        for index in range(config.num_hidden_layers):
            cache.update(keys.clone(), values.clone(), index)
        return cache

    def packed(key_share: float, value_share: float) -> Any:
        cache = SparseCache(config, key_sparsity=key_share, value_sparsity=value_share)
        for layer in cache.layers:
            layer.update(keys, values)
            layer.pack()
        return cache

    sparse = name_of("bf16", 0.5)
    caches = {
        (STOCK, "PyTorch"): plain(),
        (sparse, "PyTorch"): plain(),
        (sparse, "dense kernel"): packed(0.0, 0.0),
        (sparse, "pruned"): packed(KEY_SPARSITY, VALUE_SPARSITY),
    }
    entered = {":".join(key): Decoder(models[key[0]], plan, 1, c) for key, c in caches.items()}
    times = decode_times(plan, entered)
    return [
        {"model": n, "attention": c, "tokens": plan.long_context, **times[f"{n}:{c}"]}
        for n, c in caches
    ]


def measure_sparsities(plan: ModelPlan, models: Models) -> list[Row]:
    known = {0.5: models["sparse bf16"]}
    entered = {STOCK: models[STOCK]} | {
        f"{share:g}": known.get(share) or packed_twin(models[STOCK], "bf16", share)
        for share in plan.sparsities
    }
    rows = measure_decode(plan, {n: Decoder(m, plan, 1) for n, m in entered.items()}, 1)
    for row, share in zip(rows, (None, *plan.sparsities), strict=True):
        row |= {"model": STOCK if share is None else "sparse bf16", "sparsity": share}
    return rows


def measure_operators(plan: ModelPlan, name: str, decoder: Decoder, batch: int) -> list[Row]:
    """Where the time of a token goes, from clocks around the parts of the model.

    The clocks cost time of their own, so that the parts add up to a little more than a token.
    """
    with clocks(decoder.model, decoder.cache) as spent, clocked() as inside:
        start = perf_counter()
        decoder.decode(plan.tokens)
        total = perf_counter() - start
    parts = dict(spent)
    for part, seconds in inside.seconds().items():
        if seconds:
            parts[part] = parts.get(part, 0.0) + seconds
    parts["rest"] = total - sum(parts.values())
    return [
        {"model": name, "batch": batch, "operator": part, "seconds": seconds / plan.tokens}
        for part, seconds in parts.items()
    ]


@contextmanager
def clocks(model: Any, cache: Any) -> Iterator[dict[str, float]]:
    """Seconds spent in each kind of part while this is open."""
    spent: dict[str, float] = defaultdict(float)
    undo: list[Callable[[], None]] = []

    def timed(owner: Any, key: str, part: str) -> None:
        inner = getattr(owner, key)

        def call(*args: Any, **kwargs: Any) -> Any:
            start = perf_counter()
            try:
                return inner(*args, **kwargs)
            finally:
                spent[part] += perf_counter() - start

        own = key in vars(owner)  # else it is its class's
        setattr(owner, key, call)
        undo.append(lambda: setattr(owner, key, inner) if own else delattr(owner, key))

    stepping: tuple[str, ...] = ()  # layers whose steps have clocks of their own
    for module_name, module in model.named_modules():
        if isinstance(module, FusedLayer):
            stepping = (*stepping, f"{module_name}.")
        if isinstance(module, FusedStack):  # it keeps angles from token to token
            stepping = (*stepping, f"{module_name}.rotary_emb")
        if module_name.startswith(stepping):
            continue
        if isinstance(module, nn.Linear | SparseLinear):
            timed(module, "forward", "head" if module_name == "lm_head" else "linear layers")
        elif "RMSNorm" in type(module).__name__:
            timed(module, "forward", "norms")
        elif "Activation" in type(module).__name__ or type(module).__name__ == "SiLU":
            timed(module, "forward", "activation")
        elif "RotaryEmbedding" in type(module).__name__:
            timed(module, "forward", "angles")
    timed(cache, "update", "cache")
    if not stepping:
        timed(torch.nn.functional, "scaled_dot_product_attention", "attention")
    try:
        yield spent
    finally:
        for step in undo:
            step()
