"""Planted errors: a class built from its own source with one expression replaced."""

import inspect
import sys
from types import ModuleType

__all__ = ["mutant", "mutated_module"]


def mutated_module(name: str, old: str, new: str) -> ModuleType:
    """Module ``name`` executed afresh with ``old``, which must occur exactly once, as ``new``."""
    source = inspect.getsource(sys.modules[name])
    if source.count(old) != 1:
        raise ValueError(f"{name}: {old!r} occurs {source.count(old)} times, not once")
    module = ModuleType(name)
    exec(compile(source.replace(old, new), f"<mutant of {name}>", "exec"), module.__dict__)
    return module


def mutant(cls: type, old: str, new: str) -> type:
    """``cls`` as its module would define it with ``old``, which must occur once, as ``new``."""
    return getattr(mutated_module(cls.__module__, old, new), cls.__name__)
