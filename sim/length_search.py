"""Anda's adaptive search for mantissa lengths (its Algorithm 1), over any measure of perplexity.

A combination has one length per module. The search starts from every uniform combination and always
looks at the cheapest one that waits. One that keeps the perplexity within the tolerance and costs
less than the best so far becomes the best, and its neighbours, one module one bit shorter, join
those that wait. It ends after a number of iterations, or when nothing waits that could cost less.

That last condition is the only difference from the published text, which would go on to look at
combinations that cost no less than the best and can never replace it: the result is the same.

Costs are bit operations. A module counts by its share of the multiply-adds; of equal costs the
combination comes first whose lengths are smaller from the left.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import product
from math import fsum, isfinite

from tilewright.golden.params.block import require

Lengths = tuple[int, ...]

STARTS = range(4, 14)  # the paper's uniform starts, from [4, 4, 4, 4] to [13, 13, 13, 13]
ITERATIONS = 32
LARGEST_TOLERANCE = 1.0  # twice the perplexity: beyond that a tolerance is a slip


@dataclass(frozen=True)
class Trial:
    """One combination that was looked at."""

    lengths: Lengths
    cost: float  # mean bits, weighed by the modules' shares
    perplexity: float
    within: bool  # the tolerance, and so the best up to this one


@dataclass(frozen=True)
class Outcome:
    """The result of a search; ``best`` is None if no combination is within the tolerance."""

    reference: float  # perplexity that the tolerance refers to
    tolerance: float
    trials: tuple[Trial, ...]
    exhausted: bool  # nothing waits any more that could cost less

    @property
    def best(self) -> Trial | None:
        return next((t for t in reversed(self.trials) if t.within), None)

    @property
    def found_after(self) -> int:
        """Trials up to and with the best one."""
        return max((k + 1 for k, t in enumerate(self.trials) if t.within), default=0)


def linear_cost(shares: Sequence[float]) -> Callable[[Lengths], float]:
    """Mean mantissa length, weighed by the modules' shares of the multiply-adds."""
    require(
        bool(shares) and all(isfinite(s) and s > 0 for s in shares),
        f"shares must be positive and finite, not {list(shares)}",
    )
    total = fsum(shares)
    return lambda lengths: fsum(s * m for s, m in zip(shares, lengths, strict=True)) / total


def search(
    evaluate: Callable[[Lengths], float],
    cost: Callable[[Lengths], float],
    modules: int,
    *,
    reference: float,
    tolerance: float,
    iterations: int = ITERATIONS,
    starts: Collection[int | Lengths] = STARTS,
    shortest: int | None = None,
    progress: Callable[[Trial], None] | None = None,
) -> Outcome:
    """The cheapest combination found whose perplexity is at most reference * (1 + tolerance).

    A start that is a number stands for that length in every module. Lengths never fall below
    ``shortest``, the smallest start unless given. ``cost`` must grow with
    every length. ``evaluate`` may answer from memory: that is how an interrupted search resumes.
    """
    require(modules >= 1, f"modules must be at least 1, not {modules!r}")
    require(iterations >= 1, f"iterations must be at least 1, not {iterations!r}")
    first = {(s,) * modules if isinstance(s, int) else s for s in starts}
    shortest_start = min((min(lengths) for lengths in first), default=0)
    require(shortest_start >= 1, f"starts must be at least 1, not {list(starts)}")
    check_tolerance(tolerance)
    require(
        isfinite(reference) and reference > 0,
        f"reference perplexity must be positive and finite, not {reference!r}",
    )
    floor = shortest_start if shortest is None else shortest
    waiting = [(cost(lengths), lengths) for lengths in first]
    heapify(waiting)
    seen, trials, best_cost = set(first), list[Trial](), float("inf")
    while waiting and waiting[0][0] < best_cost and len(trials) < iterations:
        price, lengths = heappop(waiting)
        perplexity = evaluate(lengths)
        within = perplexity <= reference * (1 + tolerance)
        trials.append(Trial(lengths, price, perplexity, within))
        if progress is not None:
            progress(trials[-1])
        if within:
            best_cost = price
            for candidate in _neighbours(lengths, floor):
                if candidate not in seen:
                    seen.add(candidate)
                    heappush(waiting, (cost(candidate), candidate))
    exhausted = not waiting or waiting[0][0] >= best_cost
    return Outcome(reference, tolerance, tuple(trials), exhausted)


def check_tolerance(tolerance: float) -> None:
    require(
        0 <= tolerance <= LARGEST_TOLERANCE,
        f"tolerance must be 0..{LARGEST_TOLERANCE:g}, a share of the perplexity, not {tolerance!r}",
    )


def brute_force(
    evaluate: Callable[[Lengths], float],
    cost: Callable[[Lengths], float],
    ranges: Sequence[Iterable[int]],
    *,
    reference: float,
    tolerance: float,
    progress: Callable[[Trial], None] | None = None,
) -> Outcome:
    """The cheapest combination of all in ``ranges`` (one range a module) within the tolerance.

    They are looked at from the cheapest up, so the first within the tolerance is the optimum and
    the last that is looked at.
    """
    every = tuple(product(*ranges))
    return search(
        evaluate,
        cost,
        len(ranges),
        reference=reference,
        tolerance=tolerance,
        iterations=len(every),
        starts=every,
        shortest=max(map(max, every)),  # nothing is shortened
        progress=progress,
    )


def _neighbours(lengths: Lengths, shortest: int) -> Iterator[Lengths]:
    for k, length in enumerate(lengths):
        if length > shortest:
            yield (*lengths[:k], length - 1, *lengths[k + 1 :])
