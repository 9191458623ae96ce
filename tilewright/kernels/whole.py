"""Speed of whole models: tokens of a LLaMA-shaped model, stock PyTorch and packed, side by side.

Weights are random, since speed needs only shapes. All contestants live in one process with the
environment as it is; they take turns, a few tokens at a time, with nothing between the turns. Needs
the optional extra ``torch`` and Hugging Face Transformers.
"""

# Annotations stay text, so that the documentation can be built where PyTorch is not installed.
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from time import gmtime, perf_counter, strftime
from typing import Any

import torch
from torch import Tensor, nn

from tilewright.golden.sparamx.attention import KEY_SPARSITY, VALUE_SPARSITY
from tilewright.golden.sparamx.coded import SLACK as CODED_SLACK
from tilewright.kernels.caches import SparseCache
from tilewright.kernels.forms import check_form, family
from tilewright.kernels.fused import FusedLayer, FusedStack, Site, fuse_small_steps, sites
from tilewright.kernels.machine import describe_machine
from tilewright.kernels.memory import SLACK
from tilewright.kernels.models import sparsify
from tilewright.kernels.steps import clocked
from tilewright.kernels.torch_layers import SparseLinear, settled

__all__ = [
    *("ModelPlan", "full_model_plan", "one_form", "quick_model_plan", "run", "run_batches"),
]

Progress = Callable[[str], None]
STOCK = "stock bf16"
COMMAND = "tilewright kernels model"


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """A model's shape in Hugging Face's words, and what is measured of it."""

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
    layers: tuple[tuple[int, int], ...] = ((4096, 4096), (4096, 1024), (4096, 14336), (14336, 4096))
    layer_batches: tuple[int, ...] = (1, 4, 8, 16, 32, 64, 128, 256)
    working_set: int = 400_000_000  # bytes of weights that each kernel goes through, at least
    batches: tuple[int, ...] = (1, 16, 32)
    prompts: tuple[int, ...] = (256,)  # tokens of a prompt, for its own time
    context: int = 128  # tokens in the cache when decoding starts
    long_context: int = 16384  # the same where keys and values are pruned, and where they are not
    tokens: int = 4  # of a turn
    rounds: int = 5


def full_model_plan() -> ModelPlan:
    """Llama 3 8B with its head."""
    return ModelPlan()


def quick_model_plan() -> ModelPlan:
    """A toy: shows that it runs, says nothing about speed."""
    return ModelPlan(
        hidden_size=64,
        intermediate_size=96,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_hidden_layers=2,
        vocab_size=100,
        sparsities=(0.5, 0.9),
        layers=((64, 48),),
        layer_batches=(1, 3),
        working_set=20_000,
        batches=(1, 3),
        prompts=(5,),
        context=8,
        long_context=40,
        tokens=2,
        rounds=2,
    )


def one_form(plan: ModelPlan, form: str, sparsity: float) -> ModelPlan:
    """The plan with one form alone, and decoding alone."""
    check_form(form)
    nothing: dict[str, Any] = {"sparsities": (), "layers": (), "prompts": (), "long_context": 0}
    return replace(plan, forms=((form, sparsity),), **nothing)


