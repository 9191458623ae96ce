"""A step of a model on a server: a token for every sequence of a batch, or their whole prompts.

GEMMs are those of ``tilewright.sim.xeon``. The rest, which no scheme touches, is attention, the
cache, and the small kernels around them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.golden.params.deca import DecaParams, TileConfig
from tilewright.golden.params.llm import LlmShape
from tilewright.sim.calibration import constant
from tilewright.sim.kv_format import KV_FORMATS, KvFormat, cache_bytes
from tilewright.sim.scheme import WeightScheme
from tilewright.sim.system import Server
from tilewright.sim.workload import EXPERT, Batch, Gemm, Pass, attention, head, linear
from tilewright.sim.xeon import PAPER_DECA, GemmTime, gemm, tile_cost

__all__ = ["ServerStep", "run_step"]

PLAIN = WeightScheme(name="bf16", config=TileConfig(code_bits=16))


@dataclass(frozen=True, kw_only=True)
class ServerStep:
    """Time of one step, in seconds."""

    products: tuple[GemmTime, ...]  # with compressed weights
    plain: tuple[GemmTime, ...]  # with bf16 weights: routers and the output head
    kernels: float  # small ones between the GEMMs: a constant per layer and per token
    attention: float  # scores, softmax and weighted values
    cache: float  # every cached key and value passes once

    @property
    def product_seconds(self) -> float:
        """Time of the compressed projections."""
        return sum(part.seconds for part in self.products)

    @property
    def rest(self) -> float:
        """Time of everything that is no GEMM with weights."""
        return self.kernels + self.attention + self.cache

    @property
    def seconds(self) -> float:
        """Time of everything."""
        return self.product_seconds + sum(part.seconds for part in self.plain) + self.rest


def run_step(
    machine: Server,
    engine: str,
    scheme: WeightScheme,
    model: LlmShape,
    batch: Batch,
    *,
    new: int | None = 1,
    kv: KvFormat = KV_FORMATS["bf16"],
    params: DecaParams = PAPER_DECA,
) -> ServerStep:
    """Return the time of the last ``new`` tokens of each sequence, or with None of all of them.

    The output head and routers stay bf16. A token of a prompt meets half of it; attention is then
    matrix products in bf16, of which no published figure tells. Where a few tokens of a sequence
    are computed, the faster of both is taken, but no less than that of one token.
    """
    step = Pass(batch, new)
    rows = step.rows
    parts = [*_grouped(model, linear(model, rows))]
    plain = [part for part in parts if part.module == "router"] + [head(model, step.heads)]
    per_row = constant("layer_us_per_sequence") * 1e-6
    if step.prompt or model.latent is not None:
        meeting = _matrix_attention(machine, model, step)
    else:
        meeting = _token_attention(model, step)
        if new != 1:
            meeting = min(meeting, _matrix_attention(machine, model, step))
            meeting = max(meeting, _token_attention(model, Pass(batch)))
    return ServerStep(
        products=tuple(_products(machine, engine, scheme, params, parts)),
        plain=tuple(gemm(machine, "software", PLAIN, part) for part in plain),
        kernels=model.num_hidden_layers * (machine.rate("layer_time") * 1e-6 + rows * per_row),
        attention=meeting,
        cache=cache_bytes(model, batch, kv.bits) / (machine.bandwidth * machine.rate("stream")),
    )


def _products(
    machine: Server, engine: str, scheme: WeightScheme, params: DecaParams, parts: list[Gemm]
) -> Iterator[GemmTime]:
    """Yield the compressed products; experts with one more token join the loop of the others."""
    seen = set()
    for part in parts:
        if part.module != "router":
            yield gemm(machine, engine, scheme, part, params, joins=part.name in seen)
            seen.add(part.name)


def _grouped(model: LlmShape, parts: list[Gemm]) -> Iterator[Gemm]:
    """Make one product of the chosen experts of a layer: cores need not meet after each of them."""
    for part in parts:
        if model.experts is None or not part.name.startswith(EXPERT):
            yield part
            continue
        layers = model.experts.layers
        outer = max(1, round(part.outer * part.count / layers))
        yield replace(part, outer=outer, count=layers)


def _token_attention(model: LlmShape, step: Pass) -> float:
    """A constant for each multiply-add: half of one for scores and half of one for values."""
    pairs = sum(
        part.macs
        for sequences, tokens in step.batch.groups
        for part in attention(model, sequences, step.queries(tokens), tokens)
    )
    return pairs / 2 * constant("attention_ps_per_query_element") * 1e-12


def _matrix_attention(machine: Server, model: LlmShape, step: Pass) -> float:
    """Matrix products in bf16, without softmax.

    So for prompts, of which a token meets those before it or as many as a window has, and for
    single tokens whose heads all meet the same vectors (MLA), which makes up the rows of a tile.
    """
    total = 0.0
    for sequences, tokens in step.batch.groups:
        queries = step.queries(tokens)
        for part in attention(model, sequences, queries, tokens):
            seen = part.outer if part.name == "scores" else part.inner
            share = _met(queries, tokens, seen) if queries > 1 else 1.0
            total += share * _matrix_seconds(machine, part)
    return total


def _met(queries: int, tokens: int, window: int) -> float:
    """Share of ``window`` keys that the last ``queries`` of ``tokens`` tokens meet on average."""

    def pairs(end: int) -> float:
        """Keys that all tokens up to ``end`` meet, each those before it in its window."""
        near = min(end, window)
        return near * near / 2 + window * (end - near)

    return (pairs(tokens) - pairs(tokens - queries)) / (queries * window)


def _matrix_seconds(machine: Server, product: Gemm) -> float:
    """Tiles of all repetitions at the rate of a large product, spread over the cores."""
    cost = tile_cost(machine, "software", PLAIN, product.rows, inner=product.inner)
    return product.matrix / PLAIN.tile_weights * cost.cycles / (machine.cores * machine.clock)
