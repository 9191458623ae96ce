"""What the runs on a decoder layer of a language model share: its operands, and its parts."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from tilewright.base.console import progress
from tilewright.base.errors import CommandError
from tilewright.golden.llm.block import Attention, Module, captured
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.model import ModelError
from tilewright.golden.llm.text import default_text

__all__ = ["MODEL", "read_layer", "run_parts"]

MODEL = "smollm2"
TOKENS = 128  # of the text; they calibrate the weights

Part = TypeVar("Part")


def read_layer(
    model: str, layer: int, count: int, *, tokens: int = TOKENS, seed: int = 1
) -> tuple[dict[str, Module], Attention]:
    """Return the operands that a decoder layer meets in real text.

    They are its linear modules for the last ``count`` of ``tokens`` tokens, and its attention for
    all of them. A model without a tokenizer reads random tokens.
    """
    try:
        loaded = load_model(model)
        if loaded.tokenizer is None:
            rng = np.random.default_rng(seed)
            ids = rng.integers(0, loaded.config.vocab_size, tokens)
        else:
            ids = loaded.tokenizer.encode(default_text()[: 16 * tokens])[:tokens]
        return captured(loaded, ids, layer, count)
    except ModelError as error:
        raise CommandError(str(error)) from None


def run_parts(name: str, parts: Iterable[tuple[str, Callable[[], Part]]]) -> tuple[Part, ...]:
    """Return the results of the named parts, run one after the other."""
    waiting, results = list(parts), []
    with progress(name, len(waiting)) as tick:
        for doing, run in waiting:
            tick(doing, steps=0)
            results.append(run())
            tick()
    return tuple(results)
