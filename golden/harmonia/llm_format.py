"""Harmonia's number formats at all sites of a model's activations."""

from dataclasses import dataclass, field

from tilewright.golden.harmonia.cached_attention import attend
from tilewright.golden.llm.formats import truncate
from tilewright.golden.llm.sites import LINEAR_SITES, Floats, Format, Site
from tilewright.golden.params.formats import BlockFormat
from tilewright.golden.params.harmonia import ACTIVATION_BITS, CacheParams

HARMONIA_GROUP = 32


@dataclass(frozen=True, kw_only=True)
class HarmoniaFormat(Format):
    """Harmonia: all sites; keys and values by their age, as the cache holds them.

    All queries of a ``step`` of tokens see the cache at the step's end; steps begin at multiples of
    ``step``. The first ``offset_tokens`` give the offsets of K. Scales learnt offline are folded
    into the model's projections instead (``tilewright.golden.harmonia.smoothing``).
    """

    linear_bits: tuple[int, int, int, int] = (ACTIVATION_BITS,) * 4  # A_qkv, A_o, A_u, A_d
    query_bits: int = ACTIVATION_BITS
    weight_bits: int = ACTIVATION_BITS  # of P, the weights of attention
    group: int = HARMONIA_GROUP
    cache: CacheParams = field(default_factory=CacheParams)
    step: int = 1
    offset_tokens: int | None = None  # None: the cache's initial window
    head_bits: int | None = None  # of the head's inputs; None: float32

    def __post_init__(self) -> None:
        for length in self.lengths.values():
            BlockFormat(group=self.group, mantissa_bits=length)

    @property
    def lengths(self) -> dict[Site, int]:
        """Mantissa lengths of all sites but K and V, which the cache decides."""
        linear = dict(zip(LINEAR_SITES, self.linear_bits, strict=True))
        return linear | {Site.Q: self.query_bits, Site.P: self.weight_bits}

    def activation(self, site: Site, layer: int, values: Floats) -> Floats:
        return truncate(values, self.group, self.lengths[site])

    def head(self, values: Floats, weights: Floats) -> Floats:
        bits = self.head_bits
        return (values if bits is None else truncate(values, self.group, bits)) @ weights.T

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
            step=self.step,
            offset_tokens=self.offset_tokens,
        )