def run(
    plan: ModelPlan,
    progress: Progress = lambda text: None,
    keep: Callable[[dict[str, Any]], None] = lambda record: None,
) -> dict[str, Any]:
    """Measure everything that ``plan`` asks for, as plain JSON data.

    ``progress`` is told what comes next, ``steps`` times; ``keep`` is given the record as far
    as it has come. The record says when each part began, so that it is seen to be of one run.
    """
    start = perf_counter()
    record: dict[str, Any] = {
        "command": COMMAND,
        "began": strftime("%Y-%m-%dT%H:%M:%SZ", gmtime()),
        "seconds_at": {},
        "machine": asdict(describe_machine()),
        "plan": asdict(plan),
        "threads": torch.get_num_threads(),
        "environment": {k: v for k, v in os.environ.items() if re.match("OMP_|GOMP_|MKL_|KMP_", k)},
    }

    def comes(text: str) -> None:
        keep(rounded(record))
        record["seconds_at"][text] = perf_counter() - start
        progress(text)

    comes("stock, passive waiting")
    record["stock_passive"] = measure_passive(plan)
    models, record["packing"] = build_models(plan, comes)
    record["weights"] = [{"model": n, "bytes": weight_bytes_of(m)} for n, m in models.items()]
    record |= {"decode": [], "operators": [], "long_context": [], "sparsity": []}
    record |= {"prompt": [], "layers": []}
    decoders: dict[str, Decoder] = {}
    with torch.inference_mode():
        for batch in plan.batches:
            comes(f"decode, batch {batch}")
            decoders |= {name: Decoder(model, plan, batch) for name, model in models.items()}
            record["decode"] += measure_decode(plan, decoders, batch)
            for name, decoder in decoders.items():
                record["operators"] += measure_operators(plan, name, decoder, batch)
        decoders.clear()
        if plan.long_context:
            comes("long context")
            record["long_context"] = measure_long_context(plan, models)
        if plan.sparsities:
            comes("sparsities")
            record["sparsity"] = measure_sparsities(plan, models)
        if plan.layers:
            comes("layers")
            record["layers"] = measure_layers(plan)
        for length in plan.prompts:
            comes(f"prompt of {length}")
            record["prompt"] += measure_prompt(plan, models, length)
    record["seconds_at"]["end"] = perf_counter() - start
    return rounded(record)


def build_models(
    plan: ModelPlan, comes: Progress
) -> tuple[dict[str, nn.Module], list[dict[str, Any]]]:
    """The stock model and every packed one by name, and what packing the first of them took."""
    models: dict[str, nn.Module] = {}
    packing = []
    # First, while nothing else is in memory; the golden model that packs schemes takes minutes.
    whole = [pair for pair in plan.forms[:1] if family(pair[0]) == "sparamx"]
    for form, sparsity in whole:
        comes("packing")
        packed, about = measure_packing(plan, form, sparsity)
        packing.append(about)
    comes("stock model")
    stock = models[STOCK] = random_model(plan)
    for form, sparsity in whole:
        models[name_of(form, sparsity)] = packed
    for form, sparsity in plan.forms[len(whole) :]:
        name = name_of(form, sparsity)
        comes(f"{name} model")
        models[name] = packed_twin(stock, form, sparsity)
    return models, packing


def run_batches(
    plan: ModelPlan, before: dict[str, Any], batches: Sequence[int], progress: Progress
) -> dict[str, Any]:
    """The record ``before`` with decoding at ``batches`` measured anew; it says so of each."""
    if before["machine"] != rounded(asdict(describe_machine())) or before["plan"] != rounded(
        asdict(plan)
    ):
        raise ValueError("the record to complete is of another machine or another plan")
    began = strftime("%Y-%m-%dT%H:%M:%SZ", gmtime())
    models, _ = build_models(plan, progress)
    record = dict(before) | {"anew": dict(before.get("anew", {}))}
    with torch.inference_mode():
        for batch in batches:
            progress(f"decode, batch {batch}")
            decoders = {name: Decoder(model, plan, batch) for name, model in models.items()}
            found = {"decode": measure_decode(plan, decoders, batch), "operators": []}
            for name, decoder in decoders.items():
                found["operators"] += measure_operators(plan, name, decoder, batch)
            for section, rows in found.items():
                others = [row for row in record[section] if row["batch"] != batch]
                record[section] = sorted([*others, *rows], key=lambda row: row["batch"])
            about = {"command": f"{COMMAND} --batches {batch}", "began": began}
            record["anew"][f"decode, batch {batch}"] = about
    return rounded(record)


def steps(plan: ModelPlan) -> int:
    """How often :func:`run` reports progress."""
    sections = bool(plan.long_context) + bool(plan.sparsities) + bool(plan.layers)
    return 2 + sections + len(plan.forms) + len(plan.batches) + len(plan.prompts)


def name_of(form: str, sparsity: float) -> str:
    """What a model is called in the record."""
    return f"sparse {form}" if sparsity else f"dense {form}"


