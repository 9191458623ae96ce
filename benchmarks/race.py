"""The race of every benchmark: contestants take turns, so that a busy moment hits all of them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from statistics import quantiles
from time import gmtime, perf_counter, sleep, strftime
from typing import Any

Call = Callable[[], object]
CALM = 0.15  # scatter of a race that need not be run again


@dataclass(frozen=True)
class Contestant:
    """Calls that follow each other in a turn, and untimed work around them.

    There are as many calls as copies of the data, so that no copy is in a cache when its turn
    begins.
    """

    calls: Sequence[Call]
    size: int = 0  # bytes that one call reads
    warm: Sequence[Call] = ()  # before the turn: wake what sleeps
    rest: float = 0.0  # seconds after the turn, until its threads sleep
    around: Callable[[], AbstractContextManager[object]] = nullcontext


@dataclass(frozen=True)
class Lap:
    """Seconds of one call: median of the rounds, their spread, and the shortest."""

    seconds: float
    scatter: float  # (third quartile - first) / median
    least: float

    def row(self, tokens: int) -> dict[str, float]:
        """The same of one token of a call that decodes so many, as records have it."""
        return {
            "seconds": self.seconds / tokens,
            "scatter": self.scatter,
            "least": self.least / tokens,
        }


def race(
    contestants: Mapping[str, Contestant | Call],
    rounds: int = 5,
    *,
    attempts: int = 1,
    patience: float = 0.0,
) -> dict[str, Lap]:
    """Run all contestants in turn, round by round; the first round warms up.

    A race whose rounds scatter too much is run again, at most ``attempts`` times and while
    ``patience`` seconds last; the calmest one counts: on a shared machine others take the
    processors for seconds at a time.
    """
    entered = {
        n: c if isinstance(c, Contestant) else Contestant([c]) for n, c in contestants.items()
    }
    start = perf_counter()
    found: list[dict[str, Lap]] = []
    while len(found) < attempts:
        found.append(_race_once(entered, rounds))
        if _unrest(found[-1]) <= CALM or perf_counter() - start > patience:
            break
    return min(found, key=_unrest)


def seconds(call: Call) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def _unrest(laps: Mapping[str, Lap]) -> float:
    return max(lap.scatter for lap in laps.values())


def _race_once(entered: Mapping[str, Contestant], rounds: int) -> dict[str, Lap]:
    times: dict[str, list[float]] = {name: [] for name in entered}
    for lap in range(rounds + 1):
        for name, contestant in entered.items():
            with contestant.around():
                _run(contestant.warm)
                turn = seconds(partial(_run, contestant.calls)) / len(contestant.calls)
            if lap:
                times[name].append(turn)
            sleep(contestant.rest)
    return {name: _lap(laps) for name, laps in times.items()}


def _run(calls: Sequence[Call]) -> None:
    for call in calls:
        call()


def _lap(times: list[float]) -> Lap:
    first, middle, third = quantiles(times, n=4, method="inclusive") if times[1:] else 3 * times
    return Lap(middle, (third - first) / middle, min(times))


def now() -> str:
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime())


def rounded(data: Any) -> Any:
    """The same data with five digits of every float: more than any of them is worth."""
    if isinstance(data, dict):
        return {key: rounded(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [rounded(value) for value in data]
    return float(f"{data:.5g}") if isinstance(data, float) else data
