"""Questions about serving a model: a step, a prompt and its answer, or the largest batch.

A :class:`Question` names everything that an answer depends on; :func:`ask` answers it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from math import isfinite

from tilewright.golden.params.block import BlockParams, require
from tilewright.golden.params.llm import LlmShape
from tilewright.sim.llm import (
    Answer,
    LlmResult,
    answer_passes,
    duration,
    rates,
    step_of,
)
from tilewright.sim.models import resolve_model
from tilewright.sim.target import Target, resolve_target, silicon_mm2
from tilewright.sim.workload import (
    LONGEST_CONTEXT,
    MOST_SEQUENCES,
    MOST_TOKENS,
    Batch,
    MemoryBytes,
    Pass,
)

EXACT = 256  # tokens of an answer whose steps are all counted; of more, as many and those between
DEFAULT_CONTEXT = 1024
GUESSES = 4  # of a round, unless told
MOST_GUESSES = 32


@dataclass(frozen=True, kw_only=True)
class GenerationResult(Answer):
    """A prompt and the tokens that follow it, for every sequence of a batch.

    Rates are of the new tokens over the whole time, energy is the prompt's too.
    """

    prompt: int  # tokens of the longest
    tokens: int  # that follow; the first is the result of the prompt
    first_token_ms: float  # the whole prompt
    longest_pass_ms: float  # the prompt's, or that of its longest chunk: others wait for it
    token_ms: float  # mean of the tokens after the first
    last_token_ms: float
    total_ms: float

    def _figures(self) -> Iterable[tuple[str, str]]:
        first = duration(self.first_token_ms)
        if self.longest_pass_ms < self.first_token_ms:
            first += f", in passes of at most {duration(self.longest_pass_ms)}"
        others = f"{duration(self.token_ms)}, the last {self.last_token_ms:.2f} ms"
        words = f"prompt {self.contexts_text}, then {self.tokens} tokens"
        yield "work", f"batch {self.batch}, {words}"
        yield "first token", first
        yield "each other token", others
        yield "total", duration(self.total_ms)
        yield "rate", f"{self.tokens_per_second:.2f} new tokens/s"
        yield "energy", f"{self.joules_per_token:.3g} J a new token"


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question; None is a default, or says that a field plays no part.

    With ``tokens`` it is about a prompt and as many tokens after it, with ``within_ms`` about the
    largest batch that takes no longer for a step, else about one step.
    """

    model: str
    system: str | None = None
    engine: str | None = None
    scheme: str | None = None
    block: BlockParams | str | None = None  # parameters, or a name such as harmonia,rows=4
    latency: int | None = None  # of the memory of a block, in cycles
    memory: str | None = None  # of an accelerator: flat, or DRAM by name
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


@dataclass(frozen=True)
class _Asked:
    """The part that all steps of an answer share."""

    question: Question
    target: Target
    model: LlmShape
    draft: LlmShape | None

    def passes(
        self, works: Sequence[Pass], model: LlmShape | None = None, *, turns: bool = False
    ) -> list[LlmResult]:
        q = self.question
        model = model or self.model
        return answer_passes(self.target, model, works, scheme=q.scheme, kv=q.kv, turns=turns)

    def steps(self, batches: Sequence[Batch]) -> list[LlmResult]:
        """Return a step of each batch or, where a draft guesses tokens, a round."""
        phase = "decode" if self.question.phase is None else self.question.phase
        if self.draft is None:
            return self.passes([step_of(batch, phase) for batch in batches], turns=True)
        require(phase == "decode", "guesses are of tokens after a prompt; leave the phase out")
        return [self._round(self.draft, batch) for batch in batches]

    def _round(self, draft: LlmShape, batch: Batch) -> LlmResult:
        """Return some steps of the draft and one pass of the model over one token more.

        Guesses up to the first wrong one stay; the model itself gives the token after them.
        """
        right = self.question.acceptance
        count = GUESSES if self.question.guesses is None else self.question.guesses
        assert right is not None
        expected = sum(right**k for k in range(count + 1))
        drafts = self.passes([Pass(batch.longer(k)) for k in range(count)], draft)
        (found,) = self.passes([Pass(batch.longer(count), count + 1)])
        ms = found.latency_ms + sum(one.latency_ms for one in drafts)
        draft_joules = sum(map(_joules, drafts))
        joules = _joules(found) + draft_joules
        memory, small = found.memory_bytes, drafts[-1].memory_bytes
        both = MemoryBytes(
            memory.weights + small.weights, memory.cache + small.cache, memory.capacity
        )
        busy = found.latency_ms / ms
        return replace(
            found,
            context=batch.longest,
            contexts=batch.groups,
            new_tokens=expected,
            latency_ms=ms,
            **rates(batch.sequences * expected, ms / 1e3, joules, silicon_mm2(self.target)),
            utilisation={name: use * busy for name, use in found.utilisation.items()},
            ms_by_part=found.ms_by_part | {"draft": ms - found.latency_ms},
            joules_by_part=found.joules_by_part | {"draft": draft_joules},
            memory_bytes=both,
            remarks=(
                f"a round of {draft.name}'s {count} guesses gives {expected:.3g} tokens"
                f" if each is right with a probability of {right:g}",
                *found.remarks,
            ),
        )


