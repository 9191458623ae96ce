"""Facts placed early and asked for late: does an old, shortened cache still give them back?

A sequence begins with sentences that give names a number each, goes on with prose, and ends with
the same sentences in another order. A model that looks back finds each number's digits; how likely
it finds them, and how often they are its first choice, tells what the cache still holds.
"""

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.llm.engine import Evaluation, logits
from tilewright.golden.llm.model import Model, ModelError
from tilewright.golden.llm.sites import Format

__all__ = ["Quiz", "make_quiz"]

NAMES = (
    *("Alice", "Robert", "Maria", "David", "Emma", "Peter", "Sarah", "Thomas"),
    *("Laura", "Daniel", "Anna", "Michael", "Julia", "George", "Helen", "Frank"),
)
TOKENS = 2048
FACTS = 12


@runtime_checkable
class ScoringEvaluation(Protocol):
    """An engine that scores single tokens of a window by itself."""

    def scores(self, window: int, fmt: Format) -> tuple[NDArray, NDArray]:
        """Negative log likelihood of all tokens but the first, and whether each was likeliest."""


class Quiz:
    """One sequence and the places of its answers' tokens."""

    def __init__(self, tokens: NDArray[np.int64], answers: NDArray[np.bool_], count: int):
        self.tokens = tokens
        self.answers = answers  # of each token but the first: is it part of an answer?
        self.count = count

    def score(self, engine: type[Evaluation], model: Model, fmt: Format) -> dict[str, float]:
        """Mean likelihood of an answer's token, and the share of tokens that were first choice."""
        losses, hits = _scores(engine, model, self.tokens, fmt)
        chosen = losses[self.answers]
        return {
            "likelihood": float(np.exp(-chosen.mean())),  # geometric mean
            "first_choice": float(hits[self.answers].mean()),
        }


def make_quiz(
    model: Model, filler: NDArray[np.int64], *, seed: int = 0, tokens: int = TOKENS
) -> Quiz:
    """``filler`` is prose, of which as much is taken as makes a sequence of ``tokens``."""
    if model.tokenizer is None:
        raise ModelError(f"{model.name}: no tokenizer")
    rng = np.random.default_rng(seed)
    names = rng.permutation(NAMES)[:FACTS]
    numbers = rng.permutation(np.arange(1000, 10000))[:FACTS]

    def encode(text: str) -> NDArray[np.int64]:
        return np.asarray(model.tokenizer.encode(text))  # type: ignore[union-attr]

    def facts(order: NDArray) -> list[tuple[NDArray, bool]]:
        pieces = []
        for k in order:
            pieces.append((encode(f" The number of {names[k]} is"), False))
            pieces.append((encode(f" {numbers[k]}"), True))
            pieces.append((encode("."), False))
        return pieces

    early, late = facts(np.arange(FACTS)), facts(rng.permutation(FACTS))
    head, tail = (
        encode("Every guest was given a number."),
        encode("\n\nHere are the numbers again."),
    )
    if model.start is not None:  # once, before all, and not where prose had it before a window
        head, filler = np.insert(head, 0, model.start), filler[filler != model.start]
    used = sum(len(piece) for piece, _ in (*early, *late)) + len(head) + len(tail)
    between = filler[: tokens - used]
    if used + len(between) < tokens:
        raise ValueError(f"{len(filler)} tokens of prose are too few for a quiz of {tokens}")
    parts = [
        (head, False),
        *((piece, False) for piece, _ in early),  # an early number answers nothing
        (between, False),
        (tail, False),
        *late,
    ]
    sequence = np.concatenate([piece for piece, _ in parts])
    answers = np.concatenate([np.full(len(piece), is_answer) for piece, is_answer in parts])
    return Quiz(sequence, answers[1:], FACTS)


def _scores(
    engine: type[Evaluation], model: Model, tokens: NDArray[np.int64], fmt: Format
) -> tuple[NDArray, NDArray]:
    """Negative log likelihood of all tokens but the first, and whether each was the likeliest."""
    evaluation = engine(model, tokens, len(tokens))
    if isinstance(evaluation, ScoringEvaluation):
        return evaluation.scores(0, fmt)
    found = logits(model, tokens, fmt)[:-1]
    wanted = tokens[1:]
    hits = found.argmax(axis=1) == wanted
    chosen = np.take_along_axis(found, wanted[:, np.newaxis], axis=1)[:, 0]
    largest = found.max(axis=1)
    np.exp(found - largest[:, np.newaxis], out=found)
    return np.log(found.sum(axis=1)) + largest - chosen, hits
