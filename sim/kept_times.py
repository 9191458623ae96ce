"""Times of programs, kept by everything that decides them.

A program takes seconds to write and to count, and thousands of questions have the same programs:
contexts of a tile of keys, batches of a tile of tokens, both orders of a sweep. Times are kept in
this process and, for others, on disk; those that the report asks for come with the package.
"""

from collections.abc import Callable
from functools import cache, lru_cache, update_wrapper
from typing import Any, ParamSpec, TypeVar

from tilewright.base.cache import content_key, sources_of
from tilewright.sim.computed import get_or_compute
from tilewright.sim.schedule import ProgramTime

__all__ = ["kept", "sources"]

P = ParamSpec("P")
T = TypeVar("T", ProgramTime, ProgramTime | None, dict[str, ProgramTime])
# Whatever writes programs or counts their cycles.
SOURCES = (
    *("compiled_steps", "layer_programs", "programs", "projection_programs", "prompt_programs"),
    *("schedule", "step_programs", "streamed_programs"),
)
MOST = 1 << 15  # times; a sweep of 10,000 points has some thousand


def kept(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function with its results kept.

    Arguments are values whose ``repr`` says all of them, results are one time, None, or times by
    name.
    """

    @lru_cache(maxsize=MOST)
    def found(*args: Any, **named: Any) -> Any:
        asked = (function.__qualname__, repr(args), repr(sorted(named.items())), sources())
        return _times(get_or_compute(asked, lambda: _data(function(*args, **named))))

    return update_wrapper(found, function)  # type: ignore[return-value]


@cache
def sources() -> str:
    """What programs and their cycles are made from."""
    names = (f"tilewright.sim.{name}" for name in SOURCES)
    return content_key(sources_of("tilewright.golden", *names))


def _data(found: Any) -> dict[str, Any]:
    if found is None:
        return {}
    if isinstance(found, ProgramTime):
        return {"one": vars(found)}
    return {"parts": {name: vars(time) for name, time in found.items()}}


def _times(data: dict[str, Any]) -> Any:
    if "parts" in data:
        return {name: ProgramTime(**time) for name, time in data["parts"].items()}
    return ProgramTime(**data["one"]) if data else None
