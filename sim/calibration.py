"""Everything that a result follows from besides RTL and papers: constants, inputs, open choices.

Constants are those of one table, ``calibration.toml``. Each has a value, a unit, what it means,
where it comes from, the range for which it was set, and the published figures it was fitted to
(none where it is a public figure of the machine).

Inputs are what we measured ourselves, with names so that their part in every answer can be
computed: ``deca.cycles``, ``anda.cycles`` and ``harmonia.cycles`` are cycles of the RTL, which the
golden cycle models equal; ``BLOCK.area`` and ``BLOCK.energy`` come from records of synthesis,
``deca.power`` too, ``deca.rates`` from runs of DECA's RTL, and ``silicon.KERNEL`` is a time on a
real processor.

A paper's comparison leaves some points undecided. Inside ``other_choice`` those of ``OPEN`` are
decided the other way, so that ``tilewright.claims.scoreboard`` can say between which values ours
lies over all of them.
"""

import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, TypeVar

TABLE = Path(__file__).with_name("calibration.toml")
OPEN = {  # name -> the other way
    "outside": "operand registers at the edge of an array, in no PE",
    "discrete": "an fp16 PE that rounds after every operation",
    "plain": "PEs as they are by default, not as the search takes them",
    "array": "area of the array alone, without buffers",
    "attention": "the fp16 PEs with which a baseline computes attention take area, too",
    "logic": "area of logic alone, without memories",
    "memories": "memories of a DECA as large as printed",
    "activity": "the scheme with which a DECA takes the most power",
    "loaders": "DECA's loaders with one tile and a prefetcher each",
}
F = TypeVar("F", bound=Callable[..., object])
_CLEAR: list[Callable[[], None]] = []  # of every function whose results follow constants or inputs
_FACTORS: dict[str, float] = {}  # of constants and inputs
_TAKEN: list[str] = []  # choices that are decided the other way
_ASKED: dict[str, list[set[str]]] = {"constants": [], "inputs": [], "choices": []}


@dataclass(frozen=True, kw_only=True)
class Constant:
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
    _note("constants", name)
    return _values()[name] * _FACTORS.get(name, 1.0)


def set_constant(name: str, value: float) -> None:
    """Change a constant in this process."""
    _values()[name] = value
    forget()


def measured(name: str, value: float = 1.0) -> float:
    """Return a measured value, times the factor that its name has at present."""
    _note("inputs", name)
    return value * _FACTORS.get(name, 1.0)


def chosen(name: str) -> bool:
    """Whether a point of ``OPEN`` is decided the other way at present."""
    _note("choices", name)
    return name in _TAKEN


def _note(kind: str, name: str) -> None:
    for names in _ASKED[kind]:
        names.add(name)


@contextmanager
def asked(kind: Literal["constants", "inputs", "choices"]) -> Iterator[set[str]]:
    """Collect the names of all of a kind that results inside the ``with`` statement follow from."""
    if kind != "choices":  # no cached result follows from a choice
        forget()
    _ASKED[kind].append(set())
    try:
        yield _ASKED[kind][-1]
    finally:
        _ASKED[kind].pop()


@contextmanager
def changed(name: str, factor: float) -> Iterator[None]:
    """Results inside the ``with`` statement are those of a constant or input times ``factor``."""
    before = _FACTORS.get(name, 1.0)
    _FACTORS[name] = before * factor
    forget()
    try:
        yield
    finally:
        _FACTORS[name] = before
        forget()


@contextmanager
def other_choice(*names: str) -> Iterator[None]:
    """Inside the ``with`` statement these points are decided the other way."""
    before = len(_TAKEN)
    _TAKEN.extend(names)
    try:
        yield
    finally:
        del _TAKEN[before:]


def forget() -> None:
    """Drop every cached result that follows from constants or inputs."""
    for clear in _CLEAR:
        clear()


def cached(size: int) -> Callable[[F], F]:
    """Cache the last ``size`` results of a function until a constant or an input changes."""

    def decorate(function: F) -> F:
        wrapper = lru_cache(maxsize=size)(function)
        _CLEAR.append(wrapper.cache_clear)
        return wrapper  # type: ignore[return-value]

    return decorate
