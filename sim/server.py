"""A step of a model on a server: a token for every sequence of a batch, or their whole prompts.

GEMMs are those of ``tilewright.sim.xeon``. The rest, which no scheme touches, is attention, the
cache, and the small kernels around them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.deca import DecaParams, TileConfig
from tilewright.golden.params.llm import LlmShape
from tilewright.sim.calibration import cached, constant
from tilewright.sim.scheme import KV_FORMATS, KvBits, WeightScheme, cache_bytes
from tilewright.sim.system import Server
from tilewright.sim.workload import EXPERT, Gemm, Pass, add_by_name, attention, head, linear
from tilewright.sim.xeon import PAPER_DECA, RESOURCES, GemmTime, gemm, tile_cost

PLAIN = WeightScheme(name="bf16", config=TileConfig(code_bits=16))


@dataclass(frozen=True, kw_only=True)
class Projections:
    """The products with weights of one step: they follow from its rows, whatever the contexts.

    Times are in seconds.
    """

    products: tuple[GemmTime, ...]  # with compressed weights
    plain: tuple[GemmTime, ...]  # with bf16 weights: routers and the output head
    product_seconds: float
    plain_seconds: float
    fitted_seconds: float  # of those of all products that follow from fitted constants
    busy: dict[str, float]  # for which the compressed projections keep each resource busy
    bound: str  # of the longest of the compressed projections
    ms_by_part: dict[str, float]  # milliseconds, by the names of all products


@dataclass(frozen=True, kw_only=True)
class ServerSteps:
    """Times of several steps, in seconds: each field has an entry for each of them."""

    projections: tuple[Projections, ...]
    kernels: NDArray[np.float64]  # small ones between the GEMMs: a constant per layer and per token
    attention: NDArray[np.float64]  # scores, softmax and weighted values
    cache: NDArray[np.float64]  # every cached key and value passes once, every state twice
    cache_bytes: NDArray[np.float64]
    cache_moved: NDArray[np.float64]  # bytes of it that pass
    product_seconds: NDArray[np.float64]  # of the compressed projections
    rest: NDArray[np.float64]  # of everything that is no GEMM with weights
    seconds: NDArray[np.float64]  # of everything


def run_steps(
    machine: Server,
    engine: str,
    scheme: WeightScheme,
    model: LlmShape,
    steps: Sequence[Pass],
    *,
    kv: KvBits = KV_FORMATS["bf16"],
    params: DecaParams = PAPER_DECA,
) -> ServerSteps:
    """Return the time of each of these steps; those with as many rows share their projections.

    The output head and routers stay bf16. A token of a prompt attends to half of it; attention is
    then matrix products in bf16, for which there is no published figure. For a few tokens of a
    sequence the faster of both is taken, but no less than that of one token.
    """
    rows = np.array([step.rows for step in steps])
    per_row = constant("layer_us_per_sequence") * 1e-6 * machine.scale
    stored = np.array([cache_bytes(model, step.batch, kv) for step in steps], float)
    kernels = model.num_hidden_layers * (machine.layer_us * 1e-6 + rows * per_row)
    attending = _attention(machine, model, steps)
    drawn = min(machine.bandwidth * machine.rate("stream"), machine.cores * machine.core_bandwidth)
    state = model.delta.state_bytes if model.delta else 0
    moved = stored + [step.batch.sequences * state for step in steps]
    cache = moved / drawn
    parts = [
        projections(machine, engine, scheme, model, step.rows, step.heads, params) for step in steps
    ]
    products = np.array([part.product_seconds for part in parts])
    rest = kernels + attending + cache
    return ServerSteps(
        projections=tuple(parts),
        kernels=kernels,
        attention=attending,
        cache=cache,
        cache_bytes=stored,
        cache_moved=moved,
        product_seconds=products,
        rest=rest,
        seconds=products + np.array([part.plain_seconds for part in parts]) + rest,
    )


@cached(1 << 14)
def projections(
    machine: Server,
    engine: str,
    scheme: WeightScheme,
    model: LlmShape,
    rows: int,
    heads: int,
    params: DecaParams,
) -> Projections:
    """Return the products of ``rows`` tokens, ``heads`` of which go through the output head."""
    products, plain, seen = [], [], set()
    for part in _grouped(model, linear(model, rows)):
        if part.module == "router":
            plain.append(gemm(machine, "software", PLAIN, part))
            continue
        # Experts with one more token join the loop of the others.
        products.append(gemm(machine, engine, scheme, part, params, joins=part.name in seen))
        seen.add(part.name)
    plain.append(gemm(machine, "software", PLAIN, head(model, heads)))
    every = (*products, *plain)
    return Projections(
        products=tuple(products),
        plain=tuple(plain),
        product_seconds=sum(part.seconds for part in products),
        plain_seconds=sum(part.seconds for part in plain),
        fitted_seconds=sum(part.seconds for part in every if part.tile.fitted),
        busy={
            name: sum(part.seconds * part.tile.utilisation[name] for part in products)
            for name in RESOURCES
        },
        bound=max(products, key=lambda part: part.seconds).tile.bound,
        ms_by_part=add_by_name((part.gemm.name, 1e3 * part.seconds) for part in every),
    )


def _attention(machine: Server, model: LlmShape, steps: Sequence[Pass]) -> NDArray[np.float64]:
    if model.latent is None and all(step.new == 1 for step in steps):
        return _token_attention(machine, model, steps)
    found = []
    for step in steps:
        seconds = _matrix_attention(machine, model, step)
        if not step.prompt and model.latent is None:
            least, by_token = _token_attention(machine, model, [Pass(step.batch), step]).tolist()
            seconds = by_token if step.new == 1 else max(min(by_token, seconds), least)
        found.append(seconds)
    return np.array(found)


def _grouped(model: LlmShape, parts: list[Gemm]) -> Iterator[Gemm]:
    """Make one product of the chosen experts of a layer: cores need not synchronise after each."""
    for part in parts:
        if model.experts is None or not part.name.startswith(EXPERT):
            yield part
            continue
        layers = model.experts.layers
        outer = max(1, round(part.outer * part.count / layers))
        yield replace(part, outer=outer, count=layers)


def _token_attention(
    machine: Server, model: LlmShape, steps: Sequence[Pass]
) -> NDArray[np.float64]:
    """A constant for each multiply-add: half of one for scores and half of one for values."""
    groups = np.array(
        [
            (k, sequences, step.queries(tokens), tokens)
            for k, step in enumerate(steps)
            for sequences, tokens in step.batch.groups
        ],
        float,
    )
    number, sequences, queries, tokens = groups.T
    near = model.sliding_layers if model.sliding_window is not None else 0
    keys = (model.attention_layers - near) * tokens
    if near and model.sliding_window is not None:
        keys = keys + near * np.minimum(tokens, model.sliding_window)
    width = model.num_attention_heads * model.head_dim
    # Whole numbers below 2^53 for any real model, so that no order of these products rounds.
    pairs = sequences * queries * keys * width
    found = np.bincount(number.astype(int), pairs, len(steps)).astype(np.float64)
    return found * constant("attention_ps_per_query_element") * 1e-12 * machine.scale


def _matrix_attention(machine: Server, model: LlmShape, step: Pass) -> float:
    """Matrix products in bf16, without softmax.

    For prompts, in which a token attends to those before it or to a window, and for single tokens
    whose heads all attend to the same vectors (MLA), which are the rows of a tile.
    """
    total = 0.0
    for sequences, tokens in step.batch.groups:
        queries = step.queries(tokens)
        for part in attention(model, sequences, queries, tokens):
            seen = part.outer if part.name == "scores" else part.inner
            causal = queries > 1 and part.name != "state"
            share = _met(queries, tokens, seen) if causal else 1.0
            total += share * _matrix_seconds(machine, part)
    return total


def _met(queries: int, tokens: int, window: int) -> float:
    """Share of ``window`` keys that the last ``queries`` of ``tokens`` tokens see on average."""

    def pairs(end: int) -> float:
        """Keys that all tokens up to ``end`` see, each those before it in its window."""
        near = min(end, window)
        return near * near / 2 + window * (end - near)

    return (pairs(tokens) - pairs(tokens - queries)) / (queries * window)


def _matrix_seconds(machine: Server, product: Gemm) -> float:
    """Tiles of all repetitions at the rate of a large product, spread over the cores."""
    cost = tile_cost(machine, "software", PLAIN, product.rows, inner=product.inner)
    return product.matrix / PLAIN.tile_weights * cost.cycles / (machine.cores * machine.clock)
