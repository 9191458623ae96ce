"""Balanced trees as pipeline stages."""

from collections.abc import Callable
from types import SimpleNamespace

from amaranth import Module, Value

from tilewright.hw.stream.pipeline import Stage


def reduction_stages(
    source: str, result: str, count: int, combine: Callable[[Value, Value], Value]
) -> list[Stage]:
    """Combine the ``count`` elements of field ``source`` into ``result``, one stage per level."""
    levels = max(1, (count - 1).bit_length())

    def level(k: int) -> Stage:
        def stage(m: Module, s: SimpleNamespace) -> dict:
            terms = list(getattr(s, "terms" if k else source))
            odd = terms[len(terms) & ~1 :]
            terms = [combine(a, b) for a, b in zip(terms[0::2], terms[1::2], strict=False)] + odd
            return {"terms": terms} if k < levels - 1 else {result: terms[0]}

        return stage

    return [level(k) for k in range(levels)]
