"""A pass of a whole model on Anda or Harmonia: the cycles of the programs that would run.

:func:`step_time` is what ``tilewright llm`` answers with, for any batch, decoding or a prompt::

    from tilewright.golden.params.harmonia_machine import HarmoniaParams
    from tilewright.sim.models import resolve_model
    from tilewright.sim.step_programs import step_time
    from tilewright.sim.workload import Batch, Pass

    one_token = Pass(Batch(((1, 256),)))  # of a sequence of 256, this one among them
    prompt = Pass(Batch(((1, 256),)), None)
    found = step_time(HarmoniaParams(), resolve_model("smollm2-135m"), one_token, latency=100)
    found.cycles, found.bound, found.kind, found.parts["attention"].cycles

The bound beside it is that of the formulas of ``tilewright.sim.accelerator`` for the same memory
port; for attention on Harmonia it is the array's own cycles with whole tiles, of the keys that a
query sees, or the transfer of the cache, whichever is longer. Where there are no programs the
formula is the answer, and says so.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, lcm
from typing import Any, Literal

from tilewright.golden.harmonia.precision import cache_size
from tilewright.golden.params.anda_machine import AndaParams
from tilewright.golden.params.harmonia_machine import HarmoniaParams, Operand
from tilewright.golden.params.llm import LlmShape
from tilewright.sim.accelerator import Accelerator, run
from tilewright.sim.calibration import cached
from tilewright.sim.compiled_steps import (
    anda_compiled_time,
    anda_plan,
    compiled_plan,
    compiled_steps,
    compiled_time,
)
from tilewright.sim.computed import get_or_compute
from tilewright.sim.kept_times import kept, sources
from tilewright.sim.layer_programs import (
    ENOUGH,
    anda_decode_attention,
    anda_glue,
    anda_norm_time,
    beside_products,
    decode_attention_time,
    decoded_glue,
    gathering_time,
    layer_glue,
    norm_time,
    prompt_attention,
    streamed_gemm_time,
    unsupported,
)
from tilewright.sim.programs import as_built
from tilewright.sim.prompt_programs import anda_prompt_time
from tilewright.sim.schedule import AnyParams, ProgramTime
from tilewright.sim.streamed_programs import streamed_decode_time, streamed_prompt_time
from tilewright.sim.target import LATENCY
from tilewright.sim.workload import Batch, Pass, attention, head, linear

__all__ = ["Kind", "PartTime", "StepTime", "prompt_time", "step_time"]

Kind = Literal["programs", "mixed", "formula"]
Lengths = tuple[tuple[str, int], ...]  # of mantissas, by module
KEY_TILE = 16  # tokens
SHORT_PROMPT = 512  # tokens, to a token tile
LONGEST_COMPILED = 4096  # tokens; a longer cache of one layer is not kept on chip
LONGEST_APART = 2048  # tokens of a prompt that streams no faster than with its cache on chip
MOST_ON_CHIP = 1 << 20  # keys times channels: no larger cache is tried on chip


@dataclass(frozen=True, kw_only=True)
class PartTime:
    """One part of a pass, of all layers."""

    cycles: float
    bound: float  # cycles of the formula
    kind: Kind  # where ``cycles`` come from


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """A pass through all layers and the head."""

    parts: dict[str, PartTime]  # in the order in which they run; ``head`` is one of them
    programs: ProgramTime  # of the parts that are programs: how long each unit works
    missing: str = ""  # why the formula stands for some or all parts
    stepwise: bool = False  # a prompt in steps, as ``tilewright run`` starts them

    @property
    def cycles(self) -> float:
        """Cycles of the whole pass."""
        return sum(part.cycles for part in self.parts.values())

    @property
    def bound(self) -> float:
        """Cycles of the formula for the whole pass."""
        return sum(part.bound for part in self.parts.values())

    @property
    def ratio(self) -> float:
        """How many times as long as the formula's bound the programs take."""
        return self.cycles / self.bound

    @property
    def kind(self) -> Kind:
        """``mixed`` where some parts have no programs."""
        kinds = {part.kind for part in self.parts.values()}
        if len(kinds) > 1:
            return "mixed"
        (kind,) = kinds
        return "mixed" if kind == "programs" and self.missing else kind


