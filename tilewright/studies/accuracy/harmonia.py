"""Harmonia's cache on a subject: lengths, windows, offsets and learned factors, one by one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tilewright.golden.harmonia.learned_scales import Learned, learn_scales, with_scales
from tilewright.golden.harmonia.llm_format import HarmoniaFormat
from tilewright.golden.llm.model import Model
from tilewright.golden.llm.sites import PLAIN
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import ACTIVATION_BITS
from tilewright.studies.accuracy.subject import Identity, Subject, quantise

__all__ = [
    *("CACHE_TOKENS", "CacheResult", "CacheVariant", "Variant", "cache_bytes", "compare_caches"),
    *("folded", "measure", "smallest", "smoothed", "table", "takes_factors", "variants"),
]

CACHE_TOKENS = 4096  # for which a cache's size is told, as in the paper
LEARNING_TOKENS = 256  # of one calibration sequence that factors are learned on
LEARNING_SEQUENCES = 2
LEARNING_STEPS = 200


@dataclass(frozen=True)
class Variant:
    """One form of the cache; ``fmt`` is None where everything stays in full precision."""

    name: str
    fmt: HarmoniaFormat | None
    smooth: bool = False  # with learned factors


@dataclass(frozen=True)
class CacheVariant:
    """What one variant costs: perplexity on the validation text, and size of the cache."""

    name: str
    perplexity: float
    cache_bytes: float


@dataclass(frozen=True)
class CacheResult:
    """All variants of the cache on one subject; sizes are for ``cache_tokens`` tokens."""

    subject: Identity
    cache_tokens: int
    variants: tuple[CacheVariant, ...]


def variants(lengths: Sequence[int] = range(ACTIVATION_BITS, 0, -1)) -> list[Variant]:
    """Full precision, the parts of Harmonia's cache at 4 bits one after the other, all lengths."""
    whole = HarmoniaFormat()
    paper = whole.cache

    def with_cache(**changes: Any) -> HarmoniaFormat:
        return replace(whole, cache=replace(paper, **changes))

    bare = {"initial": 0, "local": 0, "offset_channels": 0}
    eight = (ACTIVATION_BITS, ACTIVATION_BITS)
    return [
        Variant("full precision", None),
        Variant("8 bits", with_cache(key_bits=eight, value_bits=eight, **bare)),
        Variant("4 bits", with_cache(**bare)),
        Variant("4 bits, initial window", with_cache(local=0, offset_channels=0)),
        Variant("4 bits, local window", with_cache(initial=0, offset_channels=0)),
        Variant("4 bits, windows", with_cache(offset_channels=0)),
        Variant("4 bits, windows, offsets", whole),
        Variant("4 bits, windows, factors", with_cache(offset_channels=0), smooth=True),
        Variant("4 bits, windows, offsets, factors", whole, smooth=True),
        *(
            Variant(
                f"{length} bits for old tokens, windows, offsets",
                with_cache(
                    key_bits=(ACTIVATION_BITS, length), value_bits=(ACTIVATION_BITS, length)
                ),
            )
            for length in lengths
            if length != paper.key_bits[1]
        ),
    ]


def takes_factors(subject: Subject) -> bool:
    """Whether factors fit the golden engine's model: none pass the norm of a query or a key."""
    return not subject.model.config.query_norm


def smallest(
    result: CacheResult, wanted: Sequence[Variant], tolerance: float
) -> tuple[str, HarmoniaFormat, bool] | None:
    """Name, format and factors of the smallest cache whose loss is within ``tolerance``.

    Only caches with windows and offsets count, which the accelerator has; ``wanted`` are the
    variants of ``result``.
    """
    plain = result.variants[0].perplexity
    kept = [
        (found.cache_bytes, found.perplexity, number)
        for number, (found, variant) in enumerate(zip(result.variants, wanted, strict=True))
        if variant.fmt is not None
        and min(variant.fmt.cache.initial, variant.fmt.cache.local) > 0
        and variant.fmt.cache.offset_channels > 0
        and found.perplexity <= plain * (1 + tolerance)
    ]
    best = wanted[min(kept)[2]] if kept else None
    return None if best is None or best.fmt is None else (best.name, best.fmt, best.smooth)


