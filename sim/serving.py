"""Questions about serving a model: a step, a prompt and its answer, or the largest batch.

A :class:`Question` names everything that an answer depends on; :func:`ask` answers it.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite

from tilewright.golden.params.block import BlockParams, require
from tilewright.golden.params.llm import LlmShape
from tilewright.sim.area import silicon_mm2
from tilewright.sim.cost import Cost, Prices
from tilewright.sim.llm import LlmResult, MemoryBytes, answer_on
from tilewright.sim.models import resolve_model
from tilewright.sim.target import Target, resolve_target
from tilewright.sim.workload import LONGEST_CONTEXT, MOST_SEQUENCES, MOST_TOKENS, Batch

__all__ = ["GenerationResult", "Question", "ask", "distinct_remarks", "generate", "largest_batch"]

EXACT = 256  # tokens of an answer whose steps are all counted; of more, as many and those between
DEFAULT_CONTEXT = 1024


@dataclass(frozen=True, kw_only=True)
class GenerationResult:
    """A prompt and the tokens that follow it, for every sequence of a batch."""

    model: str
    parameters: int
    active_parameters: int
    system: str
    block: str | None
    engine: str | None
    scheme: str
    kv_format: str
    batch: int
    tensor: int
    pipeline: int
    prompt: int  # tokens of the longest
    contexts: tuple[tuple[int, int], ...]  # sequences, and tokens of their prompts
    tokens: int  # that follow, the first of which comes out of the prompt
    first_token_ms: float  # the whole prompt
    token_ms: float  # mean of the tokens after the first
    last_token_ms: float
    total_ms: float
    tokens_per_second: float  # new ones, of all sequences, over the total
    joules_per_token: float  # the prompt's too, over the new tokens
    average_watts: float
    tokens_per_second_per_watt: float
    tokens_per_second_per_mm2: float | None
    cost: Cost | None  # dollars of a million new tokens, where prices are given
    memory_bytes: MemoryBytes  # at the end
    remarks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What to answer; None is a default, or says that a field plays no part.

    With ``tokens`` it is about a prompt and as many tokens after it, with ``within_ms`` about the
    largest batch that takes no longer for a step, else about one step.
    """

    model: str
    system: str | None = None
    engine: str | None = None
    scheme: str | None = None
    block: BlockParams | None = None
    latency: int | None = None  # of the memory of a block, in cycles
    settings: Mapping[str, str] | None = None  # fields of the system and their values
    tensor: int | None = None  # devices that share each layer
    pipeline: int | None = None  # groups of devices with layers of their own
    kv: str | None = None
    batch: int | None = None
    context: int | Batch | None = None
    phase: str | None = None
    prompt: int | Batch | None = None
    tokens: int | None = None
    within_ms: float | None = None
    prices: Prices | None = None


def ask(question: Question) -> LlmResult | GenerationResult:
    """Return the answer to a question."""
    found = _ask(question)
    if question.prices is None:
        return found
    cost = question.prices.cost(
        found.tokens_per_second, found.joules_per_token, found.tensor * found.pipeline
    )
    return replace(found, cost=cost)


def _ask(q: Question) -> LlmResult | GenerationResult:
    _check(q)
    model = resolve_model(q.model)
    target = resolve_target(
        q.system,
        engine=q.engine,
        block=q.block,
        latency=q.latency,
        settings=q.settings,
        tensor=q.tensor,
        pipeline=q.pipeline,
    )
    if q.tokens is not None and q.prompt is not None:
        batch = q.prompt if isinstance(q.prompt, Batch) else Batch(((_batch(q), q.prompt),))
        return generate(target, model, batch, q.tokens, scheme=q.scheme, kv=q.kv)
    context = DEFAULT_CONTEXT if q.context is None else q.context
    phase = "decode" if q.phase is None else q.phase
    if q.within_ms is not None:
        assert isinstance(context, int)
        return largest_batch(
            target,
            model,
            within_ms=q.within_ms,
            context=context,
            phase=phase,
            scheme=q.scheme,
            kv=q.kv,
        )
    batch = context if isinstance(context, Batch) else Batch(((_batch(q), context),))
    return answer_on(target, model, batch=batch, phase=phase, scheme=q.scheme, kv=q.kv)


def _batch(question: Question) -> int:
    return 1 if question.batch is None else question.batch


def _check(question: Question) -> None:
    """Refuse what does not go together."""
    q = question
    if q.tokens is None:
        require(q.prompt is None, "a prompt comes with tokens that follow it")
    else:
        require(q.prompt is not None, "tokens follow a prompt; say how long it is")
        for word, value in (("context", q.context), ("phase", q.phase), ("a bound", q.within_ms)):
            require(value is None, f"{word} does not go with prompt and tokens")
    require(
        q.within_ms is None or q.batch is None,
        "batch does not go with a bound, under which the largest one is looked for",
    )
    for word, tokens in (("context", q.context), ("prompt", q.prompt)):
        require(
            not isinstance(tokens, Batch) or (q.batch is None and q.within_ms is None),
            f"a {word} like 8x128,2x4096 says how many sequences there are; leave batch and bounds"
            " out",
        )