NO_PROGRAMS = ProgramTime(0, 0, 0, 0, 0, 0, 0, 0)


def step_time(
    params: AnyParams,
    model: LlmShape,
    step: Pass,
    *,
    latency: int = LATENCY,
    lengths: dict[str, int] | None = None,
) -> StepTime:
    """Cycles of ``step`` with the accelerator's own memory port, part by part.

    ``latency`` is that of the external memory; ``lengths`` are Anda's mantissas by module.
    """
    machine = _machine(params, latency, _ordered(lengths or {}))
    bounds = formula_bounds(params, latency, machine, model, step)
    if isinstance(params, HarmoniaParams):
        compiled = _compiled(params, model, step, latency)
        if compiled is not None:
            return replace(_with_programs(compiled, _joined(bounds)), stepwise=step.prompt)
    else:
        compiled = _anda_compiled(params, model, step, latency, machine.lengths)
        if compiled is not None:
            rest = sum(value for name, value in bounds.items() if name != "head")
            found = _with_programs(compiled, {"layers": rest, "head": bounds["head"]})
            return replace(found, stepwise=step.prompt)
    reason = unsupported(model, step.batch.longest)
    if step.new not in (None, 1):
        reason = "no programs for several new tokens of a sequence"
    if reason:
        return StepTime(parts=_formulas(bounds), programs=NO_PROGRAMS, missing=reason)
    return _mixed(_composed(params, model, _whole_tiles(step), latency, machine.lengths), bounds)


def _ordered(lengths: dict[str, int]) -> Lengths:
    return tuple(sorted(lengths.items()))


def _whole_tiles(step: Pass) -> Pass:
    """Return a step that decodes with contexts of whole tiles, in which the array takes keys.

    Tokens one behind the other then have the same programs, and are not counted one by one.
    """
    if step.prompt:
        return step
    groups = [(n, ceil(tokens / KEY_TILE) * KEY_TILE) for n, tokens in step.batch.groups]
    return Pass(Batch(tuple(groups)), step.new)


def _formulas(bounds: dict[str, float]) -> dict[str, PartTime]:
    return {name: PartTime(cycles=v, bound=v, kind="formula") for name, v in bounds.items()}


def _mixed(times: dict[str, ProgramTime], bounds: dict[str, float]) -> StepTime:
    """Programs where there are some, the formula for the other products."""
    found = _with_programs(times, bounds)
    left = {name: value for name, value in bounds.items() if name not in times}
    reasons = [f"{', '.join(left)}: no program for so long a context"] if left else []
    if "norms" not in times:
        reasons.append("norms, rotation and SiLU have no programs and are not counted")
    parts = found.parts | _formulas(left)
    return StepTime(parts=parts, programs=found.programs, missing="; ".join(reasons))