def ask(question: Question) -> LlmResult | GenerationResult:
    return ask_steps([question])[0]


def ask_steps(questions: Sequence[Question]) -> list[LlmResult | GenerationResult]:
    """Return the answers to questions that differ in nothing but batch and context.

    Plain steps are computed together, bit-equal to :func:`ask` of each.
    """
    for question in questions:
        _check(question)
    q = questions[0]
    target = resolve_target(
        q.system,
        engine=q.engine,
        block=q.block,
        latency=q.latency,
        memory=q.memory,
        settings=q.settings,
    )
    draft = None if q.draft is None else resolve_model(q.draft)
    asked = _Asked(q, target, resolve_model(q.model), draft)
    found: Sequence[LlmResult | GenerationResult]
    if q.tokens is not None:
        found = [_generate(asked, question) for question in questions]
    elif q.within_ms is not None:
        found = [_largest_batch(asked, question) for question in questions]
    else:
        found = asked.steps([_sequences(q, q.context, DEFAULT_CONTEXT) for q in questions])
    return [replace(one, settings=dict(q.settings)) if q.settings else one for one in found]


def _sequences(q: Question, tokens: int | Batch | None, default: int | None = None) -> Batch:
    if isinstance(tokens, Batch):
        return tokens
    length = default if tokens is None else tokens
    assert length is not None
    return Batch(((1 if q.batch is None else q.batch, length),))


