"""Questions about serving a model: a step, a prompt and its answer, or the largest batch.

A :class:`Question` names everything that an answer depends on; :func:`ask` answers it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite

from tilewright.golden.params.block import BlockParams, require
from tilewright.golden.params.llm import LlmShape
from tilewright.sim.area import silicon_mm2
from tilewright.sim.llm import LlmResult, MemoryBytes, answer_on, answer_passes, step_of
from tilewright.sim.models import resolve_model
from tilewright.sim.speculation import Speculation, speculate
from tilewright.sim.target import Target, resolve_target
from tilewright.sim.workload import LONGEST_CONTEXT, MOST_SEQUENCES, MOST_TOKENS, Batch, Pass

__all__ = [
    *("GenerationResult", "Question", "ask", "ask_steps", "distinct_remarks", "generate"),
    "largest_batch",
]

EXACT = 256  # tokens of an answer whose steps are all counted; of more, as many and those between
DEFAULT_CONTEXT = 1024
GUESSES = 4  # of a round, unless told


@dataclass(frozen=True, kw_only=True)
class GenerationResult:
    """A prompt and the tokens that follow it, for every sequence of a batch."""

    model: str
    parameters: int
    active_parameters: int
    system: str
    settings: dict[str, str]  # fields of the system that were changed
    block: str | None
    engine: str | None
    scheme: str
    kv_format: str
    batch: int
    prompt: int  # tokens of the longest
    contexts: tuple[tuple[int, int], ...]  # sequences, and tokens of their prompts
    tokens: int  # that follow, the first of which comes out of the prompt
    first_token_ms: float  # the whole prompt
    longest_pass_ms: float  # the prompt's, or that of its longest chunk: others wait for it
    token_ms: float  # mean of the tokens after the first
    last_token_ms: float
    total_ms: float
    tokens_per_second: float  # new ones, of all sequences, over the total
    joules_per_token: float  # the prompt's too, over the new tokens
    average_watts: float
    tokens_per_second_per_watt: float
    tokens_per_second_per_mm2: float | None
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
    kv: str | None = None
    batch: int | None = None
    context: int | Batch | None = None
    phase: str | None = None
    prompt: int | Batch | None = None
    tokens: int | None = None
    chunk: int | None = None  # tokens of a prompt that one pass computes
    draft: str | None = None  # model that guesses tokens
    guesses: int | None = None  # of a round
    acceptance: float | None = None  # probability that a guess is right
    within_ms: float | None = None


def ask(question: Question) -> LlmResult | GenerationResult:
    """Return the answer to a question."""
    return _finished(question, _ask(question))


def ask_steps(questions: Sequence[Question]) -> list[LlmResult | GenerationResult]:
    """Return the answers to questions that differ in nothing but batch and context.

    Plain steps are computed together, to the bit what :func:`ask` says of each.
    """
    first = questions[0]
    alone = first.tokens is not None or first.within_ms is not None or first.draft is not None
    if alone or len(questions) == 1:
        return [ask(question) for question in questions]
    for question in questions:
        _check(question)
    found = answer_passes(
        _target(first),
        resolve_model(first.model),
        [step_of(_sequences(q), _phase(q)) for q in questions],
        scheme=first.scheme,
        kv=first.kv,
        turns=True,
    )
    return [_finished(*pair) for pair in zip(questions, found, strict=True)]


def _finished(
    question: Question, found: LlmResult | GenerationResult
) -> LlmResult | GenerationResult:
    """Return an answer with what the user changed."""
    return replace(found, settings=dict(question.settings)) if question.settings else found


def _ask(q: Question) -> LlmResult | GenerationResult:
    _check(q)
    model, target = resolve_model(q.model), _target(q)
    guess = _speculation(q)
    if q.tokens is not None and q.prompt is not None:
        batch = q.prompt if isinstance(q.prompt, Batch) else Batch(((_batch(q), q.prompt),))
        return generate(
            target,
            model,
            batch,
            q.tokens,
            scheme=q.scheme,
            kv=q.kv,
            chunk=q.chunk,
            speculation=guess,
        )
    phase = _phase(q)
    if q.within_ms is not None:
        context = DEFAULT_CONTEXT if q.context is None else q.context
        assert isinstance(context, int)
        return largest_batch(
            target,
            model,
            within_ms=q.within_ms,
            context=context,
            phase=phase,
            scheme=q.scheme,
            kv=q.kv,
            speculation=guess,
        )
    return one_step(
        target, model, _sequences(q), phase, scheme=q.scheme, kv=q.kv, speculation=guess
    )


def _target(q: Question) -> Target:
    return resolve_target(
        q.system,
        engine=q.engine,
        block=q.block,
        latency=q.latency,
        settings=q.settings,
    )


def _phase(q: Question) -> str:
    return "decode" if q.phase is None else q.phase


def _sequences(q: Question) -> Batch:
    context = DEFAULT_CONTEXT if q.context is None else q.context
    return context if isinstance(context, Batch) else Batch(((_batch(q), context),))


def one_step(
    target: Target,
    model: LlmShape,
    batch: Batch,
    phase: str = "decode",
    *,
    scheme: str | None = None,
    kv: str | None = None,
    speculation: Speculation | None = None,
) -> LlmResult:
    """Return one step, or where a draft guesses tokens one round."""
    if speculation is None:
        return answer_on(target, model, batch=batch, phase=phase, scheme=scheme, kv=kv)
    require(phase == "decode", "guesses are of tokens after a prompt; leave the phase out")
    return speculate(target, model, batch, speculation, scheme=scheme, kv=kv)


def _speculation(q: Question) -> Speculation | None:
    if q.draft is None:
        return None
    assert q.acceptance is not None
    count = GUESSES if q.guesses is None else q.guesses
    return Speculation(draft=resolve_model(q.draft), tokens=count, acceptance=q.acceptance)


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
    require(q.chunk is None or q.tokens is not None, "chunks are of a prompt with tokens after it")
    require(
        (q.draft is None) == (q.acceptance is None) and (q.draft is not None or q.guesses is None),
        "guesses need a draft model and an acceptance rate",
    )
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
    chunk: int | None = None,
    speculation: Speculation | None = None,
) -> GenerationResult:
    """Return what ``tokens`` new tokens of each of these prompts take.

    The first comes out of the prompt, which takes one pass or, with ``chunk``, one for as many
    tokens; each of the others is a step with one more token of context, or a share of a round of
    guesses.
    """
    require(1 <= tokens <= LONGEST_CONTEXT, f"tokens must be 1..{LONGEST_CONTEXT}, not {tokens!r}")

    passes = prompt_passes(target, model, prompts, chunk, scheme=scheme, kv=kv)
    first = passes[max(passes)]
    sampled = _sampled(tokens - 1, model, prompts)
    if speculation is None:
        works = [Pass(prompts.longer(more)) for more in sampled]
        steps = answer_passes(target, model, works, scheme=scheme, kv=kv, turns=True)
    else:
        steps = [
            speculate(target, model, prompts.longer(more), speculation, scheme=scheme, kv=kv)
            for more in sampled
        ]
    later = dict(zip(sampled, steps, strict=True))
    last = later[tokens - 1] if tokens > 1 else first
    milliseconds = _sum(later, lambda found: found.latency_ms / found.new_tokens)
    first_ms = _sum(passes, lambda found: found.latency_ms)
    joules = _sum(later, lambda found: _joules(found) / found.new_tokens) + _sum(passes, _joules)
    total = first_ms + milliseconds
    made, area = prompts.sequences * tokens, silicon_mm2(target)
    return GenerationResult(
        model=first.model,
        parameters=first.parameters,
        active_parameters=first.active_parameters,
        system=first.system,
        settings=first.settings,
        block=first.block,
        engine=first.engine,
        scheme=first.scheme,
        kv_format=first.kv_format,
        batch=first.batch,
        prompt=prompts.longest,
        contexts=prompts.groups,
        tokens=tokens,
        first_token_ms=first_ms,
        longest_pass_ms=max(found.latency_ms for found in passes.values()),
        token_ms=milliseconds / (tokens - 1) if tokens > 1 else 0.0,
        last_token_ms=last.latency_ms / (last.new_tokens if tokens > 1 else 1),
        total_ms=total,
        tokens_per_second=1e3 * made / total,
        joules_per_token=joules / made,
        average_watts=1e3 * joules / total,
        tokens_per_second_per_watt=made / joules,
        tokens_per_second_per_mm2=None if area is None else 1e3 * made / total / area,
        memory_bytes=last.memory_bytes,
        remarks=distinct_remarks((*last.remarks, *first.remarks)),
    )


def prompt_passes(
    target: Target,
    model: LlmShape,
    prompts: Batch,
    chunk: int | None = None,
    *,
    scheme: str | None = None,
    kv: str | None = None,
) -> dict[int, LlmResult]:
    """Return the passes of a prompt by their number, from 1 on: one, or one for each chunk.

    Of more than some hundred chunks, some are counted, the first and the last among them.
    """
    if chunk is None:
        return {1: answer_on(target, model, batch=prompts, phase="prefill", scheme=scheme, kv=kv)}
    require(len(prompts.groups) == 1, "chunks are of prompts of one length; give one, not several")
    require(1 <= chunk <= LONGEST_CONTEXT, f"chunk must be 1..{LONGEST_CONTEXT}, not {chunk!r}")
    ((sequences, length),) = prompts.groups
    count = -(-length // chunk)

    def one(number: int) -> Pass:
        met = min(number * chunk, length)
        return Pass(Batch(((sequences, met),)), met - (number - 1) * chunk if number > 1 else None)

    chosen = set(range(1, count + 1))
    if count > EXACT:
        chosen = {1 + k * (count - 2) // EXACT for k in range(EXACT + 1)} | {count}
    works = {number: one(number) for number in sorted(chosen)}
    found = answer_passes(target, model, list(works.values()), scheme=scheme, kv=kv)
    return dict(zip(works, found, strict=True))


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
    speculation: Speculation | None = None,
) -> LlmResult:
    """Return the step of the largest batch that fits in memory and takes at most ``within_ms``."""
    require(isfinite(within_ms) and within_ms > 0, f"a bound must be above 0 ms, not {within_ms!r}")

    def step(batch: int) -> LlmResult:
        work = Batch(((batch, context),))
        return one_step(target, model, work, phase, scheme=scheme, kv=kv, speculation=speculation)

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