def _composed(
    params: AnyParams, model: LlmShape, step: Pass, latency: int, lengths: dict[str, int]
) -> dict[str, ProgramTime]:
    """Cycles of all layers and of the head, by program."""
    tile = params.rows  # programs are those of whole token tiles
    rows, heads = (-(-count // tile) * tile for count in (step.rows, step.heads))
    prompt, layers = step.prompt and isinstance(params, AndaParams), model.num_hidden_layers
    found = dict(_beside_attention(params, model, rows, heads, latency, _ordered(lengths), prompt))
    if isinstance(params, AndaParams) and not prompt and "norms" in found:
        for name, time in decoded_glue(params, model, step.rows, lengths["o"], latency).items():
            found[name] = time.times(layers)
    attended = _attention(params, model, step, latency)
    if attended is not None:
        found["attention"] = attended.times(layers)
    return found


@kept
def _beside_attention(
    params: AnyParams,
    model: LlmShape,
    rows: int,
    heads: int,
    latency: int,
    lengths: Lengths,
    prompt: bool,
) -> dict[str, ProgramTime]:
    """Cycles of all that a pass of so many tokens, and so many of the head, has but attention.

    Whether it is a ``prompt`` makes a difference on Anda alone.
    """
    layers, found, length_of = model.num_hidden_layers, dict[str, ProgramTime](), dict(lengths)
    for product in linear(model, rows):
        length = length_of[product.module]
        time = streamed_gemm_time(params, product, latency=latency, length=length, result=0)
        found[product.name] = time.times(layers)
    last = head(model, heads)
    length = length_of.get(last.module, length_of["qkv"])
    found["head"] = streamed_gemm_time(params, last, latency=latency, length=length, result=0)
    if isinstance(params, AndaParams):
        with suppress(ValueError):  # of other sizes than the paper's some do not fit
            norm = anda_norm_time(params, model, heads, length, latency)
            between = _between(params, model, rows, latency, lengths, prompt)
            found["head"] += norm
            found |= {name: time.times(layers) for name, time in between.items()}
        return found
    found["head"] += norm_time(params, model, heads, latency)
    for name, time in _between(params, model, rows, latency).items():
        found[name] = time.times(layers)
    also = beside_products(params, model, rows, latency)
    for name, work in (("v", "rotation"), ("up", "silu")):
        if name in also:  # what the work takes more than the product alone
            more = also[name].times(layers).plus(found[name], -1)
            found[work] = more if work not in also else more.plus(also[work], layers)
    return found


def _between(
    params: AnyParams,
    model: LlmShape,
    rows: int,
    latency: int,
    lengths: Lengths = (),
    prompt: bool = False,
) -> dict[str, ProgramTime]:
    """One layer's work between products, of token tiles that behind the first take their turns.

    So few of them tell how long any number takes, and passes of all sizes share these.
    """
    turn, tiles = lcm(2, params.regions), rows // params.rows
    first = ENOUGH + (tiles - ENOUGH) % turn
    if tiles <= first + turn:
        return _glue(params, model, rows, latency, lengths, prompt)
    few, more = (
        _glue(params, model, count * params.rows, latency, lengths, prompt)
        for count in (first, first + turn)
    )
    further = (tiles - first) // turn - 1
    return {
        name: replace(time.plus(time.plus(few[name], -1), further), programs=time.programs)
        for name, time in more.items()
    }


@kept
def _glue(
    params: AnyParams, model: LlmShape, rows: int, latency: int, lengths: Lengths, prompt: bool
) -> dict[str, ProgramTime]:
    if isinstance(params, AndaParams):
        return anda_glue(params, model, rows, dict(lengths), latency, prompt)
    return layer_glue(params, model, rows, latency)


def _attention(params: AnyParams, model: LlmShape, step: Pass, latency: int) -> ProgramTime | None:
    """Return one layer's attention of all sequences; None where there is no program."""
    heads, total = model.num_key_value_heads, NO_PROGRAMS
    sharing = model.num_attention_heads // heads
    for sequences, tokens in step.batch.groups:
        found: ProgramTime | None
        if isinstance(params, AndaParams):
            size, per_head = (tokens, model.head_dim, latency), 1
            if step.prompt:  # a program for every head of keys and values
                one, per_head = anda_prompt_time(params, sharing, *size), heads
            else:
                one = anda_decode_attention(params, model.num_attention_heads, heads, *size)
            found = None if one is None else one.times(per_head * sequences)
        elif step.prompt:
            one = prompt_time(params, sharing, tokens, model.head_dim, latency)
            found = None if one is None else one.times(heads * sequences)
        else:
            found = _decoded(params, sharing, tokens, model.head_dim, heads, sequences, latency)
        if found is None:
            return None
        total = total + found
    return total


def _decoded(
    params: HarmoniaParams,
    sharing: int,
    tokens: int,
    channels: int,
    heads: int,
    sequences: int,
    latency: int,
) -> ProgramTime | None:
    """With caches on chip, where heads of queries take their turns, or streamed, if that is faster.

    The latter leaves every head in a bank of its own, from where a load brings it to its token's.
    With one token there is nothing to stream.
    """
    size, found = (sharing, tokens, channels), list[ProgramTime | None]()
    if tokens * channels <= MOST_ON_CHIP:
        found.append(decode_attention_time(params, *size, heads, sequences, latency))
    if tokens > 1:
        streamed = streamed_decode_time(params, *size, heads * sequences, latency)
        if streamed is not None and sharing * sequences > 1:
            streamed += gathering_time(params, sharing * heads, channels, sequences, latency)
        found.append(streamed)
    both = [time for time in found if time is not None]
    return min(both, key=lambda time: time.cycles, default=None)


def prompt_time(
    params: HarmoniaParams, sharing: int, tokens: int, channels: int, latency: int
) -> ProgramTime | None:
    """Heads of one cache over a prompt: on chip, or streamed, if that is faster or the only way.

    Prompts are those of whole token tiles, long ones of whole tiles of keys: the last tile takes
    as long with fewer tokens, or a few cycles more.
    """
    tile = params.rows if tokens <= SHORT_PROMPT else lcm(params.rows, params.columns)
    tokens, found = ceil(tokens / tile) * tile, None
    if tokens * channels <= MOST_ON_CHIP:
        found = prompt_attention(params, sharing, tokens, channels, latency)
    if found is not None and tokens <= LONGEST_APART:
        return found
    streamed = streamed_prompt_time(params, sharing, tokens, channels, latency)
    both = [time for time in (found, streamed) if time is not None]
    return min(both, key=lambda time: time.cycles, default=None)


def _with_programs(times: dict[str, ProgramTime], bounds: dict[str, float]) -> StepTime:
    parts = {
        name: PartTime(cycles=time.cycles, bound=bounds.get(name, 0.0), kind="programs")
        for name, time in times.items()
    }
    return StepTime(parts=parts, programs=sum(times.values(), NO_PROGRAMS))


# One sequence whose layers fit the memories.


def _compiled(
    params: HarmoniaParams, model: LlmShape, step: Pass, latency: int
) -> dict[str, ProgramTime] | None:
    """Return the cycles by part of a layer; None where there are no such programs."""
    batch = step.batch
    if batch.sequences != 1 or batch.longest > LONGEST_COMPILED or step.new not in (None, 1):
        return None
    plan = compiled_plan(params, model, batch.longest)
    if plan is None:
        return None

    def make() -> dict[str, Any]:
        steps = list(compiled_steps(plan, plan.context)) if step.prompt else [(plan.context - 1, 1)]
        found = compiled_time(plan, steps, latency)
        return {name: vars(time) for name, time in found.items()}

    asked = map(repr, (params, model, plan.context, step.prompt, latency))
    found = get_or_compute(("compiled steps", *asked, sources()), make)
    return {name: ProgramTime(**time) for name, time in found.items()}


def _anda_compiled(
    params: AndaParams, model: LlmShape, step: Pass, latency: int, lengths: dict[str, int]
) -> dict[str, ProgramTime] | None:
    """Return the cycles of one sequence's prompt or next token; None where there are no programs.

    A prompt passes in steps of up to a token tile, as ``tilewright run`` starts them.
    """
    batch = step.batch
    if batch.sequences != 1 or batch.longest > LONGEST_COMPILED or step.new not in (None, 1):
        return None
    context = min(_whole_tiles(step).batch.longest, model.max_position_embeddings)
    plan = anda_plan(params, model, max(context, batch.longest), lengths)
    if plan is None:
        return None

    def make() -> dict[str, Any]:
        steps = list(compiled_steps(plan, plan.context)) if step.prompt else [(plan.context - 1, 1)]
        found = anda_compiled_time(plan, steps, latency)
        return {name: vars(time) for name, time in found.items()}

    asked = map(repr, (params, model, plan.context, step.prompt, sorted(lengths.items()), latency))
    found = get_or_compute(("compiled steps of anda", *asked, sources()), make)
    return {name: ProgramTime(**time) for name, time in found.items()}


def _joined(bounds: dict[str, float]) -> dict[str, float]:
    """Return bounds of the parts that a compiled layer has, from those of single products."""
    places = {"q": "projections", "k": "projections", "v": "projections"}
    found: dict[str, float] = {}
    for name, value in bounds.items():
        own = name if name in ("attention", "head") else places.get(name, "feed-forward")
        found[own] = found.get(own, 0.0) + value
    return found


# Bounds.


@cached(16)
def _machine(params: AnyParams, latency: int, lengths: Lengths) -> Accelerator:
    return as_built(params, latency=latency).with_lengths(dict(lengths))


def formula_bounds(
    params: AnyParams, latency: int, machine: Accelerator, model: LlmShape, step: Pass
) -> dict[str, float]:
    """Return cycles of the formula by product, of all layers; those of attention are one part."""
    named = _ordered(machine.lengths)
    found = dict(_product_bounds(params, latency, named, model, step.rows, step.heads))
    last, total = found.pop("head"), 0.0
    for sequences, tokens in step.batch.groups:
        products = attention(model, sequences, step.queries(tokens), tokens)
        if isinstance(params, HarmoniaParams) and model.latent is None:
            for layers, seen in model.visible(tokens):
                one = harmonia_attention(params, model, step.queries(tokens), tokens, seen)
                total += layers * sequences * model.num_key_value_heads * one
        else:
            cycles = sum(time.cycles for time in run(machine, products))
            # A token of a prompt meets those before it: half of the square that the papers count.
            total += cycles * (tokens + 1) / (2 * tokens) if step.prompt else cycles
    return found | {"attention": total, "head": last}


@cached(4096)
def _product_bounds(
    params: AnyParams, latency: int, lengths: Lengths, model: LlmShape, rows: int, heads: int
) -> dict[str, float]:
    """Return cycles of the formula of all products with weights; many steps have the same."""
    machine, found = _machine(params, latency, lengths), dict[str, float]()
    for time in run(machine, [*linear(model, rows), head(model, heads)]):
        found[time.gemm.name] = found.get(time.gemm.name, 0.0) + time.cycles
    return found


@lru_cache(maxsize=4096)
def harmonia_attention(
    params: HarmoniaParams, model: LlmShape, queries: int, tokens: int, window: int
) -> float:
    """Return the least cycles of the heads that share keys and values, in one sequence and layer.

    The last ``queries`` of ``tokens`` tokens meet the tokens before them and themselves, at most
    ``window`` of them. A query's row of the array takes a sum for each group of channels of every
    tile of keys, two where keys have 8 bits, and no fewer cycles than a tile has columns; then as
    many for its values.
    """
    p, channels = params, model.head_dim
    sharing = model.num_attention_heads // model.num_key_value_heads
    if queries == 1:
        return max(
            ceil(sharing / p.rows) * _tile_sums(p, channels, min(tokens, window), tokens),
            _cache_cycles(p, channels, min(tokens, window)),
        )
    total = 0
    for end in range(tokens - queries + p.rows, tokens + p.rows, p.rows):
        last = min(end, tokens)
        total += _tile_sums(p, channels, min(last, window), tokens)
    return max(sharing * total, _cache_cycles(p, channels, min(tokens, window)))


def _tile_sums(p: HarmoniaParams, channels: int, keys: int, tokens: int) -> int:
    """Cycles of the array for a token tile that sees ``keys`` of a cache of ``tokens``."""
    groups, across = ceil(channels / p.group), ceil(channels / p.columns)
    tiles, units = ceil(keys / p.columns), ceil(keys / p.group)
    long = sum(p.has_low(Operand.KEYS, unit, tokens) for unit in _ends(p, Operand.KEYS, tiles))
    scores = (tiles - long) * max(groups, p.columns) + long * max(2 * groups, p.columns)
    low = sum(p.has_low(Operand.VALUES, unit, tokens) for unit in _ends(p, Operand.VALUES, units))
    return scores + across * max(units + low, p.columns)


def _ends(p: HarmoniaParams, operand: Operand, units: int) -> list[int]:
    """Return the units among which those of 8 bits are: the first, and the newest."""
    first, last = p.initial_slots(operand), p.ring(operand) + 1
    if units <= first + last:
        return list(range(units))
    return [*range(first), *range(units - last, units)]


def _cache_cycles(p: HarmoniaParams, channels: int, keys: int) -> float:
    """Return the cycles in which the memory port brings keys and values of one head."""
    return cache_size(p.cache, keys, channels).bits / p.beat_bits