def generate(
    target: Target,
    model: LlmShape,
    prompts: Batch,
    tokens: int,
    *,
    scheme: str | None = None,
    kv: str | None = None,
) -> GenerationResult:
    """Return what ``tokens`` new tokens of each of these prompts take.

    The first comes out of the prompt; each of the others is a step with one more token of context.
    """
    require(1 <= tokens <= LONGEST_CONTEXT, f"tokens must be 1..{LONGEST_CONTEXT}, not {tokens!r}")

    def step(more: int) -> LlmResult:
        """The step that meets ``more`` new tokens; 0 is the prompt."""
        phase = "decode" if more else "prefill"
        return answer_on(
            target, model, batch=prompts.longer(more), phase=phase, scheme=scheme, kv=kv
        )

    first = step(0)
    last = step(tokens - 1)
    later = {more: step(more) for more in _sampled(tokens - 1, model, prompts)}
    milliseconds = _sum(later, lambda found: found.latency_ms)
    joules = _sum(later, _joules) + _joules(first)
    total = first.latency_ms + milliseconds
    made, area = prompts.sequences * tokens, silicon_mm2(target)
    return GenerationResult(
        model=first.model,
        parameters=first.parameters,
        active_parameters=first.active_parameters,
        system=first.system,
        block=first.block,
        engine=first.engine,
        scheme=first.scheme,
        kv_format=first.kv_format,
        batch=first.batch,
        tensor=first.tensor,
        pipeline=first.pipeline,
        prompt=prompts.longest,
        contexts=prompts.groups,
        tokens=tokens,
        first_token_ms=first.latency_ms,
        token_ms=milliseconds / (tokens - 1) if tokens > 1 else 0.0,
        last_token_ms=last.latency_ms,
        total_ms=total,
        tokens_per_second=1e3 * made / total,
        joules_per_token=joules / made,
        average_watts=1e3 * joules / total,
        tokens_per_second_per_watt=made / joules,
        tokens_per_second_per_mm2=None if area is None else 1e3 * made / total / area,
        cost=None,
        memory_bytes=last.memory_bytes,
        remarks=distinct_remarks((*last.remarks, *first.remarks)),
    )


def _joules(found: LlmResult) -> float:
    return sum(found.joules_by_part.values())


def _sampled(steps: int, model: LlmShape, prompts: Batch) -> list[int]:
    """Return which of the steps 1 to ``steps`` are counted, the first and the last among them.

    Between two of them a step's time grows evenly but where a window fills, so that is one too.
    """
    if steps <= EXACT:
        return list(range(1, steps + 1))
    chosen = {1 + k * (steps - 1) // EXACT for k in range(EXACT + 1)}
    if model.sliding_window is not None:
        chosen |= {model.sliding_window - length for _, length in prompts.groups}
    return sorted(more for more in chosen if 1 <= more <= steps)


def _sum(later: Mapping[int, LlmResult], value: Callable[[LlmResult], float]) -> float:
    """Add a value over all steps from those that were counted."""
    total = 0.0
    for start, end in pairwise(later):
        a, b = value(later[start]), value(later[end])
        total += (end - start) * (a + b) / 2 - (b - a) / 2  # start to the one before end
    return total + (value(later[max(later)]) if later else 0.0)


def largest_batch(
    target: Target,
    model: LlmShape,
    *,
    within_ms: float,
    context: int,
    phase: str = "decode",
    scheme: str | None = None,
    kv: str | None = None,
) -> LlmResult:
    """Return the step of the largest batch that fits in memory and takes at most ``within_ms``."""
    require(isfinite(within_ms) and within_ms > 0, f"a bound must be above 0 ms, not {within_ms!r}")

    def step(batch: int) -> LlmResult:
        return answer_on(
            target, model, batch=batch, context=context, phase=phase, scheme=scheme, kv=kv
        )

    def good(found: LlmResult) -> bool:
        return found.memory_bytes.fits and found.latency_ms <= within_ms

    best, most = step(1), min(MOST_SEQUENCES, MOST_TOKENS // context)
    require(best.memory_bytes.fits, f"{model.name} does not fit in {target.system}, even alone")
    require(
        good(best),
        f"one sequence takes {best.latency_ms:.4g} ms, more than {within_ms:g}",
    )
    bad, over = most + 1, None
    while bad - best.batch > 1:  # a batch between these two is tried
        tried = step(min(2 * best.batch, most) if over is None else (best.batch + bad) // 2)
        if good(tried):
            best = tried
            if best.batch == most:
                break
        else:
            bad, over = tried.batch, tried
    limit = "memory" if over is not None and not over.memory_bytes.fits else "time"
    remark = f"batch {best.batch} is the largest within {within_ms:g} ms; {limit} bounds it"
    return replace(best, remarks=(remark, *best.remarks))


def distinct_remarks(remarks: Iterable[str]) -> tuple[str, ...]:
    """Leave out what differs from an earlier remark in its numbers alone."""
    found: dict[str, str] = {}
    for remark in remarks:
        found.setdefault(re.sub(r"[0-9.]+(e-?[0-9]+)?", "#", remark), remark)
    return tuple(found.values())
