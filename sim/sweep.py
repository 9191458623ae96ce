"""Sweeps: one question for every combination of values of some of its fields.

Points that differ in batch and context alone share one model and one system, and their steps are
computed as columns of arrays.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import groupby, product
from math import prod
from typing import Any

from tilewright.golden.params.block import require
from tilewright.golden.params.names import unknown
from tilewright.sim.llm import LlmResult
from tilewright.sim.own_accelerator import SETTINGS
from tilewright.sim.serving import GenerationResult, Question, ask_steps
from tilewright.sim.system import QUANTITIES

NUMBERS = ("batch", "context", "prompt", "tokens", "chunk", "guesses")
COLUMNS = ("batch", "context")  # whose values share a model and a system
WORDS = ("model", "system", "engine", "scheme", "kv", "phase", "draft")
FIELDS = tuple(dict.fromkeys((*QUANTITIES, *SETTINGS)))  # of servers and accelerators
MOST_POINTS = 1_000_000


def parse_axis(text: str) -> tuple[str, tuple[int | str, ...]]:
    """Return the field and the values of ``NAME=VALUE,...``.

    Among the values of a number ``1..64`` stands for all from 1 to 64, ``1..64*2`` for 1, 2, 4 to
    64, and ``0..64+8`` for steps of 8. A field of a system takes what ``--set`` takes, such as
    ``bandwidth=400GB/s,800GB/s``.
    """
    name, equals, values = text.partition("=")
    if not name or not equals or not all(values.split(",")):
        raise ValueError(f"a sweep is NAME=VALUE,..., such as batch=1..64*2, not {text!r}")
    if name in WORDS:
        found: list[int | str] = list(values.split(","))
    elif name in FIELDS and ".." not in values:
        found = list(values.split(","))
    elif name in (*NUMBERS, *FIELDS):
        found = [number for part in values.split(",") for number in _numbers(name, part)]
    else:
        raise ValueError(unknown("name of a sweep", name, (*NUMBERS, *WORDS, *FIELDS)))
    require(len(set(found)) == len(found), f"a value of {name} is given twice in {values!r}")
    return name, tuple(found)


def _numbers(name: str, text: str) -> Sequence[int]:
    low, dots, rest = text.partition("..")
    sign = next((s for s in "*+" if s in rest), "")
    high, _, step = rest.partition(sign) if sign else (rest, "", "1")
    words = (low, high, step) if dots else (low,)
    require(
        all(word.isascii() and word.isdigit() and len(word) < 12 for word in words),
        f"values of {name} are numbers or LOW..HIGH, LOW..HIGH*FACTOR, LOW..HIGH+STEP, not"
        f" {text[:40]!r}",
    )
    if not dots:
        return [int(low)]
    first, last, by = int(low), int(high), int(step)
    require(
        first <= last and by >= (2 if sign == "*" else 1) and (sign != "*" or first > 0),
        f"{text!r} is no range: it must grow",
    )
    if sign != "*":
        require((last - first) // by < MOST_POINTS, f"{text!r} has more than {MOST_POINTS} values")
        return range(first, last + 1, by)
    found = [first]
    while found[-1] * by <= last:
        found.append(found[-1] * by)
    return found


Point = Mapping[str, int | str]


def points_of(question: Question, axes: Mapping[str, Sequence[int | str]]) -> list[Point]:
    """Return every combination of ``axes``, the last of which varies fastest.

    Fields that are swept are None in ``question``; a swept model is an empty name.
    """
    count = prod(len(values) for values in axes.values())
    require(count <= MOST_POINTS, f"a sweep of {count} points is beyond {MOST_POINTS}")
    for name in axes:
        require(name in (*NUMBERS, *WORDS, *FIELDS), f"{name!r} cannot be swept")
        given = name in (question.settings or {})
        if name not in FIELDS:
            given = getattr(question, name) not in (None, "")
        require(not given, f"{name} is both given and swept; give it once")
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def question_at(question: Question, point: Point) -> Question:
    settings = {name: str(value) for name, value in point.items() if name in FIELDS}
    own: dict[str, Any] = {name: value for name, value in point.items() if name not in FIELDS}
    if settings:
        own["settings"] = {**(question.settings or {}), **settings}
    return replace(question, **own)


def sweep(
    question: Question,
    axes: Mapping[str, Sequence[int | str]],
    tick: Callable[[str], None] = lambda doing: None,
) -> list[LlmResult | GenerationResult]:
    """Return the answers at every point of ``axes``; ``tick`` is called after each."""
    found: list[LlmResult | GenerationResult] = []
    points = points_of(question, axes)
    shared = [name for name in axes if name not in COLUMNS]  # they decide on model and system
    for _, group in groupby(points, key=lambda point: [point[name] for name in shared]):
        part = list(group)
        found += ask_steps([question_at(question, point) for point in part])
        for point in part:
            tick(" ".join(f"{name}={value}" for name, value in point.items()))
    return found


def row_of(found: LlmResult | GenerationResult) -> dict[str, str | int | float | None]:
    """Return an answer as one row of a table: its plain fields, and those of memory."""
    plain = {
        field.name: getattr(found, field.name)
        for field in fields(found)
        if isinstance(getattr(found, field.name), str | int | float | None)
    }
    groups = ",".join(f"{sequences}x{tokens}" for sequences, tokens in found.contexts)
    memory = found.memory_bytes
    return {
        **plain,
        **found.settings,
        "contexts": groups,
        "weight_bytes": memory.weights,
        "cache_bytes": memory.cache,
        "capacity_bytes": memory.capacity,
        "fits": memory.fits,
    }
