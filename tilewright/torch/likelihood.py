"""Perplexity and log-likelihoods of any causal model: what tables and zero-shot tasks need.

A model of Transformers with a format in it also goes as it is into other harnesses, such as
``lm_eval.models.huggingface.HFLM(pretrained=model)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from typing import Any, NamedTuple

import torch

from tilewright.torch.modules import device_of

HEAD_ROWS = 512  # tokens whose logits are held at a time in float32


class Likelihood(NamedTuple):
    """Likelihood of a continuation after its context."""

    logprob: float  # natural logarithm
    greedy: bool  # every token of it is the likeliest
    tokens: int


def token_losses(
    model: Any, ids: Sequence[int] | torch.Tensor, *, last: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Negative log-likelihoods of a sequence's tokens but the first; which ones were likeliest.

    ``model`` is called with ``input_ids`` and gives ``logits``, as models of Transformers do.
    ``ids`` may be several sequences of one length, (batch, tokens), as the results are then.
    ``last`` asks for that many tokens at the end alone: a model that takes ``logits_to_keep``
    then computes no other logits, which with a large vocabulary is most of a small model's work.
    """
    tokens = torch.as_tensor(ids, dtype=torch.long, device=device_of(model))
    batch = tokens.reshape(-1, tokens.shape[-1])
    count = batch.shape[1] - 1 if last is None else last
    asked: dict[str, Any] = {"input_ids": batch, "use_cache": False}
    if last is not None and "logits_to_keep" in signature(model.forward).parameters:
        asked["logits_to_keep"] = count + 1
    with torch.inference_mode():
        logits = model(**asked).logits[:, -count - 1 : -1].flatten(0, 1)
        losses, hits = _losses(logits, batch[:, -count:].flatten())
    shape = (*tokens.shape[:-1], count)
    return losses.double().cpu().reshape(shape), hits.cpu().reshape(shape)


def _losses(logits: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    losses, hits = [], []
    for rows, targets in zip(logits.split(HEAD_ROWS), wanted.split(HEAD_ROWS), strict=True):
        wide = rows.float()
        losses.append(wide.logsumexp(-1) - wide.gather(-1, targets[:, None])[:, 0])
        hits.append(wide.argmax(-1) == targets)
    return torch.cat(losses), torch.cat(hits)


def perplexity(
    model: Any,
    ids: Sequence[int] | torch.Tensor,
    window: int,
    progress: Callable[[int, int], None] | None = None,
    *,
    batch: int = 1,
) -> float:
    """exp of the mean negative log-likelihood of a text, in sequences of ``window`` tokens.

    Each begins at position 0 with a token that is given; an incomplete window is left out.
    ``batch`` sequences go through the model together.
    """
    tokens = torch.as_tensor(ids, dtype=torch.long)
    count = len(tokens) // window
    if window < 2 or count < 1:
        raise ValueError(f"{len(tokens)} tokens have no window of {window}; it needs at least 2")
    if batch < 1:
        raise ValueError(f"batch must be at least 1, not {batch}")
    windows = tokens[: count * window].reshape(count, window)
    total = 0.0
    for first in range(0, count, batch):
        losses, _ = token_losses(model, windows[first : first + batch])
        total += float(losses.sum())
        if progress is not None:
            progress(min(first + batch, count), count)
    return float(torch.tensor(total / (count * (window - 1)), dtype=torch.float64).exp())


def loglikelihoods(
    model: Any,
    encode: Callable[[str], Sequence[int]],
    requests: Iterable[tuple[str, str]],
    *,
    first: int | None = None,
    longest: int | None = None,
    together: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Likelihood]:
    """Log-likelihoods of continuations: ``requests`` are (context, continuation) pairs.

    Context and continuation are encoded together, and the tokens beyond the context's own count
    as the continuation. ``first`` is put before every request (a model's start token); of longer
    requests than ``longest`` tokens the beginning is cut. With ``together``, requests of like
    length go through the model at a time, padded at their ends to at most that many tokens.
    """
    asked = [_request(number, encode, pair, first, longest) for number, pair in enumerate(requests)]
    results: dict[int, Likelihood] = {}
    for batch in _batches([len(ids) for ids, _ in asked], together):
        width = max(len(asked[k][0]) for k in batch)
        begin = min(len(asked[k][0]) - asked[k][1] for k in batch)  # of the first continuation
        # Padding follows a request, where a causal model does not see it.
        losses, hits = token_losses(
            model,
            [asked[k][0] + [asked[k][0][-1]] * (width - len(asked[k][0])) for k in batch],
            last=width - begin,
        )
        for row, number in enumerate(batch):
            ids, length = asked[number]
            part = slice(len(ids) - length - begin, len(ids) - begin)
            results[number] = Likelihood(
                -float(losses[row, part].sum()), bool(hits[row, part].all()), length
            )
        if progress is not None:
            progress(len(results))
    return [results[number] for number in range(len(asked))]


def _request(
    number: int,
    encode: Callable[[str], Sequence[int]],
    pair: tuple[str, str],
    first: int | None,
    longest: int | None,
) -> tuple[list[int], int]:
    """The tokens of a request, and how many of them are its continuation."""
    context, continuation = pair
    # A space between the two belongs to the continuation, as tokenizers expect.
    known = len(encode(context.rstrip(" ")))
    whole = list(encode(context + continuation))
    length = len(whole) - known
    if length < 1:
        raise ValueError(f"request {number}: the continuation {continuation!r} has no token")
    ids = ([] if first is None else [first]) + whole
    if longest is not None and len(ids) > longest:
        ids = ids[-longest:]
    if length >= len(ids):
        raise ValueError(f"request {number}: nothing stands before {continuation!r}")
    return ids, length


def _batches(lengths: list[int], together: int | None) -> list[list[int]]:
    if together is None:
        return [[number] for number in range(len(lengths))]
    batches: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batches and lengths[number] * (len(batches[-1]) + 1) <= together:
            batches[-1].append(number)
        else:
            batches.append([number])
    return batches
