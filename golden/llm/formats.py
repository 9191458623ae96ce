"""The number formats of Anda and Harmonia, at the sites of a model's activations.

Every value that enters a product is rounded to fp16 and then converted to block floating point
exactly as :mod:`tilewright.golden.bfp` does it. Sums, norms, softmax and whatever else lies between
the products stay float32: the formats are what is measured here, not the accumulators.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tilewright.golden.llm.blockfloat import truncate
from tilewright.golden.llm.cached_attention import CacheFormat, attend
from tilewright.golden.llm.sites import LINEAR_SITES, Floats, Format, Site, reach
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import BlockFormat
from tilewright.golden.params.harmonia import ACTIVATION_BITS

ANDA_GROUP, HARMONIA_GROUP = 64, 32


@dataclass(frozen=True)
class BlockSites(Format):
    """Block floating point of one group size at some sites; the others are left as they are.

    K and V have one length whatever their age: no windows, no offsets.
    """

    lengths: Mapping[Site, int] = field(hash=False)  # mantissa bits
    group: int

    def __post_init__(self) -> None:
        for length in self.lengths.values():
            BlockFormat(
                group=self.group, mantissa_bits=length
            )  # refuses what tilewright.golden.bfp would

    def activation(self, site: Site, layer: int, values: Floats) -> Floats:
        length = self.lengths.get(site)
        return values if length is None else _converted(site, values, self.group, length)


def _converted(site: Site, values: Floats, group: int, length: int) -> Floats:
    if site is not Site.P:
        return truncate(values, group, length)
    tokens, seen = values.shape[-2:]
    return truncate(values, group, length, lambda rows: reach(rows, tokens, seen))


class AndaFormat(BlockSites):
    """Anda: the inputs of the four linear modules; attention stays as it is."""

    MODULES: ClassVar = ("qkv", "o", "u", "d")

    def __init__(self, lengths: Sequence[int], group: int = ANDA_GROUP):
        require(
            len(lengths) == len(self.MODULES),
            f"Anda has a length for each of {', '.join(self.MODULES)}, not {len(lengths)} lengths",
        )
        super().__init__(dict(zip(LINEAR_SITES, lengths, strict=True)), group)


@dataclass(frozen=True, kw_only=True)
class HarmoniaFormat(Format):
    """Harmonia: all sites; keys and values by their age, as ``golden.harmonia`` keeps them.

    Scales that are learned offline are no part of the format: they are folded into the model's
    projections (``tilewright.golden.llm.smoothing``).
    """

    linear_bits: tuple[int, int, int, int] = (ACTIVATION_BITS,) * 4  # A_qkv, A_o, A_u, A_d
    query_bits: int = ACTIVATION_BITS
    weight_bits: int = ACTIVATION_BITS  # of P, the weights of attention
    group: int = HARMONIA_GROUP
    cache: CacheFormat = field(default_factory=CacheFormat)

    def __post_init__(self) -> None:
        for length in self.lengths.values():
            BlockFormat(group=self.group, mantissa_bits=length)

    @property
    def lengths(self) -> dict[Site, int]:
        """Mantissa lengths of all sites but K and V, which the cache decides."""
        linear = dict(zip(LINEAR_SITES, self.linear_bits, strict=True))
        return linear | {Site.Q: self.query_bits, Site.P: self.weight_bits}

    def activation(self, site: Site, layer: int, values: Floats) -> Floats:
        return _converted(site, values, self.group, self.lengths[site])

    def attend(
        self, layer: int, q: Floats, k: Floats, v: Floats, window: int | None = None
    ) -> Floats:
        return attend(
            self.cache,
            self.activation(Site.Q, layer, q),
            k,
            v,
            lambda weights: self.activation(Site.P, layer, weights),
            window,
        )


def site_lengths(lengths: Sequence[int]) -> dict[Site, int]:
    """Lengths in the order of ``Site``: qkv, o, u, d, Q, K, V, P; shorter ones leave the rest."""
    return {site: int(length) for site, length in zip(Site, lengths, strict=False)}
