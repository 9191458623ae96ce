"""A race: contestants take turns, so that a busy moment of the machine hits all of them."""

from collections.abc import Mapping
from statistics import quantiles
from time import perf_counter, sleep
from typing import NamedTuple

from tilewright.kernels.contestants import Contestant
from tilewright.kernels.plan import Plan

__all__ = ["Lap", "race"]

CALM = 0.15  # scatter of a race that need not be run again


class Lap(NamedTuple):
    """Seconds of one multiplication, and how far the rounds lie apart."""

    seconds: float  # median
    scatter: float  # (third quartile - first) / median


def race(plan: Plan, contestants: Mapping[str, Contestant], batch: int) -> dict[str, Lap]:
    """Let all contestants multiply in turn, round by round.

    On a shared machine others take the processors away for seconds at a time. A race whose rounds
    scatter too much is run again, at most ``plan.attempts`` times and while ``plan.patience``
    lasts; the calmest one counts.
    """
    best: dict[str, Lap] = {}
    start = perf_counter()
    for _ in range(plan.attempts):
        laps = _race_once(plan, contestants, batch)
        if not best or _unrest(laps) < _unrest(best):
            best = laps
        if _unrest(best) <= CALM or perf_counter() - start > plan.patience:
            break
    return best


def _unrest(laps: dict[str, Lap]) -> float:
    return max(lap.scatter for lap in laps.values())


def _race_once(plan: Plan, contestants: Mapping[str, Contestant], batch: int) -> dict[str, Lap]:
    sweeps = {name: c.prepare(batch) for name, c in contestants.items()}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for lap in range(plan.rounds + 1):
        for name, sweep in sweeps.items():
            sweep(warm=True)
            start = perf_counter()
            sweep()
            if lap:  # the first one warms up
                times[name].append((perf_counter() - start) / contestants[name].count)
            sleep(contestants[name].settle)
    return {name: _lap(laps) for name, laps in times.items()}


def _lap(times: list[float]) -> Lap:
    first, middle, third = quantiles(times, n=4, method="inclusive")
    return Lap(middle, (third - first) / middle)
