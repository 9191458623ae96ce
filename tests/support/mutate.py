"""Planted errors: components built from their own source with one expression replaced."""

import inspect
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from amaranth.lib import wiring
from pytest import MonkeyPatch

from tilewright.golden.params.block import BlockParams
from tilewright.hw.catalog import CATALOG


def mutant(component: Any, old: str, new: str) -> Any:
    """``component``, a class or function, as its module would define it with ``old`` as ``new``.

    ``old`` must occur once.
    """
    return getattr(_mutated(sys.modules[component.__module__], old, new), component.__name__)


def plant(monkeypatch: MonkeyPatch, component: str, old: str, new: str) -> None:
    """Every module of hardware that has ``component`` has it with ``old`` as ``new``.

    It is a class or function, such as ``deca.loader:Loader``.
    """
    for place in CATALOG.values():
        import_module(place.partition(":")[0])
    module, _, name = component.partition(":")
    original = getattr(import_module(f"tilewright.hw.{module}"), name)
    changed = mutant(original, old, new)
    for place, user in list(sys.modules.items()):
        if place.startswith("tilewright.hw.") and vars(user).get(name) is original:
            monkeypatch.setattr(user, name, changed)


def read_errors(text: str) -> dict[str, tuple[str, ...]]:
    """Errors by name, from three lines each: ``name: words``, ``- old``, ``+ new``."""
    lines = text.strip().splitlines()
    errors = {}
    for about, old, new in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        name, _, words = about.partition(": ")
        errors[name] = (*words.split(), old.removeprefix("- "), new.removeprefix("+").strip())
    return errors


def mutant_of(params: BlockParams, old: str, new: str) -> wiring.Component:
    """The component of ``params`` with one expression of its module replaced."""
    module, _, name = CATALOG[params.block].partition(":")
    return mutant(getattr(import_module(module), name), old, new)(params)


def planted(errors: Mapping[str, tuple[Any, ...]] | Sequence[tuple[Any, ...]]) -> list[Any]:
    """Parameters of a test: the first error in every run, the others in the long one.

    They show that a bench or a claim can fail, and change when that one does.
    """
    names = list(errors) if isinstance(errors, Mapping) else [None] * len(errors)
    values = errors.values() if isinstance(errors, Mapping) else errors
    later = [(), *[pytest.mark.full] * (len(names) - 1)]
    return [
        pytest.param(*error, id=name, marks=marks)
        for name, error, marks in zip(names, values, later, strict=True)
    ]


def _mutated(module: ModuleType, old: str, new: str) -> ModuleType:
    source = inspect.getsource(module)
    if source.count(old) != 1:
        raise ValueError(f"{module.__name__}: {old!r} occurs {source.count(old)} times, not once")
    changed = ModuleType(module.__name__)
    # Executed apart: the original stays what everybody else imports.
    exec(compile(source.replace(old, new), f"<{module.__name__}, changed>", "exec"), vars(changed))
    return changed
