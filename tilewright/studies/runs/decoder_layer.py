"""What the runs on a decoder layer of a language model share: its operands, and its parts."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.base.console import progress
from tilewright.base.errors import CommandError
from tilewright.golden.llm.block import Attention, Module, captured
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.model import Model, ModelError
from tilewright.golden.llm.text import default_text

__all__ = ["MODEL", "read_layer", "read_text", "run_parts"]

MODEL = "smollm2"
TOKENS = 128  # of the text; they calibrate the weights

Part = TypeVar("Part")


def read_layer(
    model: str, layer: int, count: int, *, tokens: int = TOKENS, seed: int = 1
) -> tuple[dict[str, Module], Attention]:
    """Return the operands that a decoder layer meets in real text.

    They are its linear modules for the last ``count`` of ``tokens`` tokens, and its attention for
    all of them.
    """
    loaded, ids = read_text(model, tokens=tokens, seed=seed)
    return captured(loaded, ids, layer, count)


def read_text(model: str, *, tokens: int, seed: int = 1) -> tuple[Model, NDArray[np.int64]]:
    """Return a model and tokens of a text; a model without a tokenizer reads random tokens."""
    try:
        loaded = load_model(model)
    except ModelError as error:
        raise CommandError(str(error)) from None
    if loaded.tokenizer is None:
        rng = np.random.default_rng(seed)
        return loaded, rng.integers(0, loaded.config.vocab_size, tokens)
    return loaded, np.array(loaded.tokenizer.encode(default_text()[: 16 * tokens])[:tokens])


def run_parts(name: str, parts: Iterable[tuple[str, Callable[[], Part]]]) -> tuple[Part, ...]:
    """Return the results of the named parts, run one after the other."""
    waiting, results = list(parts), []
    with progress(name, len(waiting)) as tick:
        for doing, run in waiting:
            tick(doing, steps=0)
            results.append(run())
            tick()
    return tuple(results)
