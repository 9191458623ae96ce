"""One decoder layer of any size as programs, one behind the other: cycles of each.

Layers that do not fit the memories pass through external memory between products: norms, rotation
and SiLU (``tilewright.golden.harmonia_machine.layer_work``), products of any size (``tiled_gemm``),
attention head by head. Each is a program that the accelerator streams from external memory and
ends before the next begins; within one, all units work at the same time.

A product of many blocks repeats itself: behind the first few, every block takes as long as the one
before it. So a few blocks tell how long any number of them takes.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import lcm
from typing import Any, NamedTuple

import numpy as np

from tilewright.golden.anda_machine.attention import Attention as AndaAttention
from tilewright.golden.anda_machine.deep_gemm import DeepGemm
from tilewright.golden.anda_machine.layer_work import LayerWork as AndaWork
from tilewright.golden.anda_machine.tiled_gemm import TiledGemm as AndaGemm
from tilewright.golden.harmonia_machine.decode_attention import CachedHead, decode_attention
from tilewright.golden.harmonia_machine.grouped_attention import grouped_attention
from tilewright.golden.harmonia_machine.isa import Instruction
from tilewright.golden.harmonia_machine.layer_work import LayerWork, beside
from tilewright.golden.harmonia_machine.tiled_gemm import TiledGemm as HarmoniaGemm
from tilewright.golden.params.anda_machine import FP16_ROWS, AndaParams
from tilewright.golden.params.harmonia_machine import Dataflow, HarmoniaParams
from tilewright.golden.params.llm import LlmShape
from tilewright.sim.kept_times import kept
from tilewright.sim.programs import fastest, gemm_programs
from tilewright.sim.schedule import AnyParams, ProgramTime, program_time
from tilewright.sim.workload import Gemm

__all__ = [
    "ENOUGH",
    *("anda_glue", "anda_norm_time", "decoded_glue"),
    *("anda_decode_attention", "decode_attention_time", "extrapolated", "gathering_time"),
    *("layer_glue", "norm_time"),
    *("beside_products", "prompt_attention", "streamed_gemm_time", "unsupported"),
]

ENOUGH = 5  # blocks of a product, or token tiles of other work, to know what one more takes
INNER = 6  # iterations of a product's inner loop, to know what two more take
MANY = 16  # blocks of tokens, of which any number more is known from two of these
MOST_BESIDE = 64  # tokens of a step that decodes
FAR = 1 << 30  # lines between tensors: no two of them share one


def unsupported(model: LlmShape, longest: int) -> str:
    """Why no programs of whole layers are written for a model; empty where they are."""
    if model.experts or model.latent:
        return "no programs for experts or latents"
    if model.model_type not in ("llama", "mistral") or model.query_norm or model.layer_norms != 2:
        return "no programs for layers other than LLaMA's"
    if model.query_bias or model.output_bias or model.feed_forward_bias or model.attention_sinks:
        return "no programs for biases"
    if model.sliding_window is not None and longest > model.sliding_window and model.sliding_layers:
        return "no programs for windows that slide"
    return ""


# Products.


def streamed_gemm_time(
    params: AnyParams, product: Gemm, *, latency: int, length: int = 8, result: int | None = None
) -> ProgramTime:
    """One of ``product``'s repetitions as one program in external memory, in the faster order.

    ``length`` is Anda's mantissa, ``result`` that of what it leaves; by default the same.
    """
    sizes = (product.inner, product.outer, length, length if result is None else result)
    return fastest(
        Dataflow,
        lambda flow, large: _product(params, product.rows, _Shape(*sizes, flow, large), latency),
    )


class _Shape(NamedTuple):
    """A product of any number of rows, and how its programs go through it."""

    inner: int
    outer: int
    length: int  # Anda's mantissa
    result: int  # that of what it leaves
    flow: Dataflow
    large_blocks: bool

    def gemm(self, params: AnyParams, rows: int) -> AndaGemm | HarmoniaGemm:
        """Return its programs."""
        product = Gemm(
            name="product", module="other", rows=rows, inner=self.inner, outer=self.outer
        )
        found = gemm_programs(
            params, product, self.flow, self.length, large_blocks=self.large_blocks
        )
        return replace(found, result=self.result) if isinstance(found, AndaGemm) else found


@lru_cache(maxsize=1 << 15)  # sweeps over prompts have thousands of sizes
def _product(params: AnyParams, rows: int, shape: _Shape, latency: int) -> ProgramTime:
    """A product of many blocks of tokens, from two of fewer blocks with the same rest.

    Whichever loop is outside, two blocks more take as long as the two before them.
    """
    two = 2 * params.rows * _block_tiles(params, shape)
    more = (rows - MANY * two // 2) // two
    if more < 2:
        return _few_blocks(params, rows, shape, latency)
    counts = (rows - more * two, rows - (more - 1) * two)
    a, b = (_product(params, count, shape, latency) for count in counts)
    return extrapolated(a, b, more - 1)


@lru_cache(maxsize=256)
def _block_tiles(params: AnyParams, shape: _Shape) -> int:
    """Token tiles of a block where there are more tokens than one of them has."""
    tiles = blocks = 1
    while blocks < 2 * MANY:
        tiles *= 4
        found = shape.gemm(params, tiles * params.rows).blocks
        blocks = len(found)
    return found[0]


def _few_blocks(params: AnyParams, rows: int, shape: _Shape, latency: int) -> ProgramTime:
    whole = shape.gemm(params, rows)
    tokens_first = _tokens_outside(whole)
    outside = _iterations(whole, tokens_first)
    if outside > ENOUGH:
        few, fewer = (_shorter(whole, tokens_first, outside - n) for n in (ENOUGH, ENOUGH - 1))
        if few is not None and fewer is not None:
            a, b = (_inner(gemm, latency) for gemm in (few, fewer))
            return extrapolated(b, a, outside - ENOUGH)
    return _inner(whole, latency)


def _inner(gemm: AndaGemm | HarmoniaGemm, latency: int) -> ProgramTime:
    """A product of few iterations of its outer loop, whose inner loop repeats itself too.

    Two iterations there have the two halves of a buffer, so that they are left out in pairs.
    """
    tokens = not _tokens_outside(gemm)
    count = _iterations(gemm, tokens)
    first = INNER + count % 2
    if count > first + 2:
        few, more = (_shorter(gemm, tokens, count - n) for n in (first, first + 2))
        if few is not None and more is not None:
            a, b = (_counted(short, latency) for short in (few, more))
            return extrapolated(a, b, (count - first) // 2 - 1)
    return _counted(gemm, latency)


@lru_cache(maxsize=4096)
def _counted(gemm: AndaGemm | HarmoniaGemm, latency: int) -> ProgramTime:
    """Every instruction; products of many lengths have the same few repetitions."""
    return program_time(gemm.params, gemm.program(), latency)


def extrapolated(fewer: ProgramTime, few: ProgramTime, more: int) -> ProgramTime:
    """Return ``few`` and so many repetitions more, each as what ``few`` has beside ``fewer``."""
    return replace(few.plus(few.plus(fewer, -1), more), programs=1)


def _tokens_outside(gemm: AndaGemm | HarmoniaGemm) -> bool:
    if isinstance(gemm, AndaGemm):
        return not gemm.weights_stay or type(gemm) is not AndaGemm  # a deep one has one order
    return gemm.dataflow is Dataflow.ROW_MAJOR


def _iterations(gemm: AndaGemm | HarmoniaGemm, tokens: bool) -> int:
    """Blocks of tokens, or parts of the weights."""
    return len(gemm.blocks if tokens else gemm.parts)


def _shorter(
    gemm: AndaGemm | HarmoniaGemm, tokens: bool, less: int
) -> AndaGemm | HarmoniaGemm | None:
    """Return the same product with fewer blocks of tokens, or parts of weights.

    None where these would be others.
    """
    short: AndaGemm | HarmoniaGemm
    if tokens:
        short = replace(gemm, tokens=gemm.tokens - less * gemm.blocks[0] * gemm.params.rows)
        same = short.blocks == gemm.blocks[less:] and short.parts == gemm.parts
    else:
        each = gemm.parts[0] * (1 if isinstance(gemm, AndaGemm) else gemm.params.columns)
        short = replace(gemm, outputs=gemm.outputs - less * each)
        same = short.parts == gemm.parts[less:] and short.blocks == gemm.blocks
    return short if same else None


# What is between products.


def layer_glue(
    params: HarmoniaParams, model: LlmShape, tokens: int, latency: int
) -> dict[str, ProgramTime]:
    """Norms, rotation, SiLU and conversions of one layer."""

    def rotation(work: LayerWork, count: int) -> None:
        _rotate(work, model, count)

    def silu(work: LayerWork, count: int) -> None:
        work.gated(count, model.intermediate_size, gate=0, up=FAR, results=2 * FAR)

    def conversions(work: LayerWork, count: int) -> None:
        work.activations(count, model.query_width, source=0, results=FAR)

    return {
        "norms": norm_time(params, model, tokens, latency).times(2),
        "rotation": _work(params, rotation, tokens, latency),
        "conversions": _work(params, conversions, tokens, latency),
        "silu": _work(params, silu, tokens, latency),
    }


@kept
def gathering_time(
    params: HarmoniaParams, heads: int, channels: int, sequences: int, latency: int
) -> ProgramTime:
    """What conversions take more where attention has left every head in a bank of its own."""
    full, rest = divmod(sequences, params.rows)
    total = None
    for tokens, times in ((params.rows, full), (rest, 1)):
        if not tokens or not times:
            continue
        apart, together = _Unchecked(params), _Unchecked(params)
        lines = [
            [((head * tokens + token) << 16, head % params.rows) for token in range(tokens)]
            for head in range(heads)
        ]
        apart.gathered(lines, channels, results=FAR)
        together.activations(tokens, heads * channels, source=0, results=FAR)
        long, short = (program_time(params, x.program, latency) for x in (apart, together))
        more = long.plus(short, -1)
        total = more.times(times) if total is None else total.plus(more, times)
    assert total is not None
    return total


@lru_cache(maxsize=1024)  # that of the head is the same for all prompts of a batch
def norm_time(params: HarmoniaParams, model: LlmShape, tokens: int, latency: int) -> ProgramTime:
    """A norm, with the residual sum before it."""

    def norm(work: LayerWork, count: int) -> None:
        work.norm(count, model.hidden_size, source=0, gain=FAR, results=2 * FAR, added=3 * FAR)

    return _work(params, norm, tokens, latency)


def _rotate(work: LayerWork, model: LlmShape, tokens: int) -> None:
    """Queries and keys of all heads."""
    of_keys = model.num_attention_heads
    both = of_keys + model.num_key_value_heads
    heads = [(head * (1 << 24), int(head >= of_keys)) for head in range(both)]
    work.rotate(tokens, heads, model.head_dim, (1 << 35, 1 << 36))


def beside_products(
    params: HarmoniaParams, model: LlmShape, tokens: int, latency: int
) -> dict[str, ProgramTime]:
    """Work that goes beside products of a step that decodes; with what is left of it behind them.

    ``v`` has the rotation of queries and keys beside it, ``up`` the SiLU of the gate, of which the
    product with ``up`` and its conversion are left. Nothing where the results of a product take
    more than half of the memory that both share, or where there are many tokens.
    """
    if tokens > MOST_BESIDE:
        return {}
    width, inner = model.hidden_size, model.intermediate_size

    def silu(work: LayerWork) -> None:
        work.silu(tokens, inner, source=1 << 35)

    def product(work: LayerWork, count: int) -> None:
        work.multiplied(count, inner, a=0, b=FAR, results=2 * FAR)

    found: dict[str, ProgramTime] = {}
    rotated = _beside(
        params, tokens, width, model.kv_width, lambda x: _rotate(x, model, tokens), latency
    )
    if rotated is not None:
        found |= {"v": rotated}
    gated = _beside(params, tokens, width, inner, silu, latency)
    if gated is not None:
        found |= {"up": gated, "silu": _work(params, product, tokens, latency)}
    return found


def _beside(
    params: HarmoniaParams,
    tokens: int,
    inputs: int,
    outputs: int,
    write: Callable[[LayerWork], None],
    latency: int,
) -> ProgramTime | None:
    """A product with other work beside it, in the faster order."""
    product = Gemm(name="product", module="other", rows=tokens, inner=inputs, outer=outputs)
    times = []
    for flow in Dataflow:
        gemm = gemm_programs(params, product, flow)
        assert isinstance(gemm, HarmoniaGemm)
        if gemm.result_rows > params.halves_rows // 2:
            return None
        work = _Unchecked(params, first_region=params.regions // 2)
        write(work)
        times.append(program_time(params, beside(gemm.program(), work.program), latency))
    return min(times, key=lambda time: time.cycles)


class _Unchecked(LayerWork):
    """Tests look at the hazards of such programs; here they are written a thousand times."""

    def first_hazard(self, program: Sequence[Instruction]) -> None:
        return None


def _work(
    params: HarmoniaParams, write: Callable[[LayerWork, int], None], tokens: int, latency: int
) -> ProgramTime:
    """Cycles of work on so many tokens."""

    def time(tiles: int) -> ProgramTime:
        work = _Unchecked(params)
        write(work, tiles * params.rows)
        return program_time(params, work.program, latency)

    # Token tiles share the regions of the memories in turn, and come to the same place again.
    return _of_tiles(time, -(-tokens // params.rows), params.regions)


def _of_tiles(time: Callable[[int], ProgramTime], tiles: int, turn: int) -> ProgramTime:
    """Return the time of so many tiles; behind the first ones each ``turn`` takes as long."""
    first = ENOUGH + (tiles - ENOUGH) % turn
    if tiles <= first + turn:
        return time(tiles)
    return extrapolated(time(first), time(first + turn), (tiles - first) // turn - 1)


# The same on Anda.


def anda_glue(
    params: AndaParams,
    model: LlmShape,
    tokens: int,
    lengths: dict[str, int],
    latency: int,
    prompt: bool,
) -> dict[str, ProgramTime]:
    """Norms, rotation and SiLU of one layer; of a prompt what goes to the cache, and conversions.

    For decoded tokens, these are :func:`decoded_glue`.
    """
    channels, heads = model.head_dim, (model.num_attention_heads, model.num_key_value_heads)
    width, inner = model.hidden_size, model.intermediate_size
    places = [k << 24 for k in range(heads[1])]

    def time(outputs: int, inputs: int, write: Callable[[AndaWork, int], None]) -> ProgramTime:
        return _anda_work(params, write, tokens, latency, _side_by_side(params, inputs, outputs))

    def queries(work: AndaWork, count: int) -> None:
        work.rotate(count, heads[0], channels, source=0, table=FAR)

    def keys(work: AndaWork, count: int) -> None:
        cache = places if prompt else None
        work.rotate(count, heads[1], channels, source=0, table=FAR, cache=cache)

    def values(work: AndaWork, count: int) -> None:
        work.place(count, channels, source=FAR, cache=places)

    def silu(work: AndaWork, count: int) -> None:
        files = {"gate": 0, "up": FAR, "results": 2 * FAR}
        work.gated(count, inner, mantissa=lengths["d"], **files)

    def attended(work: AndaWork, count: int) -> None:
        work.activations(count, model.query_width, mantissa=lengths["o"], source=0, results=FAR)

    norms = [anda_norm_time(params, model, tokens, lengths[m], latency) for m in ("qkv", "u")]
    found = {
        "norms": norms[0] + norms[1],
        "rotation": time(model.query_width, width, queries) + time(model.kv_width, width, keys),
    }
    if prompt:
        found["cache"] = time(model.kv_width, width, values)
        found["conversions"] = time(model.query_width, width, attended)
    return found | {"silu": time(inner, width, silu)}


@lru_cache(maxsize=1024)
def anda_norm_time(
    params: AndaParams, model: LlmShape, tokens: int, mantissa: int, latency: int
) -> ProgramTime:
    """A norm, with the residual sum before it."""
    lines = {"source": 0, "gain": FAR, "results": 2 * FAR, "added": 3 * FAR}

    def norm(work: AndaWork, count: int) -> None:
        work.norm(count, model.hidden_size, mantissa=mantissa, **lines)

    run = _side_by_side(params, model.intermediate_size, model.hidden_size)
    return _anda_work(params, norm, tokens, latency, run)


def decoded_glue(
    params: AndaParams, model: LlmShape, sequences: int, mantissa: int, latency: int
) -> dict[str, ProgramTime]:
    """A decoded token of each sequence: queries to all banks, keys and values to the cache.

    Behind attention, results of all sequences come into token tiles. Queries are then loaded from
    rows of all banks, which takes as long as from words for every bank.
    """
    full, rest = divmod(sequences, params.rows)
    size = model.head_dim, model.num_attention_heads, model.num_key_value_heads
    total: dict[str, ProgramTime] = {}
    for banks, times in ((params.rows, full), (rest, 1)):
        if not banks or not times:
            continue
        for name, time in _banks(params, *size, banks, mantissa, latency).items():
            more = time.times(times)
            total[name] = total[name] + more if name in total else more
    return total


@kept
def _banks(
    params: AndaParams,
    channels: int,
    heads: int,
    kv_heads: int,
    banks: int,
    mantissa: int,
    latency: int,
) -> dict[str, ProgramTime]:
    """Tokens of a token tile with so many."""

    def lines(count: int) -> list[list[int]]:
        return [[(h * banks + k) << 16 for k in range(banks)] for h in range(count)]

    def time(work: AndaWork) -> ProgramTime:
        return program_time(params, work.program, latency)

    spread, append, gather = (AndaWork(params) for _ in range(3))
    spread.spread(channels, source=0, ones=FAR, results=lines(heads))
    places = list(range(banks))
    append.append(channels, source=0, ones=FAR, cache=lines(kv_heads), places=places)
    place, width = {"mantissa": mantissa, "results": 2 * FAR}, heads * channels
    if banks == 1:
        gather.activations(1, width, source=0, **place)
    else:
        gather.gather(width, sources=[k << 24 for k in places], ones=FAR, **place)
    return {"cache": time(spread) + time(append).times(2), "conversions": time(gather)}


def _anda_work(
    params: AndaParams,
    write: Callable[[AndaWork, int], None],
    tokens: int,
    latency: int,
    run: int,
) -> ProgramTime:
    def time(tiles: int) -> ProgramTime:
        work = AndaWork(params, run)
        write(work, tiles * params.rows)
        return program_time(params, work.program, latency)

    return _of_tiles(time, -(-tokens // params.rows), 2)  # pieces have two places in turn


def _side_by_side(params: AndaParams, inputs: int, outputs: int) -> int:
    """Rows of a product's results that lie side by side: those of a part."""
    product = Gemm(name="product", module="other", rows=params.rows, inner=inputs, outer=outputs)
    gemm = gemm_programs(params, product, Dataflow.ROW_MAJOR)
    if isinstance(gemm, DeepGemm):
        return FP16_ROWS
    assert isinstance(gemm, AndaGemm)
    return -(-gemm.parts[0] // params.group) * FP16_ROWS


# Attention.


@kept
def prompt_attention(
    params: HarmoniaParams, sharing: int, tokens: int, channels: int, latency: int
) -> ProgramTime | None:
    """Heads that share keys and values, over a whole prompt; None where that does not fit."""
    nothing: Any = np.zeros((sharing, tokens, channels), np.uint16)
    try:
        found = grouped_attention(
            params, nothing, nothing[0], nothing[0], prompt=tokens, checked=False
        )
    except ValueError:
        return None
    return program_time(params, found.builder.program, latency)


def decode_attention_time(
    params: HarmoniaParams,
    sharing: int,
    tokens: int,
    channels: int,
    heads: int,
    sequences: int,
    latency: int,
) -> ProgramTime | None:
    """One more token, the last of ``tokens``, of all heads of keys and values of a layer.

    Sequences are taken to stand a token apart, so that those of a token tile have a bank each.
    None where two of their caches do not fit the memories.
    """
    full, rest = divmod(sequences, params.rows)
    total = None
    for count, times in ((params.rows, full), (rest, 1)):
        if count and times:
            one = _decoded(params, sharing, tokens, channels, heads, count, latency)
            if one is None:
                return None
            total = one.times(times) if total is None else total.plus(one, times)
    return total


@kept
def _decoded(
    params: HarmoniaParams,
    sharing: int,
    tokens: int,
    channels: int,
    heads: int,
    sequences: int,
    latency: int,
) -> ProgramTime | None:
    """Sequences of one token tile.

    Behind the first few heads, every two take as long as those before them: two caches, and two
    heads' scores, have places in turn.
    """
    first = (tokens - 1) // params.rows * params.rows + 1
    lengths = [tokens] if sequences == 1 else [first + k for k in range(sequences)]
    each = [CachedHead.empty(params, n - 1, channels, sharing) for n in lengths]

    def time(count: int) -> ProgramTime:
        found = decode_attention(params, lengths, [each] * count, checked=False)
        return program_time(params, found.builder.program, latency)

    few = ENOUGH + 1 - (ENOUGH + 1 - heads) % 2
    try:
        if heads <= few + 2:
            return time(heads)
        return extrapolated(time(few), time(few + 2), (heads - few) // 2 - 1)
    except ValueError:
        return None


@kept
def anda_decode_attention(
    params: AndaParams, heads: int, kv_heads: int, tokens: int, channels: int, latency: int
) -> ProgramTime | None:
    """One more token of one sequence in one layer in fp16 on Anda's vector lanes, all heads.

    None if impossible. Behind the first heads, as many as bring their queries together take as
    long as those before them.
    """
    sharing = heads // kv_heads

    def attended(count: int) -> AndaAttention:
        return AndaAttention(
            params=params,
            heads=count * sharing,
            kv_heads=count,
            head_dim=channels,
            context=tokens,
        )

    def time(count: int) -> ProgramTime:
        return program_time(params, attended(count).program(), latency)

    try:
        turn = lcm(2, attended(1).turn)
        few = ENOUGH + (kv_heads - ENOUGH) % turn
        if kv_heads <= few + turn:
            return time(kv_heads)
        return extrapolated(time(few), time(few + turn), (kv_heads - few) // turn - 1)
    except ValueError:
        return None
