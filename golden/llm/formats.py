"""Block floating point before the linear modules of a model: Anda's format.

Every operand of a product is rounded to fp16 and then converted exactly as
:mod:`tilewright.golden.bfp` does it. Everything between the products stays float32.
"""

from collections.abc import Sequence
from typing import ClassVar

from tilewright.golden.llm.blockfloat import truncate
from tilewright.golden.llm.sites import LINEAR_SITES, Floats, Format, Site
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import BlockFormat

ANDA_GROUP = 64


class AndaFormat(Format):
    """Anda: the inputs of the four linear modules; attention stays as it is.

    With ``head_bits``, as the accelerator has it, the head's inputs too.
    """

    MODULES: ClassVar = ("qkv", "o", "u", "d")

    def __init__(
        self, lengths: Sequence[int], group: int = ANDA_GROUP, head_bits: int | None = None
    ):
        require(
            len(lengths) == len(self.MODULES),
            f"Anda has a length for each of {', '.join(self.MODULES)}, not {len(lengths)} lengths",
        )
        for length in lengths:
            BlockFormat(group=group, mantissa_bits=length)
        self.lengths = dict(zip(LINEAR_SITES, lengths, strict=True))
        self.group, self.head_bits = group, head_bits

    def activation(self, site: Site, layer: int, values: Floats) -> Floats:
        length = self.lengths.get(site)
        return values if length is None else truncate(values, self.group, length)

    def head(self, values: Floats, weights: Floats) -> Floats:
        bits = self.head_bits
        return (values if bits is None else truncate(values, self.group, bits)) @ weights.T
