"""Text to tokens and back, and the choice of the next token by the host."""

import codecs
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.llm.tokenizer import Tokenizer


def prompt_tokens(
    prompt: str, tokenizer: Tokenizer | None, *, start: int | None, vocabulary: int
) -> list[int]:
    """Tokens of a text, after ``start`` where the model's files put one before every text.

    Without a tokenizer they are the text's bytes, of a model with ``vocabulary`` tokens.
    """
    if tokenizer is not None:
        ids = [int(token) for token in tokenizer.encode(prompt)]
    else:
        ids = list(prompt.encode())
        if any(token >= vocabulary for token in ids):
            raise CommandError(
                f"this model has no tokenizer: its prompt has bytes below {vocabulary}"
            )
    if not ids:
        raise CommandError("--prompt is empty")
    return ids if start is None else [start, *ids]


def decoded(tokenizer: Tokenizer | None, tokens: Sequence[int]) -> str:
    """The text of tokens; their numbers without a tokenizer."""
    if tokenizer is None:
        return "".join(f" {token}" for token in tokens)
    return tokenizer.decode(tokens)


def check_context(prompt: int, tokens: int, context: int) -> None:
    """Refuse a prompt of so many tokens, and new ones, that do not fit into a sequence's cache."""
    if prompt + tokens - 1 > context:
        raise CommandError(
            f"a prompt of {prompt} tokens and {tokens} new ones need a context of"
            f" {prompt + tokens - 1}; the model is compiled for {context}: give a larger --context"
        )


def check_temperature(temperature: float) -> None:
    """Refuse what :func:`chosen` cannot divide by."""
    if not 0 <= temperature < np.inf:
        raise CommandError(f"temperature must be at least 0 and finite, not {temperature:g}")


def chosen(logits: NDArray[np.float32], temperature: float, rng: np.random.Generator) -> int:
    """The most likely token, the first of equals; or with a ``temperature`` one at random."""
    if temperature <= 0:
        return int(logits.argmax())
    scaled = (logits - logits.max()).astype(np.float64) / temperature
    weights = np.exp(scaled)
    return int(rng.choice(len(weights), p=weights / weights.sum()))


class Text:
    """A text as it grows; an incomplete character waits for the rest of its bytes."""

    def __init__(self, tokenizer: Tokenizer | None):
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def add(self, token: int) -> str:
        """The characters that one more token adds."""
        if self._tokenizer is None:
            return f" {token}"
        return self._decoder.decode(self._tokenizer.content(token))