def measure_passive(plan: ModelPlan) -> dict[str, Any]:
    """Stock PyTorch in a process of its own whose idle threads sleep at once, batch 1."""
    code = "import sys; from tilewright.kernels import whole; whole.print_stock(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, json.dumps(asdict(plan))],
        env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"failed": (done.stderr.strip().split("\n") or ["no output"])[-1][:300]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def print_stock(plan: str) -> None:
    """Decode with the stock model of a plan, which is JSON here, and print the seconds as JSON."""
    shape = ModelPlan(**json.loads(plan))
    with torch.inference_mode():
        (row,) = measure_decode(shape, {STOCK: Decoder(random_model(shape), shape, 1)}, 1)
    print(json.dumps(row))


def measure_packing(plan: ModelPlan, form: str, sparsity: float) -> tuple[Any, dict[str, Any]]:
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
    counts = [n for n in range(16, most + 1, 16) if outputs % n == 0]
    some = counts[-1]
    few = nn.Linear(inputs, some, bias=False, device="meta")
    few.weight = nn.Parameter(layers[0].weight[:some], requires_grad=False)
    packed = SparseLinear.of(few, sparsity, form)
    times = outputs // some
    parts = dict(packed.named_parts())
    size = len(parts["stream"]) - SLACK - CODED_SLACK
    starts = parts["starts"][:-SLACK].view(torch.int64)
    zeros = torch.zeros(SLACK, dtype=torch.uint8)
    parts["stream"] = torch.cat([*[parts["stream"][:size]] * times, parts["stream"][size:]])
    repeated = torch.cat([starts[:-1] + size * k for k in range(times)] + [starts[-1:] * times])
    parts["starts"] = torch.cat([repeated.view(torch.uint8), zeros])
    return SparseLinear(form, (outputs, inputs), parts, gated=site.gated)


def copy_of(layer: SparseLinear) -> SparseLinear:
    """A layer with the same weights in memory of their own."""
    parts = {name: settled(part) for name, part in layer.named_parts()}
    shape = (layer.out_features, layer.in_features)
    return SparseLinear(layer.form, shape, parts, layer.scales, layer.bias, gated=layer.gated)


def weight_bytes_of(model: nn.Module) -> int:
    """Bytes that a token reads: all linear layers, packed or not."""
    total = 0
    for module in model.modules():
        if isinstance(module, SparseLinear):
            total += sum(part.numel() for _, part in module.named_parts())
        elif isinstance(module, nn.Linear):
            total += module.weight.numel() * module.weight.element_size()
    return total


def peak_memory(*, reset: bool = False) -> int:
    """Bytes that this process has had at most, since the last reset; 0 where nobody tells."""
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


def measure_decode(plan: ModelPlan, decoders: dict[str, Decoder], batch: int) -> list[dict]:
    """Seconds per token (a step of the whole batch) of all models, in turn."""
    times = take_turns(
        {name: partial(d.decode, plan.tokens) for name, d in decoders.items()}, plan.rounds
    )
    return [
        {"model": name, "batch": batch, **summary([t / plan.tokens for t in laps])}
        for name, laps in times.items()
    ]


def measure_long_context(plan: ModelPlan, models: dict[str, nn.Module]) -> list[dict]:
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
        first = cache.layers[0]
        first.update(keys, values)
        first.pack()
        for layer in cache.layers[1:]:
            layer.take(first)
        return cache

    entered = {(STOCK, "PyTorch"): Decoder(models[STOCK], plan, 1, plain())}
    name = name_of("bf16", 0.5)
    if name in models:
        caches = {"PyTorch": plain(), "dense kernel": packed(0.0, 0.0)}
        caches["pruned"] = packed(KEY_SPARSITY, VALUE_SPARSITY)
        entered |= {(name, c): Decoder(models[name], plan, 1, cache) for c, cache in caches.items()}
    calls = {f"{n}: {c}": partial(d.decode, plan.tokens) for (n, c), d in entered.items()}
    times = take_turns(calls, plan.rounds)
    return [
        {"model": n, "attention": c, "tokens": plan.long_context}
        | summary([t / plan.tokens for t in times[f"{n}: {c}"]])
        for n, c in entered
    ]


