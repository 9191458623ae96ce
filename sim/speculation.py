"""Speculative decoding: a small model guesses some tokens, the large one verifies them at once.

A round is ``tokens`` steps of the draft and one pass of the model over as many tokens and one more.
Each guess is right with probability ``acceptance``, whatever the others are; the guesses up to the
first wrong one stay, and the model itself gives the token after them.
"""

from dataclasses import dataclass, replace

from tilewright.golden.params.block import require
from tilewright.golden.params.llm import LlmShape
from tilewright.sim.llm import LlmResult, MemoryBytes, answer_pass
from tilewright.sim.target import Target
from tilewright.sim.workload import Batch, Pass

__all__ = ["Speculation", "speculate"]

MOST_GUESSES = 32


@dataclass(frozen=True, kw_only=True)
class Speculation:
    """A draft model, how many tokens it guesses, and how probable a right guess is."""

    draft: LlmShape
    tokens: int = 4
    acceptance: float

    def __post_init__(self) -> None:
        require(
            1 <= self.tokens <= MOST_GUESSES,
            f"guesses of a round must be 1..{MOST_GUESSES}, not {self.tokens!r}",
        )
        require(0 <= self.acceptance <= 1, f"acceptance must be 0 to 1, not {self.acceptance!r}")

    @property
    def expected(self) -> float:
        """Tokens of a sequence that a round gives on average."""
        return sum(self.acceptance**k for k in range(self.tokens + 1))


def speculate(
    target: Target,
    model: LlmShape,
    batch: Batch,
    guess: Speculation,
    *,
    scheme: str | None = None,
    kv: str | None = None,
) -> LlmResult:
    """Return a round for every sequence of ``batch``; both models are on the same devices."""
    count = guess.tokens
    drafts = [
        answer_pass(target, guess.draft, Pass(batch.longer(k)), scheme=scheme, kv=kv)
        for k in range(count)
    ]
    found = answer_pass(target, model, Pass(batch.longer(count), count + 1), scheme=scheme, kv=kv)
    ms = found.latency_ms + sum(draft.latency_ms for draft in drafts)
    draft_joules = sum(sum(draft.joules_by_part.values()) for draft in drafts)
    joules = sum(found.joules_by_part.values()) + draft_joules
    made = batch.sequences * guess.expected
    area = found.tokens_per_second_per_mm2 and (
        found.tokens_per_second / found.tokens_per_second_per_mm2
    )
    memory, small = found.memory_bytes, drafts[-1].memory_bytes
    weights, cache = memory.weights + small.weights, memory.cache + small.cache
    busy = found.latency_ms / ms
    return replace(
        found,
        context=batch.longest,
        contexts=batch.groups,
        new_tokens=guess.expected,
        latency_ms=ms,
        tokens_per_second=1e3 * made / ms,
        joules_per_token=joules / made,
        average_watts=1e3 * joules / ms,
        tokens_per_second_per_watt=made / joules,
        tokens_per_second_per_mm2=1e3 * made / ms / area if area else None,
        utilisation={name: use * busy for name, use in found.utilisation.items()},
        ms_by_part=found.ms_by_part | {"draft": ms - found.latency_ms},
        joules_by_part=found.joules_by_part | {"draft": draft_joules},
        memory_bytes=MemoryBytes(
            weights=weights,
            cache=cache,
            capacity=memory.capacity,
            fits=memory.fits and weights + cache <= memory.capacity,
        ),
        remarks=(
            f"a round of {guess.draft.name}'s {count} guesses gives {guess.expected:.3g} tokens"
            f" if each is right with a probability of {guess.acceptance:g}",
            *found.remarks,
        ),
    )
