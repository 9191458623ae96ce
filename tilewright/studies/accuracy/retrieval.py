"""Facts placed early and asked for late: does an old, shortened cache still give them back?

A sequence begins with sentences that give names a number each, goes on with prose, and ends with
the same sentences in another order. A model that looks back finds each number's digits; how likely
it finds them, and how often they are its first choice, shows what the cache still holds.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tilewright.studies.accuracy.subject import Smoothing, Subject, in_format
from tilewright.torch.config import Config

__all__ = ["Quiz", "make_quiz"]

NAMES = (
    *("Alice", "Robert", "Maria", "David", "Emma", "Peter", "Sarah", "Thomas"),
    *("Laura", "Daniel", "Anna", "Michael", "Julia", "George", "Helen", "Frank"),
)
TOKENS = 2048
FACTS = 12


class Quiz:
    """One sequence and the places of its answers' tokens."""

    def __init__(self, tokens: NDArray[np.int64], answers: NDArray[np.bool_], count: int):
        self.tokens = tokens
        self.answers = answers  # of each token but the first: is it part of an answer?
        self.count = count

    def score(
        self, subject: Subject, config: Config | None, factors: Smoothing | None = None
    ) -> dict[str, float]:
        """Mean likelihood of an answer's token, and the share of tokens that were first choice."""
        from tilewright.torch.likelihood import token_losses

        with in_format(subject.model, config, factors):
            losses, hits = (found.numpy() for found in token_losses(subject.model, self.tokens))
        return {
            "likelihood": float(np.exp(-losses[self.answers].mean())),  # geometric mean
            "first_choice": float(hits[self.answers].mean()),
        }


def make_quiz(
    encode_text: Callable[[str], list[int]],
    start: int | None,
    filler: NDArray[np.int64],
    *,
    seed: int = 0,
    tokens: int = TOKENS,
) -> Quiz:
    """``filler`` is prose, of which as much is taken as makes a sequence of ``tokens``."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(NAMES)[:FACTS]
    numbers = rng.permutation(np.arange(1000, 10000))[:FACTS]

    def encode(text: str) -> NDArray[np.int64]:
        return np.array(encode_text(text), np.int64)

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
    if start is not None:  # once, before all, and not where prose had it before a window
        head, filler = np.insert(head, 0, start), filler[filler != start]
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
