"""The search for mantissa lengths, on perplexities that are formulas."""

from itertools import product

import pytest

from tilewright.sim.length_search import Trial, brute_force, linear_cost, search

SHARES = (0.3, 0.1, 0.4, 0.2)
COST = linear_cost(SHARES)


def loss(weights, lengths):
    """A perplexity of 20 that each module's truncation worsens, by half for every bit."""
    return 20 * (1 + sum(w * 2.0**-m for w, m in zip(weights, lengths, strict=True)))


def run(weights, **options):
    asked = []

    def evaluate(lengths):
        asked.append(lengths)
        return loss(weights, lengths)

    return search(evaluate, COST, 4, reference=20, tolerance=0.01, **options), asked


def test_the_steps_of_the_algorithm():
    """Starts by cost until one holds; then its neighbours, cheapest first; one bit at a time."""
    outcome, asked = run((0.6, 0.2, 0.1, 0.01))
    assert asked[:4] == [(4,) * 4, (5,) * 4, (6,) * 4, (7,) * 4]
    assert [t.within for t in outcome.trials[:4]] == [False, False, False, True]
    # Neighbours of 7777 by cost: u saves most, then qkv, d, o.
    assert asked[4] == (7, 7, 6, 7)
    assert outcome.trials[4].within
    assert asked[5] == (7, 7, 5, 7)
    assert outcome.exhausted
    assert all(t.cost < COST((7,) * 4) for t in outcome.trials[4:])


def test_a_combination_is_looked_at_once():
    outcome, asked = run((0.6, 0.2, 0.1, 0.01))
    assert len(asked) == len(set(asked)) == len(outcome.trials)


def test_result_is_the_last_best_and_holds_the_tolerance():
    outcome, _ = run((0.6, 0.2, 0.1, 0.01))
    best = outcome.best
    assert best is not None
    assert best.perplexity <= 20.2
    assert best.cost == min(t.cost for t in outcome.trials if t.within)
    assert outcome.trials[outcome.found_after - 1] is best


@pytest.mark.parametrize("weights", [(0.6, 0.2, 0.1, 0.01), (0.1, 0.1, 0.1, 0.1), (1, 0, 0, 0)])
def test_near_brute_force(weights):
    """The optimum costs at most what the search found, and less than half a bit below it."""
    outcome, _ = run(weights)
    optimum = brute_force(
        lambda lengths: loss(weights, lengths), COST, [range(4, 14)] * 4,
        reference=20, tolerance=0.01,
    ).best  # fmt: skip
    within = [c for c in product(range(4, 14), repeat=4) if loss(weights, c) <= 20.2]
    assert optimum.lengths == min(within, key=lambda c: (COST(c), c))
    assert optimum.cost <= outcome.best.cost < optimum.cost + 0.5


def test_iterations_limit_the_search():
    outcome, asked = run((0.6, 0.2, 0.1, 0.01), iterations=3)
    assert len(asked) == 3
    assert outcome.best is None
    assert outcome.found_after == 0
    assert not outcome.exhausted


def test_lengths_stop_at_the_shortest():
    outcome, asked = run((0, 0, 0, 0))
    assert asked == [(4,) * 4]
    assert outcome.exhausted
    outcome, asked = run((0, 0, 0, 0), shortest=3)
    assert outcome.best.lengths == (3,) * 4


def test_ties_take_the_smaller_tuple_first():
    asked = []
    search(
        lambda c: asked.append(c) or (1.0 if c == (5, 5) else 9.0),
        linear_cost((1, 1)), 2, reference=1, tolerance=0.0, starts=[5, 6],  shortest=4,
    )  # fmt: skip
    assert asked == [(5, 5), (4, 5), (5, 4)]


def test_progress_sees_every_trial():
    seen: list[Trial] = []
    outcome, _ = run((0.6, 0.2, 0.1, 0.01), progress=seen.append)
    assert tuple(seen) == outcome.trials


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tolerance": -0.1}, "tolerance must be 0..1, a share of the perplexity, not -0.1"),
        ({"tolerance": 5.0}, "tolerance must be 0..1, a share of the perplexity, not 5.0"),
        ({"tolerance": float("nan")}, "tolerance must be 0..1, a share of the perplexity, not nan"),
        ({"iterations": 0}, "iterations must be at least 1, not 0"),
        ({"starts": [0]}, r"starts must be at least 1, not \[0\]"),
        ({"reference": float("inf")}, "reference perplexity must be positive and finite, not inf"),
    ],
)
def test_refusals(options, text):
    with pytest.raises(ValueError, match=f"^{text}$"):
        search(lambda c: 1.0, COST, 4, **({"reference": 20, "tolerance": 0.01} | options))


def test_shares_must_be_positive():
    with pytest.raises(ValueError, match=r"^shares must be positive and finite, not \[1, 0\]$"):
        linear_cost([1, 0])
