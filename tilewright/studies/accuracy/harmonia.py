"""Harmonia's cache on a subject: lengths, windows, offsets and learned factors, one by one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tilewright.golden.harmonia.precision import cache_size
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import ACTIVATION_BITS
from tilewright.golden.params.llm import LlmShape
from tilewright.studies.accuracy.subject import Smoothing, Subject
from tilewright.torch.config import HarmoniaConfig

if TYPE_CHECKING:
    from tilewright.torch.smoothing import Learned

CACHE_TOKENS = 4096  # for which a cache's size is told, as in the paper
LEARNING_TOKENS = 256  # of one calibration sequence that factors are learned on
LEARNING_SEQUENCES = 2
LEARNING_STEPS = 200
Row = dict[str, Any]  # of a table of caches: name, perplexity, cache_bytes
WHOLE = HarmoniaConfig(weight_bits=None, pad=True)  # as published; weights are left as they are


@dataclass(frozen=True)
class Variant:
    """One form of the cache; ``fmt`` is None where everything stays in full precision."""

    name: str
    fmt: HarmoniaConfig | None
    smooth: bool = False  # with learned factors


def variants(lengths: Sequence[int] = range(ACTIVATION_BITS, 0, -1)) -> list[Variant]:
    """Full precision, the parts of Harmonia's cache at 4 bits one after the other, all lengths."""
    bare: dict[str, Any] = {"initial": 0, "local": 0, "offset_channels": 0}
    eight = (ACTIVATION_BITS, ACTIVATION_BITS)
    return [
        Variant("full precision", None),
        Variant("8 bits", replace(WHOLE, key_bits=eight, value_bits=eight, **bare)),
        Variant("4 bits", replace(WHOLE, **bare)),
        Variant("4 bits, initial window", replace(WHOLE, local=0, offset_channels=0)),
        Variant("4 bits, local window", replace(WHOLE, initial=0, offset_channels=0)),
        Variant("4 bits, windows", replace(WHOLE, offset_channels=0)),
        Variant("4 bits, windows, offsets", WHOLE),
        Variant("4 bits, windows, factors", replace(WHOLE, offset_channels=0), smooth=True),
        Variant("4 bits, windows, offsets, factors", WHOLE, smooth=True),
        *(
            Variant(
                f"{length} bits for old tokens, windows, offsets",
                replace(
                    WHOLE, key_bits=(ACTIVATION_BITS, length), value_bits=(ACTIVATION_BITS, length)
                ),
            )
            for length in lengths
            if length != WHOLE.key_bits[1]
        ),
    ]


def smallest(
    rows: Sequence[Row], wanted: Sequence[Variant], tolerance: float
) -> tuple[str, HarmoniaConfig, bool] | None:
    """Name, format and factors of the smallest cache whose loss is within ``tolerance``.

    Caches without windows or offsets, which the accelerator has, are left out.
    """
    plain = rows[0]["perplexity"]
    kept = [
        (row["cache_bytes"], row["perplexity"], number)
        for number, (row, variant) in enumerate(zip(rows, wanted, strict=True))
        if variant.fmt is not None
        and min(variant.fmt.initial, variant.fmt.local) > 0
        and variant.fmt.offset_channels > 0
        and row["perplexity"] <= plain * (1 + tolerance)
    ]
    best = wanted[min(kept)[2]] if kept else None
    return None if best is None or best.fmt is None else (best.name, best.fmt, best.smooth)


def learned(
    subject: Subject,
    *,
    steps: int = LEARNING_STEPS,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, "Learned"]:
    """Factors of each attention module, learned on the calibration text."""
    from tilewright.torch.smoothing import learn

    sequences = subject.calibration[:LEARNING_SEQUENCES, :LEARNING_TOKENS].tolist()
    return learn(subject.model, sequences, steps=steps, seed=seed, progress=progress)


def measure(
    subject: Subject,
    variant: Variant,
    factors: Callable[[], Smoothing],
    *,
    validation: bool = True,
    suffix: str = "",
) -> float:
    """Perplexity of one variant; ``suffix`` names factors learned in another way than usual."""
    if variant.fmt is None:
        return subject.measure("plain", None, validation=validation)
    name = f"harmonia: {variant.name}{suffix}"
    return subject.measure(
        name, variant.fmt, validation=validation, factors=factors if variant.smooth else None
    )


def compare_caches(
    subject: Subject,
    wanted: Sequence[Variant],
    factors: Callable[[], Smoothing],
    *,
    suffix: str = "",
    tick: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """Perplexity on the validation text and size of each variant; ``tick`` receives its name."""
    require(len(subject.validation) > 0, "the text has one window only: none is for validation")
    rows = []
    for variant in wanted:
        tick(variant.name)
        perplexity = measure(subject, variant, factors, suffix=suffix if variant.smooth else "")
        size = cache_bytes(subject.shape, variant.fmt)
        rows.append({"name": variant.name, "perplexity": perplexity, "cache_bytes": size})
    return rows


def cache_bytes(config: LlmShape, fmt: HarmoniaConfig | None, tokens: int = CACHE_TOKENS) -> float:
    """Bytes of keys and values of one sequence in all layers, those of windows in theirs alone."""
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
            bits = cache_size(fmt.cache, count, config.head_dim).bits
        total += layers * config.num_key_value_heads * bits / 8
    return total
