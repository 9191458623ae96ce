"""A pass of a whole model on an accelerator of this project: cycles of the programs that run.

:func:`step_time` is what ``tilewright llm`` answers with, for any batch, decoding or a prompt. The
programs are those that ``tilewright run`` starts, written and counted by
:mod:`tilewright.compiler`. Beside them is the bound of the formulas of
:mod:`tilewright.sim.accelerator` for the same memory port. A model that the compiler refuses has
the formula alone, and ``missing`` says why.
"""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal, NamedTuple

from tilewright.compiler.count import ProgramTime, batch_steps, head_tiles, head_time, prompt_steps
from tilewright.compiler.count import step_time as count_step
from tilewright.compiler.graph import refusal
from tilewright.compiler.machine import Machine, machine_of
from tilewright.compiler.plan import Plan
from tilewright.compiler.sizes import Step
from tilewright.golden.machine.moves import LATENCY, Timing
from tilewright.golden.params.block import require
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.machine import MachineParams
from tilewright.sim.accelerator import Accelerator, as_built, run
from tilewright.sim.calibration import cached
from tilewright.sim.programs import cached_count
from tilewright.sim.workload import Batch, Pass, attention, head, linear

Kind = Literal["programs", "formula"]
Lengths = tuple[tuple[str, int], ...]  # of mantissas, by module
LEAST_CONTEXT = 256  # tokens that caches in external memory have room for; doubled as needed
FEW_STEPS = 8  # of a prompt: all of them are counted
WEIGHT_BITS = 4
PROJECTIONS = ("q", "k", "v", "o")


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """A pass through all layers and the head; ``kind`` says where ``cycles`` are from."""

    parts: dict[str, ProgramTime]  # in the order in which they run; none by formula
    bounds: dict[str, float]  # cycles of the formula by part
    missing: str = ""  # why the formula stands for programs
    interpolated: int = 0  # steps of long prompts, between those that are counted

    @property
    def programs(self) -> ProgramTime:
        """How long each unit works."""
        return sum(self.parts.values(), ProgramTime())

    @property
    def cycles(self) -> float:
        return self.bound if self.missing else self.programs.cycles

    @property
    def bound(self) -> float:
        return sum(self.bounds.values())

    @property
    def ratio(self) -> float:
        """How many times as long as the formula's bound the programs take."""
        return self.cycles / self.bound

    @property
    def kind(self) -> Kind:
        return "formula" if self.missing else "programs"


def step_time(
    params: MachineParams,
    model: LlmShape,
    step: Pass,
    *,
    latency: int | Timing = LATENCY,
    lengths: dict[str, int] | None = None,
    every_step: bool = False,
) -> StepTime:
    """Cycles of ``step`` on an accelerator, part by part.

    ``latency`` is that of the external memory, or all of its timing; ``lengths`` are mantissas of
    activations by module, where the accelerator lets a model choose. Steps of long prompts are
    interpolated between a few that are counted, unless ``every_step`` is to be counted.
    """
    timing = latency if isinstance(latency, Timing) else Timing(latency)
    accelerator = _accelerator(params, timing, tuple(sorted((lengths or {}).items())))
    bounds = _bounds(params, timing, accelerator, model, step)
    machine = machine_of(params).with_mantissas(accelerator.lengths)
    try:
        reason = refusal(model)
        if step.new not in (None, 1):
            reason = "no programs for several new tokens of a sequence"
        require(not reason, reason)
        series = _steps(machine, model, step, every_step)
        times = _times(machine, model, _context(model, step.batch.longest), series, timing)
    except ValueError as error:
        return StepTime(parts={}, bounds=bounds, missing=str(error))
    skipped = sum(one.interpolated for one in series)
    return StepTime(parts=times, bounds=bounds, interpolated=int(skipped))


class _Counted(NamedTuple):
    """A step of a pass that is counted."""

    step: Step
    times: Fraction  # how often it counts
    heads: int  # how often the head follows
    interpolated: Fraction = Fraction(0)  # steps among ``times`` that it stands for


def _times(
    machine: Machine, model: LlmShape, context: int, series: list[_Counted], timing: Timing
) -> dict[str, ProgramTime]:
    found: dict[str, ProgramTime] = {}
    for step, times, heads, _ in series:
        counted = _step(machine, model, context, step, timing)
        parts = {name: time.scaled(times) for name, time in counted.items()}
        if heads:
            tiles = tuple(head_tiles(machine, step))
            few = machine.few(step)
            head = _head(machine, model, context, _sequences(step), tiles, few, timing)
            parts["head"] = head.times(heads)
        for name, time in parts.items():
            found[name] = found.get(name, ProgramTime()) + time
    return found