def measure_prompt(plan: ModelPlan, models: dict[str, nn.Module], length: int) -> list[dict]:
    """Seconds of the first pass over a prompt."""
    torch.manual_seed(4)
    prompt = torch.randint(0, plan.vocab_size, (1, length))
    calls = {
        name: partial(model, prompt, use_cache=True, logits_to_keep=1)
        for name, model in models.items()
    }
    times = take_turns(calls, max(2, plan.rounds // 2))
    return [{"model": name, "tokens": length, **summary(laps)} for name, laps in times.items()]


def measure_sparsities(plan: ModelPlan, known: dict[str, nn.Module]) -> list[dict]:
    """Seconds per token at batch 1 along the share of zeros, and of stock beside them."""
    if not plan.forms:
        return []
    shares = {
        f"{share:g}": known["sparse bf16"]
        if ("bf16", share) in plan.forms
        else packed_twin(known[STOCK], "bf16", share)
        for share in plan.sparsities
    }
    entered = {name: Decoder(m, plan, 1) for name, m in {STOCK: known[STOCK], **shares}.items()}
    rows = measure_decode(plan, entered, 1)
    for row in rows:
        row["sparsity"] = None if row["model"] == STOCK else float(row["model"])
        row["model"] = STOCK if row["model"] == STOCK else "sparse bf16"
    return rows


def measure_layers(plan: ModelPlan) -> list[dict]:
    """Seconds of one linear layer as in a model: a small operator of PyTorch follows each.

    The operator wakes PyTorch's threads, which then look for more work; its own time, measured in
    the same rounds, is taken off. Every kernel goes through ``plan.working_set`` bytes of weights.
    """
    rows = []
    between = torch.zeros(1 << 16)
    for inputs, outputs in plan.layers if plan.forms else ():
        noise = (0.02 * torch.randn(outputs, inputs)).to(torch.bfloat16)
        layer = nn.Linear(inputs, outputs, bias=False, device="meta")
        layer.weight = nn.Parameter(noise, requires_grad=False)
        count = -(-plan.working_set // (2 * noise.numel()))
        copies: dict[str, Sequence[nn.Module]] = {STOCK: [clone(layer) for _ in range(count)]}
        for form in ("bf16", "int8"):
            packed = SparseLinear.of(layer, 0.5, form)
            size = sum(part.numel() for _, part in packed.named_parts())
            count = -(-plan.working_set // size)
            copies[f"sparse {form}"] = [copy_of(packed) for _ in range(count)]
        for batch in plan.layer_batches:
            x = torch.randn(batch, inputs).to(torch.bfloat16)
            calls = {name: partial(sweep, layers, x, between) for name, layers in copies.items()}
            calls["between"] = partial(sweep, [torch.nn.Identity()] * 50, x, between)
            times = take_turns(calls, plan.rounds)
            own = median(times.pop("between")) / 50
            for name, laps in times.items():
                found = summary([lap / len(copies[name]) - own for lap in laps])
                rows.append(
                    {"inputs": inputs, "outputs": outputs, "batch": batch, "kernel": name, **found}
                )
    return rows


def sweep(layers: Sequence[nn.Module], x: Tensor, between: Tensor) -> None:
    """Every layer once, each followed by a small operator that PyTorch divides among threads."""
    for layer in layers:
        layer(x)
        between.add_(1)


def clone(layer: nn.Linear) -> nn.Linear:
    """A stock layer with weights of its own."""
    copy = nn.Linear(layer.in_features, layer.out_features, bias=False, device="meta")
    copy.weight = nn.Parameter(layer.weight.clone(), requires_grad=False)
    return copy


def take_turns(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of every call in every round; the first round warms up. Nobody waits or sleeps."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for lap in range(rounds + 1):
        for name, call in calls.items():
            start = perf_counter()
            call()
            if lap:
                times[name].append(perf_counter() - start)
    return times


def summary(laps: Sequence[float]) -> dict[str, float]:
    """Median, and how far the quartiles lie apart."""
    first, _, third = quantiles(laps, n=4, method="inclusive")
    middle = median(laps)
    return {"seconds": middle, "scatter": (third - first) / middle, "least": min(laps)}


def measure_operators(plan: ModelPlan, name: str, decoder: Decoder, batch: int) -> list[dict]:
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


def rounded(data: Any) -> Any:
    """The same data with five digits of every float: more than any of them is worth."""
    if isinstance(data, dict):
        return {key: rounded(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [rounded(value) for value in data]
    return float(f"{data:.5g}") if isinstance(data, float) else data