def _check(q: Question) -> None:
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
        q.guesses is None or 1 <= q.guesses <= MOST_GUESSES,
        f"guesses of a round must be 1..{MOST_GUESSES}, not {q.guesses!r}",
    )
    require(
        q.acceptance is None or 0 <= q.acceptance <= 1,
        f"acceptance must be 0 to 1, not {q.acceptance!r}",
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


def _generate(asked: _Asked, q: Question) -> GenerationResult:
    """Return time and energy of the new tokens of each prompt.

    The first is the result of the prompt, which takes one pass or, with ``chunk``, one for as many
    tokens; each of the others is a step with one more token of context, or a share of a round of
    guesses.
    """
    prompts, tokens = _sequences(q, q.prompt), q.tokens
    assert tokens is not None
    require(1 <= tokens <= LONGEST_CONTEXT, f"tokens must be 1..{LONGEST_CONTEXT}, not {tokens!r}")
    passes = _prompt_passes(asked, prompts, q.chunk)
    first = passes[max(passes)]
    windows: set[int] = set()
    if asked.model.sliding_window is not None:  # time grows evenly but where a window fills
        windows = {asked.model.sliding_window - length for _, length in prompts.groups}
    sampled = _sampled(tokens - 1, windows)
    steps = asked.steps([prompts.longer(more) for more in sampled])
    later = dict(zip(sampled, steps, strict=True))
    last = later[tokens - 1] if tokens > 1 else first
    milliseconds = _sum(later, lambda found: found.latency_ms / found.new_tokens)
    first_ms = _sum(passes, lambda found: found.latency_ms)
    joules = _sum(later, lambda found: _joules(found) / found.new_tokens) + _sum(passes, _joules)
    total, made = first_ms + milliseconds, prompts.sequences * tokens
    shared = {field.name: getattr(first, field.name) for field in fields(Answer)}
    shared |= rates(made, total / 1e3, joules, silicon_mm2(asked.target))
    shared["contexts"], shared["memory_bytes"] = prompts.groups, last.memory_bytes
    shared["remarks"] = distinct_remarks((*last.remarks, *first.remarks))
    return GenerationResult(
        **shared,
        prompt=prompts.longest,
        tokens=tokens,
        first_token_ms=first_ms,
        longest_pass_ms=max(found.latency_ms for found in passes.values()),
        token_ms=milliseconds / (tokens - 1) if tokens > 1 else 0.0,
        last_token_ms=last.latency_ms / (last.new_tokens if tokens > 1 else 1),
        total_ms=total,
    )


def _prompt_passes(asked: _Asked, prompts: Batch, chunk: int | None) -> dict[int, LlmResult]:
    """Return the passes of a prompt by their number, from 1 on: one, or one for each chunk.

    Of more than some hundred chunks, some are counted, the first and the last among them.
    """
    if chunk is None:
        return {1: asked.passes([Pass(prompts, None)], turns=True)[0]}
    require(len(prompts.groups) == 1, "chunks are of prompts of one length; give one, not several")
    require(1 <= chunk <= LONGEST_CONTEXT, f"chunk must be 1..{LONGEST_CONTEXT}, not {chunk!r}")
    ((sequences, length),) = prompts.groups
    count = -(-length // chunk)

    def one(number: int) -> Pass:
        met = min(number * chunk, length)
        return Pass(Batch(((sequences, met),)), met - (number - 1) * chunk if number > 1 else None)

    works = {number: one(number) for number in (*_sampled(count - 1), count)}
    return dict(zip(works, asked.passes(list(works.values())), strict=True))


def _joules(found: LlmResult) -> float:
    return sum(found.joules_by_part.values())


def _sampled(steps: int, also: Iterable[int] = ()) -> list[int]:
    """Return which of the steps 1 to ``steps`` are counted, the first and the last among them."""
    if steps <= EXACT:
        return list(range(1, steps + 1))
    chosen = {1 + k * (steps - 1) // EXACT for k in range(EXACT + 1)} | set(also)
    return sorted(more for more in chosen if 1 <= more <= steps)


def _sum(later: Mapping[int, LlmResult], value: Callable[[LlmResult], float]) -> float:
    """Add a value over all steps from those that were counted."""
    total = 0.0
    for start, end in pairwise(later):
        a, b = value(later[start]), value(later[end])
        total += (end - start) * (a + b) / 2 - (b - a) / 2  # start to the one before end
    return total + (value(later[max(later)]) if later else 0.0)


def _largest_batch(asked: _Asked, q: Question) -> LlmResult:
    within_ms, context = q.within_ms, DEFAULT_CONTEXT if q.context is None else q.context
    assert within_ms is not None and isinstance(context, int)
    require(isfinite(within_ms) and within_ms > 0, f"a bound must be above 0 ms, not {within_ms!r}")

    def step(batch: int) -> LlmResult:
        return asked.steps([Batch(((batch, context),))])[0]

    def good(found: LlmResult) -> bool:
        return found.memory_bytes.fits and found.latency_ms <= within_ms

    best, most = step(1), min(MOST_SEQUENCES, MOST_TOKENS // context)
    require(
        best.memory_bytes.fits,
        f"{asked.model.name} does not fit in {asked.target.system}, even alone",
    )
    require(good(best), f"one sequence takes {best.latency_ms:.4g} ms, more than {within_ms:g}")
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
    """Leave out remarks that differ from an earlier one in numbers alone."""
    found: dict[str, str] = {}
    for remark in remarks:
        found.setdefault(re.sub(r"[0-9.]+(e-?[0-9]+)?", "#", remark), remark)
    return tuple(found.values())
