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
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import product
from math import fsum, isfinite

import numpy as np

from tilewright.golden.params.block import require
from tilewright.golden.params.llm import LlmShape
from tilewright.sim.workload import linear

Lengths = tuple[int, ...]

MODULES = ("qkv", "o", "u", "d")
FP16_INT4_BITS = 16  # an fp16-int4 operation counts 64 = 16 * 4 bit operations, M-by-4 bits M * 4
PRINTED = 0.01  # the last printed digit: the paper cuts some savings and rounds others
SHORTEST, LONGEST = 4, 13  # range of the paper's search (Section III-C)

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


def module_shares(model: LlmShape) -> dict[str, float]:
    """Share of each module in the multiply-adds of a layer's projections."""
    macs = dict.fromkeys(MODULES, 0.0)
    for part in linear(model, 1):
        if part.module in macs:  # a router's activations keep their length
            macs[part.module] += part.macs
    total = sum(macs.values())
    return {name: count / total for name, count in macs.items()}


def saving(model: LlmShape, lengths: dict[str, int]) -> float:
    """Bit operations of fp16-int4 over those with these mantissas."""
    shares = module_shares(model)
    return FP16_INT4_BITS / sum(shares[name] * lengths[name] for name in MODULES)


@lru_cache(maxsize=64)
def _all_savings(model: LlmShape) -> tuple[np.ndarray, np.ndarray]:
    one = np.arange(SHORTEST, LONGEST + 1)
    tuples = np.stack(np.meshgrid(*[one] * len(MODULES), indexing="ij"), -1).reshape(-1, 4)
    shares = np.array([module_shares(model)[name] for name in MODULES])
    return tuples, FP16_INT4_BITS / (tuples @ shares)


def lengths_of_saving(model: LlmShape, printed: float) -> dict[str, int]:
    """Lengths by module whose saving is the printed one within ``PRINTED``.

    The paper prints savings and not lengths. From the tuples that agree, one is taken that does not
    grow from module to module, as the paper's Figure 14 describes, with the smallest spread and
    then the nearest saving; all have nearly the same mean length and so the same cycles.
    """
    tuples, savings = _all_savings(model)
    distance = np.abs(savings - printed)
    grows = (np.diff(tuples, axis=1) > 0).any(axis=1)
    spread = tuples.max(axis=1) - tuples.min(axis=1)
    best = np.lexsort((distance, spread, grows, distance > PRINTED))[0]
    return dict(zip(MODULES, tuples[best].tolist(), strict=True))
