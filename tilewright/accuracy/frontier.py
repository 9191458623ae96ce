"""Anda's search over all eight sites, beside Harmonia's fixed lengths: what does each bit buy?

Two prices of a format, for one more token after ``CONTEXT`` tokens: bit operations of all products
(mantissa bits times weight bits, or times the other mantissa's) and bits of keys and values that
are read. Weights are read in full by all of them and left out.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from golden.llm.cached_attention import CacheFormat
from golden.llm.formats import HARMONIA_GROUP, BlockSites, HarmoniaFormat, site_lengths
from golden.llm.search import Lengths, search
from golden.llm.sites import LINEAR_SITES, Site
from golden.params.formats import FP16
from sim.models import Model as Shape
from sim.workload import attention, linear
from tilewright.accuracy.anda import reference, text_of
from tilewright.accuracy.harmonia import CACHE_TOKENS, Variant
from tilewright.accuracy.subject import WEIGHT_BITS, Subject, shape_of

__all__ = ["Prices", "cheapest", "extended_search", "fixed_points", "pareto"]

CONTEXT = CACHE_TOKENS
MODULES = dict(zip(LINEAR_SITES, ("qkv", "o", "u", "d"), strict=True))


@dataclass(frozen=True)
class Prices:
    """Of a model's formats."""

    shape: Shape

    @property
    def full(self) -> dict[str, float]:
        """fp16 everywhere, beside integer weights."""
        lengths = dict.fromkeys(Site, FP16.bits)
        elements = 2 * CONTEXT * self.shape.kv_width * self.shape.layers
        return {"computed": self._computed(lengths), "moved": float(elements * FP16.bits)}

    def of_lengths(self, lengths: Lengths) -> dict[str, float]:
        """Of one length for each site, whatever a token's age."""
        by_site = site_lengths(lengths)
        key, value = by_site[Site.K], by_site[Site.V]
        cache = CacheFormat(
            group=HARMONIA_GROUP,
            initial=0,
            local=0,
            key_bits=(key, key),
            value_bits=(value, value),
            offset_channels=0,
        )
        return {"computed": self._computed(by_site), "moved": self._moved(cache)}

    def of_harmonia(self, fmt: HarmoniaFormat) -> dict[str, float]:
        """A share of the tokens has the long keys and values."""
        cache = fmt.cache
        recent = min(CONTEXT, cache.initial + cache.local) / CONTEXT
        mean = [
            recent * high + (1 - recent) * low for high, low in (cache.key_bits, cache.value_bits)
        ]
        lengths = fmt.lengths | {Site.K: mean[0], Site.V: mean[1]}
        return {"computed": self._computed(lengths), "moved": self._moved(cache)}

    def _computed(self, lengths: dict[Site, Any]) -> float:
        by_module = {module: lengths[site] for site, module in MODULES.items()}
        total = sum(
            product.macs * by_module[product.module] * WEIGHT_BITS
            for product in linear(self.shape, 1)
        )
        scores, values = attention(self.shape, 1, 1, CONTEXT)
        total += scores.macs * lengths[Site.Q] * lengths[Site.K]
        return float(total + values.macs * lengths[Site.P] * lengths[Site.V])

    def _moved(self, cache: CacheFormat) -> float:
        heads = self.shape.layers * self.shape.kv_heads
        return float(heads * cache.size(CONTEXT, self.shape.head_dim).bits)


def extended_search(
    subject: Subject,
    goal: str,
    tolerance: float,
    iterations: int,
    tick: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Algorithm 1 with a length for each site; ``goal`` is computed, moved or both.

    A price is taken in shares of full precision's. Lengths that a goal has no price for still
    count a little, or the search would not know which way is down.
    """
    prices = Prices(shape_of(subject.model))
    full = prices.full
    weight = {"computed": (1.0, 0.01), "moved": (0.01, 1.0), "both": (1.0, 1.0)}[goal]

    def cost(lengths: Lengths) -> float:
        found = prices.of_lengths(lengths)
        shares = (found[name] / full[name] for name in ("computed", "moved"))
        return sum(w * share for w, share in zip(weight, shares, strict=True))

    def evaluate(lengths: Lengths) -> float:
        name = f"sites {text_of(lengths)}, group {HARMONIA_GROUP}"
        tick(name)
        return subject.measure(name, BlockSites(site_lengths(lengths), HARMONIA_GROUP))

    outcome = search(
        evaluate,
        cost,
        len(Site),
        reference=reference(subject),
        tolerance=tolerance,
        iterations=iterations,
        shortest=2,
    )
    trials = [
        {"name": text_of(t.lengths), "perplexity": t.perplexity, "within": t.within}
        | prices.of_lengths(t.lengths)
        for t in outcome.trials
    ]
    best = None if outcome.best is None else text_of(outcome.best.lengths)
    return {
        "goal": goal,
        "tolerance": tolerance,
        "exhausted": outcome.exhausted,
        "best": next((trial for trial in trials if trial["name"] == best), None),
        "trials": trials,
    }


def fixed_points(
    subject: Subject, variants: Iterable[Variant], perplexity: Callable[[Variant], float]
) -> list[dict[str, Any]]:
    """Harmonia's own formats on the same text, with the same two prices."""
    prices = Prices(shape_of(subject.model))
    return [
        {"name": v.name, "perplexity": perplexity(v)} | prices.of_harmonia(v.fmt)
        for v in variants
        if v.fmt is not None
    ]


def pareto(points: Iterable[dict[str, Any]], price: str) -> list[dict[str, Any]]:
    """Those that no other beats in both price and perplexity, by price."""
    best = float("inf")
    kept = []
    for point in sorted(points, key=lambda p: (p[price], p["perplexity"])):
        if point["perplexity"] < best:
            best = point["perplexity"]
            kept.append(point)
    return kept


def cheapest(
    points: Iterable[dict[str, Any]], price: str, perplexity: float
) -> dict[str, Any] | None:
    """The cheapest point that is at least as good."""
    good = [p for p in points if p["perplexity"] <= perplexity]
    return min(good, key=lambda p: p[price], default=None)
