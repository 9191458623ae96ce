"""Our systems as LLMServingSim reads them.

LLMServingSim 2 takes a model on a system as a profile bundle, one table for each kind of kernel.
Times are microseconds of one layer, or of the whole model for the output head. Our model's one time
for all small kernels of a layer is at ``rotary_emb``, which a layer runs once. So do norms,
rotations and conversions where an accelerator's programs have times for them; elsewhere they take
none, nor does the sampler. Mixed passes are the sum of their prompt and their tokens.

Experts are a table by tokens and by how many experts these chose, router included. LLMServingSim
has architectures whose layers all have experts, none shared, and none with latent attention.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tilewright.golden.params.block import require
from tilewright.golden.params.llm import Experts, LlmShape
from tilewright.sim.llm import LlmResult, answer_passes
from tilewright.sim.target import Target
from tilewright.sim.workload import EXPERT, Batch, Pass

MOST_TOKENS, MOST_SEQUENCES, LONGEST = 2048, 256, 16384
ATTENTION = ("attention", "cache", "scores", "values")
PROJECTIONS = {
    "qkv_proj": ("q", "k", "v"),
    "o_proj": ("o",),
    "rotary_emb": ("small kernels", "norms", "rotation", "conversions", "silu"),
}
FEED_FORWARD = {"gate_up_proj": ("gate", "up"), "act_fn": (), "down_proj": ("down",)}
EXPERTS = ("router", *(EXPERT + name for name in ("gate", "up", "down")))
NOTHING = ("embedding", "layernorm", "qk_norm", "final_layernorm")
WITH_EXPERTS = ("mixtral", "phimoe", "qwen3_moe")  # architectures that LLMServingSim has


@dataclass(frozen=True)
class _Chosen(Experts):
    distinct: int = 1

    def expected_distinct(self, tokens: int) -> float:
        return float(self.distinct)


def serving_sim_files(
    target: Target, model: LlmShape, *, scheme: str | None = None, kv: str | None = None
) -> dict[str, str]:
    """Return the files of a bundle by path; an accelerator's times are those of the formula."""
    _check(model)
    target = replace(target, formula=target.server is None)

    def run(sequences: int, tokens: int, new: int | None, shape: LlmShape = model) -> LlmResult:
        work = Pass(Batch(((sequences, tokens),)), new)
        return answer_passes(target, shape, [work], scheme=scheme, kv=kv)[0]

    folder = f"{target.system}/{model.name}/bf16"
    meta = {
        "profiler_version": "synthetic: tilewright",
        "vllm_version": "n/a",
        "gpu": "n/a",
        "hardware": target.system,
        "variant": "bf16",
        "model": model.name,
        "tp_degrees": [1],
        "scheme": run(1, 1, 1).scheme,  # how weights are stored
        "engine_effective": {"max_num_batched_tokens": MOST_TOKENS, "max_num_seqs": MOST_SEQUENCES},
    }
    layers = model.num_hidden_layers
    rows = {rows: run(rows, 1, 1) for rows in _doubling(1, MOST_TOKENS)}
    few = [count for count in rows if count <= MOST_SEQUENCES]
    parts = PROJECTIONS | (FEED_FORWARD if model.experts is None else {})
    files = {f"{folder}/meta.yaml": json.dumps(meta, indent=2) + "\n"}

    def add(name: str, header: str, found: Iterable[Sequence[object]]) -> None:
        files[f"{folder}/tp1/{name}.csv"] = _csv(header.split(), found)

    add("dense", "layer tokens time_us", _dense(rows, layers, parts))
    heads = [("lm_head", count, _us(rows[count], ("head",))) for count in few]
    samplers = [("sampler", count, 0.0) for count in few]
    add("per_sequence", "layer sequences time_us", [*heads, *samplers])
    header = "prefill_chunk kv_prefill n_decode kv_decode time_us"
    add("attention", header, _attention(run, layers))
    if model.experts is not None:
        add("moe", "tokens activated_experts time_us", _experts(run, model, model.experts))
    return files


def _check(model: LlmShape) -> None:
    e = model.experts
    require(
        model.latent is None,
        f"{model.name} has latent attention, for which LLMServingSim 2 has no architecture",
    )
    require(
        e is None
        or (model.model_type in WITH_EXPERTS and not e.shared_width and not model.dense_layers),
        f"{model.name} is a {model.model_type}; of experts LLMServingSim 2 has the architectures"
        f" {', '.join(WITH_EXPERTS)}, with experts in every layer and none shared",
    )


def _experts(
    run: Callable[..., LlmResult], model: LlmShape, experts: Experts
) -> Iterator[tuple[int | float, ...]]:
    """Every number of tokens with every number of experts that they can have chosen."""
    counts = sorted({*_doubling(experts.per_token, experts.count), experts.count})
    for distinct in counts:
        shape = replace(model, experts=_Chosen(**vars(experts), distinct=distinct))
        for tokens in _doubling(1, MOST_TOKENS):
            if distinct <= tokens * experts.per_token:
                found = run(tokens, 1, 1, shape)
                yield tokens, distinct, _us(found, EXPERTS) / experts.layers


def _us(found: LlmResult, parts: Sequence[str]) -> float:
    return 1e3 * sum(found.ms_by_part.get(part, 0.0) for part in parts)


def _dense(
    rows: Mapping[int, LlmResult], layers: int, parts_of: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, int, float]]:
    for name in NOTHING:
        yield from ((name, tokens, 0.0) for tokens in rows)
    for name, parts in parts_of.items():
        yield from ((name, tokens, _us(found, parts) / layers) for tokens, found in rows.items())


def _attention(run: Callable[..., LlmResult], layers: int) -> Iterator[tuple[int | float, ...]]:
    """Every chunk of a prompt after every history, alone and together with decoding ones."""
    chunks: dict[tuple[int, int], float] = {(0, 0): 0.0}
    for chunk, history in product(_doubling(16, MOST_TOKENS, 4), (0, *_doubling(256, LONGEST, 4))):
        found = run(1, history + chunk, None if not history else chunk)
        chunks[chunk, history] = _us(found, ATTENTION) / layers
    steps: dict[tuple[int, int], float] = {(0, 0): 0.0}
    for sequences, keys in product(_doubling(1, MOST_SEQUENCES, 4), _doubling(16, LONGEST, 4)):
        steps[sequences, keys] = _us(run(sequences, keys, 1), ATTENTION) / layers
    for (prompt, first), (decode, second) in product(chunks.items(), steps.items()):
        if prompt[0] or decode[0]:
            yield *prompt, *decode, first + second


def _doubling(low: int, high: int, factor: int = 2) -> list[int]:
    found = [low]
    while found[-1] * factor <= high:
        found.append(found[-1] * factor)
    return found


def _csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow([f"{v:.6g}" if isinstance(v, float) else v for v in row])
    return text.getvalue()
