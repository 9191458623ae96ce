"""Anda's search over all eight sites, compared with Harmonia's fixed lengths.

Two prices of a format, for one more token after ``CONTEXT`` tokens: bit operations of all GEMMs
(mantissa bits times weight bits, or times the other mantissa's) and bits of keys and values that
are read. Weights are read in full by all of them and left out.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilewright.golden.harmonia.llm_format import HARMONIA_GROUP
from tilewright.golden.harmonia.precision import cache_size
from tilewright.golden.llm.sites import LINEAR_SITES, Site
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import ACTIVATION_BITS
from tilewright.golden.params.llm import LlmShape
from tilewright.sim.length_search import Lengths, Trial, search
from tilewright.sim.workload import attention, linear
from tilewright.studies.accuracy.anda import reference, text_of
from tilewright.studies.accuracy.harmonia import CACHE_TOKENS, WHOLE, Variant
from tilewright.studies.accuracy.subject import WEIGHT_BITS, Smoothing, Subject
from tilewright.torch.config import HarmoniaConfig

CONTEXT = CACHE_TOKENS
MODULES = dict(zip(LINEAR_SITES, ("qkv", "o", "u", "d"), strict=True))
HARMONIA = (8, 8, 8, 8, 8, 4, 4, 8)  # in the order of Site; of K and V the old tokens'
Point = dict[str, Any]  # of a record: name, perplexity, computed, moved and what else is known


@dataclass(frozen=True)
class Prices:
    """Costs of a model's formats: bit operations (computed) and bits of cache read (moved)."""

    shape: LlmShape

    @property
    def full(self) -> dict[str, float]:
        """Prices of fp16 activations with integer weights."""
        lengths = dict.fromkeys(Site, FP16.bits)
        elements = 2 * CONTEXT * self.shape.kv_width * self.shape.num_hidden_layers
        return {"computed": self._computed(lengths), "moved": float(elements * FP16.bits)}

    def of(self, fmt: HarmoniaConfig) -> dict[str, float]:
        """Prices of one format; within windows, keys and values are long."""
        recent = min(CONTEXT, fmt.initial + fmt.local) / CONTEXT
        key, value = (
            recent * high + (1 - recent) * low for high, low in (fmt.key_bits, fmt.value_bits)
        )
        sites = (*LINEAR_SITES, Site.Q, Site.P)
        lengths = {**dict(zip(sites, fmt.bits, strict=True)), Site.K: key, Site.V: value}
        heads = self.shape.num_hidden_layers * self.shape.num_key_value_heads
        moved = float(heads * cache_size(fmt.cache, CONTEXT, self.shape.head_dim).bits)
        return {"computed": self._computed(lengths), "moved": moved}

    def _computed(self, lengths: Mapping[Site, float]) -> float:
        by_module = {module: lengths[site] for site, module in MODULES.items()}
        total = sum(
            gemm.macs * by_module[gemm.module] * WEIGHT_BITS for gemm in linear(self.shape, 1)
        )
        scores, values = attention(self.shape, 1, 1, CONTEXT)
        total += scores.macs * lengths[Site.Q] * lengths[Site.K]
        return float(total + values.macs * lengths[Site.P] * lengths[Site.V])


def one_length(lengths: Lengths, group: int = HARMONIA_GROUP) -> HarmoniaConfig:
    """A length for each site, in the order of ``Site``, whatever a token's age."""
    bare = replace(WHOLE, group=group, initial=0, local=0, offset_channels=0)
    return _with_lengths(bare, lengths, shortest=0)


def within_windows(lengths: Lengths) -> HarmoniaConfig:
    """Harmonia with these lengths, in the order of ``Site``, for old tokens; others have 8."""
    return _with_lengths(WHOLE, lengths, shortest=ACTIVATION_BITS)


def _with_lengths(config: HarmoniaConfig, lengths: Lengths, shortest: int) -> HarmoniaConfig:
    """Keys and values of recent tokens have ``shortest`` bits, unless the old ones have more."""
    qkv, o, u, d, query, key, value, weight = lengths
    return replace(
        config,
        key_bits=(max(shortest, key), key),
        value_bits=(max(shortest, value), value),
        site_bits=(qkv, o, u, d, query, weight),
    )


@dataclass(frozen=True)
class Space:
    """Formats with a length for each site, and the factors of the keys if they have any."""

    name: str
    fmt: Callable[[Lengths], HarmoniaConfig]
    factors: Callable[[], Smoothing] | None = None

    def measure(self, subject: Subject, lengths: Lengths, *, validation: bool = False) -> float:
        """Perplexity of the format that ``lengths`` give."""
        name = f"{self.name} {text_of(lengths)}"
        return subject.measure(name, self.fmt(lengths), validation=validation, factors=self.factors)


def extended_search(
    subject: Subject,
    space: Space,
    starts: Collection[int | Lengths],
    goal: str,
    tolerance: float,
    iterations: int,
    tick: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Algorithm 1 with a length for each site, down from ``starts``; ``goal`` is a price or both.

    A price is taken in shares of full precision's. Lengths without a price in a goal still
    count a little, or the search would have no direction.
    """
    prices = Prices(subject.shape)
    full = prices.full
    weight = {"computed": (1.0, 0.01), "moved": (0.01, 1.0), "both": (1.0, 1.0)}[goal]

    def cost(lengths: Lengths) -> float:
        found = prices.of(space.fmt(lengths))
        shares = (found[name] / full[name] for name in ("computed", "moved"))
        return sum(w * share for w, share in zip(weight, shares, strict=True))

    outcome = search(
        lambda lengths: space.measure(subject, lengths),
        cost,
        len(Site),
        reference=reference(subject),
        tolerance=tolerance,
        iterations=iterations,
        starts=starts,
        shortest=2,
        progress=lambda trial: tick(f"{space.name} {text_of(trial.lengths)}"),
    )

    def point(trial: Trial) -> Point:
        found = {"name": text_of(trial.lengths), "perplexity": trial.perplexity}
        return found | {"within": trial.within} | prices.of(space.fmt(trial.lengths))

    best = outcome.best
    return {
        "space": space.name,
        "starts": [s if isinstance(s, int) else text_of(s) for s in starts],
        "goal": goal,
        "tolerance": tolerance,
        "exhausted": outcome.exhausted,
        "best": None
        if best is None
        else point(best) | {"validation": space.measure(subject, best.lengths, validation=True)},
        "trials": [point(trial) for trial in outcome.trials],
    }


def fixed_points(
    subject: Subject, variants: Iterable[Variant], perplexity: Callable[[Variant, bool], float]
) -> list[Point]:
    """Harmonia's own formats with both prices; ``perplexity(variant, True)`` is of validation."""
    prices = Prices(subject.shape)
    return [
        {"name": v.name, "perplexity": perplexity(v, False), "validation": perplexity(v, True)}
        | prices.of(v.fmt)
        for v in variants
        if v.fmt is not None
    ]


def pareto(points: Iterable[Point], price: str) -> list[Point]:
    """The points that no other beats in both price and perplexity, by price."""
    best = float("inf")
    chosen = []
    for point in sorted(points, key=lambda p: (p[price], p["perplexity"])):
        if point["perplexity"] < best:
            best = point["perplexity"]
            chosen.append(point)
    return chosen


def cheapest(points: Iterable[Point], price: str, perplexity: float) -> Point | None:
    """The cheapest point that is at least as good."""
    good = [p for p in points if p["perplexity"] <= perplexity]
    return min(good, key=lambda p: p[price], default=None)
