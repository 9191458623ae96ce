"""The one table of constants that no RTL and no parameter of a paper gives: ``calibration.toml``.

Each has a value, a unit, what it means, where it comes from, the range for which it was set, and
the published figures it was fitted to (none where it is a public figure of the machine).

What we measured ourselves has names too, so that its part in every answer can be computed:
``deca.cycles``, ``anda.cycles`` and ``harmonia.cycles`` are cycles of the RTL, which the golden
cycle models equal; ``UNIT.area`` and ``UNIT.energy`` come from records of synthesis, ``deca.power``
too, ``deca.rates`` from runs of DECA's RTL, and ``silicon.KERNEL`` is a time on a real processor.
"""

import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeVar

TABLE = Path(__file__).with_name("calibration.toml")
F = TypeVar("F", bound=Callable[..., object])
_CLEAR: list[Callable[[], None]] = []  # of every function whose results follow the constants
_READ: list[set[str]] = []  # names of constants, while somebody collects them


@dataclass(frozen=True, kw_only=True)
class Constant:
    """One constant of the table."""

    value: float
    unit: str
    meaning: str
    source: str
    range: str  # machine, models, schemes, batches and contexts for which it was set
    fitted_on: tuple[str, ...] = ()  # ids of the claims that it was fitted to


@cache
def table() -> dict[str, Constant]:
    """Return the constants of the table by name."""
    entries = tomllib.loads(TABLE.read_text())
    return {
        name: Constant(**entry | {"fitted_on": tuple(entry.get("fitted_on", ()))})
        for name, entry in entries.items()
    }


@cache
def _values() -> dict[str, float]:
    return {name: float(entry.value) for name, entry in table().items()}


def constant(name: str) -> float:
    """Return the value of a constant."""
    if _READ:
        _READ[-1].add(name)
    return _values()[name]


@contextmanager
def constants_read() -> Iterator[set[str]]:
    """Collect the names of the constants that results inside the ``with`` statement follow from."""
    forget()
    _READ.append(set())
    try:
        yield _READ[-1]
    finally:
        _READ.pop()


def set_constant(name: str, value: float) -> None:
    """Change a constant in this process, and drop cached results of the old value."""
    _values()[name] = value
    forget()


def forget() -> None:
    """Drop every result that follows from constants or measured inputs."""
    for clear in _CLEAR:
        clear()


def cached(size: int) -> Callable[[F], F]:
    """Cache the last ``size`` results of a function until a constant changes."""

    def decorate(function: F) -> F:
        wrapper = lru_cache(maxsize=size)(function)
        _CLEAR.append(wrapper.cache_clear)
        return wrapper  # type: ignore[return-value]

    return decorate


@contextmanager
def changed(name: str, factor: float) -> Iterator[None]:
    """Results inside the ``with`` statement are those of the constant times ``factor``."""
    before = constant(name)
    set_constant(name, before * factor)
    try:
        yield
    finally:
        set_constant(name, before)


_FACTORS: dict[str, float] = {}
_INPUTS_READ: list[set[str]] = []  # names of inputs, while somebody collects them


def measured(name: str, value: float = 1.0) -> float:
    """Return a measured value, times the factor that its name has at present."""
    for names in _INPUTS_READ:
        names.add(name)
    return value * _FACTORS.get(name, 1.0)


@contextmanager
def with_input(name: str, factor: float) -> Iterator[None]:
    """Results inside the ``with`` statement are those of this input times ``factor``."""
    before = _FACTORS.get(name, 1.0)
    _FACTORS[name] = before * factor
    forget()
    try:
        yield
    finally:
        _FACTORS[name] = before
        forget()


@contextmanager
def inputs_read() -> Iterator[set[str]]:
    """Collect the names of the inputs that results inside the ``with`` statement follow from."""
    forget()
    _INPUTS_READ.append(set())
    try:
        yield _INPUTS_READ[-1]
    finally:
        _INPUTS_READ.pop()