def _steps(machine: Machine, model: LlmShape, step: Pass, every_step: bool) -> list[_Counted]:
    groups = step.batch.groups
    if not step.prompt:
        lengths = [tokens for sequences, tokens in groups for _ in range(sequences)]
        found = Counter(batch_steps(lengths))
        return [_Counted(one, Fraction(times), times) for one, times in found.items()]
    series = []
    for sequences, tokens in groups:
        plan = Plan(machine=machine, shape=model, context=tokens, weight_bits=WEIGHT_BITS)
        steps = prompt_steps(plan, tokens)
        for k, share in sampled(len(steps), len(steps) if every_step else FEW_STEPS).items():
            heads = sequences if k == len(steps) - 1 else 0
            series.append(_Counted(steps[k], sequences * share, heads, sequences * (share - 1)))
    return series


def sampled(count: int, few: int = FEW_STEPS) -> dict[int, Fraction]:
    """Steps of a prompt that are counted, and how many each stands for.

    Of more than ``few`` steps five are counted, and those between two of them lie on a line.
    """
    if count <= few:
        return dict.fromkeys(range(count), Fraction(1))
    knots = [0, 1, count // 4, count // 2, count - 1]
    shares = dict.fromkeys(knots, Fraction(1))
    for low, high in pairwise(knots):
        for knot in (low, high):  # the mean of both, for each between them
            shares[knot] += Fraction(high - low - 1, 2)
    return shares


def _context(model: LlmShape, longest: int) -> int:
    """Tokens that a sequence's cache has room for; steps of many lengths share these."""
    context = LEAST_CONTEXT
    while context < longest:
        context *= 2
    return max(longest, min(context, model.max_position_embeddings))


def _sequences(step: Step) -> int:
    return max(token.sequence for token in step.tokens) + 1


@cached(64)
def _plan(machine: Machine, model: LlmShape, context: int, sequences: int) -> Plan:
    return Plan(
        machine=machine,
        shape=model,
        context=context,
        sequences=sequences,
        weight_bits=WEIGHT_BITS,
        head_bits=WEIGHT_BITS,
    )


@cached_count
def _step(
    machine: Machine, model: LlmShape, context: int, step: Step, timing: Timing
) -> dict[str, ProgramTime]:
    return count_step(_plan(machine, model, context, _sequences(step)), step, timing)


@cached_count
def _head(
    machine: Machine,
    model: LlmShape,
    context: int,
    sequences: int,
    tiles: tuple[int, ...],
    few: int,
    timing: Timing,
) -> ProgramTime:
    return head_time(_plan(machine, model, context, sequences), tiles, timing, few=few)


def attention_time(params: MachineParams, model: LlmShape, tokens: int) -> ProgramTime:
    """Attention of one layer over a prompt, as part of the steps of a LLaMA layer of that size."""
    shape = LlmShape(
        model_type="llama",
        hidden_size=model.hidden_size,
        intermediate_size=model.intermediate_size,
        num_hidden_layers=1,
        num_attention_heads=model.num_attention_heads,
        num_key_value_heads=model.num_key_value_heads,
        head_dim=model.head_dim,
        vocab_size=model.vocab_size,
        max_position_embeddings=max(tokens, model.max_position_embeddings),
    )
    machine, total = machine_of(params), ProgramTime()
    for one in _steps(machine, shape, Pass(Batch(((1, tokens),)), None), False):
        context = _context(shape, tokens)
        time = _step(machine, shape, context, one.step, Timing())["attention"]
        total += time.scaled(one.times)
    return total


@cached(16)
def _accelerator(params: MachineParams, timing: Timing, lengths: Lengths) -> Accelerator:
    built = as_built(params, latency=timing.latency, interval=float(timing.interval))
    return built.with_lengths(dict(lengths))


def _bounds(
    params: MachineParams, timing: Timing, machine: Accelerator, model: LlmShape, step: Pass
) -> dict[str, float]:
    named = tuple(sorted(machine.lengths.items()))
    products = _product_bounds(params, timing, named, model, step.rows, step.heads)
    total = 0.0
    for sequences, tokens in step.batch.groups:
        queries = step.queries(tokens)
        if machine.attention_cycles is not None and model.latent is None:
            for layers, seen in model.visible(tokens):
                one = machine.attention_cycles(model, queries, tokens, seen)
                total += layers * sequences * model.num_key_value_heads * one
        else:
            times = run(machine, attention(model, sequences, queries, tokens))
            cycles = sum(time.cycles for time in times)
            # A token of a prompt sees those before it: half of the square that the papers count.
            total += cycles * (tokens + 1) / (2 * tokens) if step.prompt else cycles
    return {
        "projections": products["projections"],
        "attention": total,
        "feed-forward": products["feed-forward"],
        "head": products["head"],
    }


@cached(4096)
def _product_bounds(
    params: MachineParams, timing: Timing, lengths: Lengths, model: LlmShape, rows: int, heads: int
) -> dict[str, float]:
    """Return cycles of the formula of all products with weights; many steps have the same."""
    machine = _accelerator(params, timing, lengths)
    found = dict.fromkeys(("projections", "feed-forward", "head"), 0.0)
    for time in run(machine, [*linear(model, rows), head(model, heads)]):
        name = time.gemm.name
        part = "projections" if name in PROJECTIONS else "feed-forward"
        found["head" if name == "head" else part] += time.cycles
    return found
