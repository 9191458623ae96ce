"""How weights and the cache are stored: for weights a tile format, and the share that is kept.

Or a format of the user's own (``tilewright.golden.formats``), of which a tile has as many weights.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from tilewright.golden.deca.own import scheme_of
from tilewright.golden.deca.scheme import Scheme, resolve_scheme
from tilewright.golden.formats import NumberFormat, is_own, resolve_format
from tilewright.golden.harmonia.precision import cache_size
from tilewright.golden.params.block import require
from tilewright.golden.params.deca import TileConfig
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.names import unknown
from tilewright.sim.workload import Batch

# The twelve compressed schemes of the DECA paper, in the order of its Table 2.
PAPER_SCHEMES = (
    "mxfp4",
    *("bf8", "bf8_50%", "bf8_30%", "bf8_20%", "bf8_10%", "bf8_5%"),
    *("bf16_50%", "bf16_30%", "bf16_20%", "bf16_10%", "bf16_5%"),
)
DEFAULT_SCHEME = "mxfp4"
# Names that papers use for a tile format.
OTHER_NAMES = {"q16": "bf16", "q8": "bf8", "q4": "mxfp4"}
WITH_DENSITY = re.compile(r"(?P<name>[^%]+)_(?P<percent>\d+(?:\.\d+)?)%")


@dataclass(frozen=True, kw_only=True)
class WeightScheme:
    """A tile configuration, sparse where ``density`` is below 1."""

    name: str
    config: TileConfig
    density: Fraction = Fraction(1)
    own: NumberFormat | None = None  # of the user; ``config`` is then that of plain bf16

    @property
    def tile_weights(self) -> int:
        return self.config.elements

    @cached_property  # in fractions, and asked for by every GEMM
    def tile_bytes(self) -> float:
        """Mean bytes of a compressed tile: codes, bitmask and scales."""
        if self.own is not None:
            return self.config.elements * self.own.bits_per_value / 8
        codes = self.config.elements * self.density * self.config.code_bits / 8
        return float(codes + self.config.mask_bytes + self.config.scale_bytes)

    @cached_property
    def on_deca(self) -> "WeightScheme":
        """The tiles that a DECA reads: a format of the user's own goes through its table."""
        if self.own is None:
            return self
        return WeightScheme(name=self.name, config=scheme_of(self.own, self.name).config)

    @property
    def compressed(self) -> bool:
        return self.own is not None or self.config.sparse or self.config.code_bits < 16

    def bytes_of(self, weights: float) -> float:
        return weights / self.tile_weights * self.tile_bytes


@lru_cache(maxsize=256)
def resolve_weight_scheme(text: str) -> WeightScheme:
    """``NAME[,OPTION=VALUE]...[_DENSITY%]``: a scheme of DECA, kept to that share of weights.

    Or ``FILE.py:CLASS``, a format of the user's own.
    """
    if is_own(text):
        own = resolve_format(text)
        return WeightScheme(name=own.name, config=TileConfig(code_bits=16), own=own)
    scheme, density = scheme_and_density(text)
    return WeightScheme(name=text, config=scheme.config, density=density)


def scheme_and_density(text: str) -> tuple[Scheme, Fraction]:
    """Return what the words of :func:`resolve_weight_scheme` say to a DECA."""
    found = WITH_DENSITY.fullmatch(text)
    name, percent = (found["name"], Fraction(found["percent"])) if found else (text, Fraction(100))
    require(0 < percent <= 100, f"{text!r}: density must be above 0% and at most 100%")
    head, comma, rest = name.partition(",")
    if not is_own(name):
        name = OTHER_NAMES.get(head.lower(), head.lower()) + comma + rest
    scheme = resolve_scheme(name)
    return scheme.sparsified if percent < 100 else scheme, percent / 100


# How keys and values are stored: what a cache of any length takes in each format.

INT4_GROUP = 32  # values that share a scale


# Bits of the keys and values of one head, by tokens and channels of a key or value.
KvBits = Callable[[int, int], float]


def _plain(bits: float) -> KvBits:
    return lambda tokens, channels: 2 * tokens * channels * bits


KV_FORMATS: dict[str, KvBits] = {
    "bf16": _plain(16),
    "fp8": _plain(8),
    # An fp16 scale for each key and value, or for INT4_GROUP of their channels.
    "int8": lambda tokens, channels: 2 * tokens * (8 * channels + FP16.bits),
    "int4": _plain(4 + FP16.bits / INT4_GROUP),
    "harmonia": lambda *size: float(cache_size(HarmoniaParams().cache, *size).bits),
}


def resolve_kv_format(name: str) -> KvBits:
    if name not in KV_FORMATS:
        raise ValueError(unknown("KV format", name, KV_FORMATS))
    return KV_FORMATS[name]


def cache_bytes(model: LlmShape, batch: Batch, bits: KvBits) -> float:
    """Return the bytes of the cache of ``batch`` if a head's keys and values take ``bits``.

    Layers with a window keep no more than it. One vector for all heads (MLA) takes as much as the
    keys of one head with as many channels. States of linear attention are part of it.
    """

    def of_layer(tokens: int) -> float:
        if model.latent is not None:
            return bits(tokens, model.cached_per_token) / 2
        return model.num_key_value_heads * bits(tokens, model.head_dim)

    return batch.sequences * (model.delta.state_bytes if model.delta else 0) + sum(
        sequences * layers * of_layer(seen) / 8
        for sequences, tokens in batch.groups
        for layers, seen in model.visible(tokens)
    )
