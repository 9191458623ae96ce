"""Inference of tiny models against a float64 implementation that shares no code with it.

Sums in float32 depend on their order, so logits are compared within ``CLOSE``; where only powers of
two differ, in every bit.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.naive_llm import naive_logits
from tilewright.golden.llm.engine import Session, logits
from tilewright.golden.llm.model import Linear
from tilewright.golden.llm.sites import ATTENTION_SITES, LINEAR_SITES, Format, Site
from tilewright.golden.llm.tiny import SHAPES, tiny_model

# Logits are of the order of 1; a sum of 64 to 128 float32 products is good to 2^-24 times a small
# multiple, twice two layers add up to 2e-5 as measured.
CLOSE = 1e-4
FAMILIES = list(SHAPES)


def some_tokens(count=48, seed=3):
    return np.random.default_rng(seed).integers(0, 128, count)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", [0, 1])
def test_logits_are_those_of_the_naive_model(family, seed):
    model, tokens = tiny_model(family, seed), some_tokens(seed=seed)
    want = naive_logits(model, tokens)
    assert np.abs(logits(model, tokens) - want).max() < CLOSE
    assert want.std() > 0.5  # the comparison has something to find


def test_rotary_factors_slow_the_frequencies_down():
    factors = np.linspace(1, 8, 8).astype(np.float32)
    model = replace(tiny_model("llama"), rope_factors=factors)
    tokens = some_tokens()
    assert np.abs(logits(model, tokens) - naive_logits(model, tokens)).max() < CLOSE
    assert np.abs(logits(model, tokens) - logits(tiny_model("llama"), tokens)).max() > 0.1


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pieces", [[1] * 48, [5, 1, 1, 30, 11]], ids=str)
def test_decode_equals_prefill(family, pieces):
    model, tokens = tiny_model(family), some_tokens()
    session, ends = Session(model), np.cumsum(pieces)
    got = [session.feed(tokens[e - n : e]) for n, e in zip(pieces, ends, strict=True)]
    assert session.position == 48
    assert np.abs(np.concatenate(got) - logits(model, tokens)).max() < CLOSE


class Doubled(Format):
    """Twice the values at one site: a change that every later product carries exactly."""

    def __init__(self, site):
        self.site = site

    def activation(self, site, layer, values):
        if site is self.site:
            values *= 2
        return values


REACH = {  # site -> projections that, doubled, have the same effect
    Site.A_QKV: ("query", "key", "value"),
    Site.A_O: ("output",),
    Site.A_U: ("gate", "up"),
    Site.A_D: ("down",),
    Site.Q: ("query",),
    Site.K: ("key",),
    Site.V: ("value",),
    Site.P: ("output",),
}


@pytest.mark.parametrize("site", Site, ids=lambda site: site.value)
def test_a_format_changes_what_its_site_multiplies_and_nothing_else(site):
    model, tokens = tiny_model("llama"), some_tokens()
    changed = model
    for index, layer in enumerate(model.layers):
        twice = {name: Linear(2 * layer.linears[name].weight) for name in REACH[site]}
        changed = changed.with_linears(index, **twice)
    got = logits(model, tokens, Doubled(site))
    assert np.array_equal(got, logits(changed, tokens))
    assert not np.array_equal(got, logits(model, tokens))


class Recorder(Format):
    """Changes nothing, writes down what it is shown."""

    def __init__(self):
        self.seen = []

    def activation(self, site, layer, values):
        assert values.dtype == np.float32
        assert values.flags.c_contiguous
        self.seen.append((site, layer, values.shape))
        if site is Site.P:
            assert np.allclose(values.sum(axis=-1), 1, atol=1e-6)
            future = np.triu(np.ones(values.shape[1:], bool), 1 + values.shape[2] - values.shape[1])
            assert not values[:, future].any()
        return values


def test_a_format_sees_every_site_once_and_all_cached_tokens():
    model, tokens, recorder = tiny_model("llama"), some_tokens(20), Recorder()
    session = Session(model, recorder)
    session.feed(tokens[:15])
    recorder.seen.clear()
    session.feed(tokens[15:])
    shapes = {
        Site.A_QKV: (5, 64),
        Site.Q: (4, 5, 16),
        Site.K: (2, 20, 16),
        Site.V: (2, 16, 20),
        Site.P: (4, 5, 20),
        Site.A_O: (5, 64),
        Site.A_U: (5, 64),
        Site.A_D: (5, 96),
    }
    want = [(site, layer, shape) for layer in range(2) for site, shape in shapes.items()]
    assert recorder.seen == want
    assert {*LINEAR_SITES, *ATTENTION_SITES} == set(Site)


def test_a_format_that_overwrites_what_it_is_given_leaves_the_cache_as_it_is():
    class Wiping(Format):
        def activation(self, site, layer, values):
            if site in (Site.K, Site.V):
                values[:] = 0
            return values

    model, tokens = tiny_model("llama"), some_tokens(12)
    wiped, plain = Session(model, Wiping()), Session(model)
    wiped.feed(tokens[:4])
    plain.feed(tokens[:4])
    before = [cache._room.copy() for cache in wiped._caches]
    wiped.feed(tokens[4:5])
    assert all(
        np.array_equal(cache._room[:, :, :4], room[:, :, :4])
        for cache, room in zip(wiped._caches, before, strict=True)
    )
    assert np.array_equal(before[0][:, :, :4], plain._caches[0]._room[:, :, :4])


@pytest.mark.parametrize(
    ("run", "complaint"),
    [
        (lambda m: logits(m, []), r"at least one integer, not float64 of shape \(0,\)"),
        (lambda m: logits(m, [[1]]), r"at least one integer, not int64 of shape \(1, 1\)"),
        (lambda m: logits(m, [3, 128]), "^token 128 is not in the vocabulary of 128$"),
        (lambda m: logits(m, [3, -1]), "^token -1 is not in the vocabulary of 128$"),
        (lambda m: logits(m, [0] * 257), "^257 tokens exceed the model's context of 256$"),
    ],
)
def test_refusals(run, complaint):
    with pytest.raises(ValueError, match=complaint):
        run(tiny_model())