def smoothed(
    subject: Subject,
    *,
    steps: int = LEARNING_STEPS,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Learned:
    """Factors learned on the calibration text with weights in full precision."""
    length = min(LEARNING_TOKENS, subject.window)
    sequences = list(subject.calibration.sequences[:LEARNING_SEQUENCES, :length])
    cache = replace(HarmoniaFormat().cache, offset_channels=0)
    return learn_scales(
        subject.original, sequences, cache, steps=steps, seed=seed, progress=progress
    )


def folded(subject: Subject, learned: Learned) -> Model:
    """The subject's model with the factors in its weights, quantised as it is."""
    model = with_scales(subject.original, learned.scales)
    return quantise(model, subject.weights, subject.tokens)


def measure(
    subject: Subject,
    variant: Variant,
    model: Callable[[], Model],
    *,
    validation: bool = True,
    suffix: str = "",
) -> float:
    """Perplexity of one variant.

    ``model`` gives the smoothed model, for those variants that want it; ``suffix`` tells factors
    that were learned in another way than by default.
    """
    if variant.fmt is None:
        return subject.measure("plain", PLAIN, validation=validation)
    name = f"harmonia: {variant.name}{suffix}"
    return subject.measure(
        name, variant.fmt, validation=validation, model=model if variant.smooth else None
    )


def table(
    subject: Subject,
    wanted: Sequence[Variant],
    model: Callable[[], Model],
    tick: Callable[[str], None],
    suffix: str = "",
) -> list[CacheVariant]:
    """Perplexity on the validation text and size of each variant; arguments as of ``measure``."""
    rows = []
    for variant in wanted:
        tick(variant.name)
        perplexity = measure(subject, variant, model, suffix=suffix if variant.smooth else "")
        rows.append(CacheVariant(variant.name, perplexity, cache_bytes(subject.model, variant.fmt)))
    return rows


def compare_caches(
    subject: Subject,
    wanted: Sequence[Variant],
    *,
    steps: int = LEARNING_STEPS,
    seed: int = 0,
    smooth: Callable[[], Any] | None = None,
    tick: Callable[[str], None] = lambda _: None,
) -> CacheResult:
    """Measure the variants ``wanted``; factors are learned in ``steps`` steps from ``seed``.

    ``smooth`` gives the model with its factors, if not that of the golden engine. ``tick`` is told
    what comes next: a layer whose factors are learned, or a variant.
    """
    require(subject.validation is not None, "the text has one window only: none is for validation")

    @cache  # and never called if the log has all that needs it
    def golden() -> Model:
        learned = smoothed(
            subject,
            steps=steps,
            seed=seed,
            progress=lambda layer, _: tick(f"factors of layer {layer}"),
        )
        return folded(subject, learned)

    rows = table(subject, wanted, smooth or golden, tick, f", steps {steps}, seed {seed}")
    return CacheResult(subject.identity, CACHE_TOKENS, tuple(rows))


def cache_bytes(model: Model, fmt: HarmoniaFormat | None, tokens: int = CACHE_TOKENS) -> float:
    """Bytes of the keys and values of one sequence of ``tokens`` in all layers.

    Layers that look back a window of tokens keep those alone.
    """
    config = model.config
    kept = {tokens: config.num_hidden_layers}
    if config.sliding_window is not None:
        kept = {tokens: config.num_hidden_layers - config.sliding_layers}
        window = min(tokens, config.sliding_window)
        kept[window] = kept.get(window, 0) + config.sliding_layers
    total = 0.0
    for count, layers in kept.items():
        if fmt is None:
            bits = 2 * count * config.head_dim * FP16.bits
        else:
            bits = fmt.cache.size(count, config.head_dim).bits
        total += layers * config.num_key_value_heads * bits / 8
    return total
