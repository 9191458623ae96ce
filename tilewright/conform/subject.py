"""Implementations by name: ``FILE.py:FUNCTION``, ``MODULE:FUNCTION``, or a class with both."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tilewright.golden.formats import module_of
from tilewright.golden.params.block import require


def load(name: str, torch: bool = False) -> tuple[Callable | None, Callable | None]:
    """An encoder and a decoder; a function is an encoder. ``torch``: it takes tensors."""
    place, _, kind = name.rpartition(":")
    require(bool(place), f"{name!r} is neither a known library nor FILE.py:FUNCTION")
    try:
        found = module_of(place, what="an implementation is")
        for part in kind.split("."):
            require(hasattr(found, part), f"{place} has no {kind}")
            found = getattr(found, part)
        made = found() if isinstance(found, type) else found
    except ValueError:
        raise
    except Exception as error:  # the user's file may raise anything
        raise ValueError(f"{name} cannot be used: {type(error).__name__}: {error}") from None
    pair = (getattr(made, "encode", None), getattr(made, "decode", None))
    if pair == (None, None):
        require(callable(made), f"{name} is not a function, nor a class with encode or decode")
        pair = (made, None)
    encode, decode = (partial(with_tensors, f) if f and torch else f for f in pair)
    return encode, decode


def with_tensors(function: Callable, *arrays: Any) -> Any:
    """``function`` of the arrays as PyTorch's tensors."""
    import torch

    kinds = {"uint16": np.int32, "uint32": np.int64, "uint64": np.int64}
    plain = (np.asarray(a) for a in arrays)
    return function(*(torch.from_numpy(a.astype(kinds.get(a.dtype.name, a.dtype))) for a in plain))
