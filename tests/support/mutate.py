"""Planted errors: components built from their own source with one expression replaced."""

import inspect
import sys
from importlib import import_module
from types import ModuleType

from amaranth.lib import wiring

from golden.params.block import BlockParams
from hw.catalog import CATALOG

__all__ = ["mutant", "mutant_of"]


def mutant(cls: type, old: str, new: str) -> type:
    """``cls`` as its module would define it with ``old``, which must occur once, as ``new``."""
    return getattr(_mutated(sys.modules[cls.__module__], old, new), cls.__name__)


def mutant_of(params: BlockParams, old: str, new: str) -> wiring.Component:
    """The component of ``params`` with one expression of its module replaced."""
    module, _, name = CATALOG[params.block].partition(":")
    return mutant(getattr(import_module(module), name), old, new)(params)


def _mutated(module: ModuleType, old: str, new: str) -> ModuleType:
    source = inspect.getsource(module)
    if source.count(old) != 1:
        raise ValueError(f"{module.__name__}: {old!r} occurs {source.count(old)} times, not once")
    changed = ModuleType(module.__name__)
    # Executed apart: the original stays what everybody else imports.
    exec(compile(source.replace(old, new), f"<{module.__name__}, changed>", "exec"), vars(changed))
    return changed
