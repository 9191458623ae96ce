"""The tokens of a prompt that a model continues."""

from tilewright.base.errors import CommandError
from tilewright.golden.llm.tokenizer import Tokenizer

__all__ = ["prompt_tokens"]


def prompt_tokens(
    prompt: str, tokenizer: Tokenizer | None, *, start: int | None, vocabulary: int
) -> list[int]:
    """Tokens of a text, after ``start`` where the model's files put one before every text.

    Of a model without a tokenizer, which has ``vocabulary`` tokens, they are the text's bytes.
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
