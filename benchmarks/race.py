"""The race of every benchmark: contestants take turns, so that a busy moment hits all of them.

A benchmark measures a list of ``Figure``, some of which have a limit; ``main`` prints them,
as text or as JSON, and fails where a limit is exceeded.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import quantiles
from time import gmtime, perf_counter, sleep, strftime
from typing import Any

from tilewright.base.files import write_atomic

__all__ = ["Contestant", "Figure", "Lap", "main", "now", "race", "rounded", "seconds", "write"]

Call = Callable[[], object]
CALM = 0.15  # scatter of a race that need not be run again


@dataclass(frozen=True)
class Contestant:
    """Calls that follow each other in a turn, and what is done around them, not timed.

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


def race(
    contestants: Mapping[str, Contestant | Call],
    rounds: int = 5,
    *,
    least_seconds: float = 0.0,
    attempts: int = 1,
    patience: float = 0.0,
) -> dict[str, Lap]:
    """Run all contestants in turn, round by round; the first round warms up.

    There are more rounds until ``least_seconds`` have passed. A race whose rounds scatter too much
    is run again, at most ``attempts`` times and while ``patience`` seconds last; the calmest one
    counts: on a shared machine others take the processors for seconds at a time.
    """
    entered = {
        n: c if isinstance(c, Contestant) else Contestant([c]) for n, c in contestants.items()
    }
    start = perf_counter()
    found: list[dict[str, Lap]] = []
    while len(found) < attempts:
        found.append(_race_once(entered, rounds, least_seconds))
        if _unrest(found[-1]) <= CALM or perf_counter() - start > patience:
            break
    return min(found, key=_unrest)


def seconds(call: Call) -> float:
    """The time of one call."""
    start = perf_counter()
    call()
    return perf_counter() - start


def _unrest(laps: Mapping[str, Lap]) -> float:
    return max(lap.scatter for lap in laps.values())


def _race_once(entered: Mapping[str, Contestant], rounds: int, least: float) -> dict[str, Lap]:
    times: dict[str, list[float]] = {name: [] for name in entered}
    end, lap = perf_counter() + least, 0
    while lap <= rounds or perf_counter() < end:
        for name, contestant in entered.items():
            with contestant.around():
                _run(contestant.warm)
                turn = seconds(partial(_run, contestant.calls)) / len(contestant.calls)
            if lap:
                times[name].append(turn)
            sleep(contestant.rest)
        lap += 1
    return {name: _lap(laps) for name, laps in times.items()}


def _run(calls: Sequence[Call]) -> None:
    for call in calls:
        call()


def _lap(times: list[float]) -> Lap:
    first, middle, third = quantiles(times, n=4, method="inclusive") if times[1:] else 3 * times
    return Lap(middle, (third - first) / middle, min(times))


@dataclass(frozen=True)
class Figure:
    """A measured number, and the most that it may be."""

    name: str
    value: float
    unit: str = "s"
    limit: float | None = None

    @property
    def good(self) -> bool:
        """Whether the limit holds, if there is one."""
        return self.limit is None or self.value <= self.limit

    def __str__(self) -> str:
        limit = "" if self.limit is None else f"  (at most {self.limit:.4g})"
        return (
            f"{self.value:10.4g} {self.unit:4} {self.name}{limit}{'' if self.good else '  MISSED'}"
        )


def main(text: str, measure: Callable[[], Iterable[Figure]]) -> int:
    """The program of a benchmark: print each figure; 1 where a limit is exceeded."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    as_json, figures = parser.parse_args().json, []
    for figure in measure():
        figures.append(figure)
        print(figure, file=sys.stderr if as_json else sys.stdout, flush=True)
    if as_json:
        print(json.dumps([asdict(f) | {"good": f.good} for f in figures], indent=1))
    return 0 if all(figure.good for figure in figures) else 1


def now() -> str:
    """The time, as records have it."""
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime())


def rounded(data: Any) -> Any:
    """The same data with five digits of every float: more than any of them is worth."""
    if isinstance(data, dict):
        return {key: rounded(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [rounded(value) for value in data]
    return float(f"{data:.5g}") if isinstance(data, float) else data


def write(path: Path, record: dict[str, Any]) -> None:
    """Write a record, one row of its tables a line."""
    write_atomic(path, _text(rounded(record)) + "\n")


def _text(data: Any, depth: int = 2, new_line: str = "\n") -> str:
    """JSON with line breaks down to some depth."""
    if not depth or not data or not isinstance(data, dict | list):
        return json.dumps(data)
    inner = new_line + " "
    texts = [
        _text(each, depth - 1, inner)
        for each in (data.values() if isinstance(data, dict) else data)
    ]
    if isinstance(data, dict):
        texts = [f"{json.dumps(key)}: {text}" for key, text in zip(data, texts, strict=True)]
    return ("{%s}" if isinstance(data, dict) else "[%s]") % (
        inner + f",{inner}".join(texts) + new_line
    )
