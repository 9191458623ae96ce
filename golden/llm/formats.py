"""Block floating point at the sites of a model's activations.

Every value that enters a product is rounded to fp16 and then converted to block floating point
exactly as :mod:`tilewright.golden.bfp` does it. Sums, norms, softmax and whatever else lies between
the products stay float32: the formats are what is measured here, not the accumulators.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tilewright.golden.llm.blockfloat import truncate
from tilewright.golden.llm.sites import LINEAR_SITES, Floats, Format, Site, reach
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import BlockFormat

ANDA_GROUP = 64


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
        return values if length is None else converted(site, values, self.group, length)


def converted(site: Site, values: Floats, group: int, length: int) -> Floats:
    """Values of a site in block floating point; weights of attention end with what a query sees."""
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


def site_lengths(lengths: Sequence[int]) -> dict[Site, int]:
    """Lengths in the order of ``Site``: qkv, o, u, d, Q, K, V, P; shorter ones leave the rest."""
    return {site: int(length) for site, length in zip(Site, lengths, strict=False)}
