"""Block floating point of float32 activations: Anda's format, before a model's linear modules.

Everything between the products stays float32.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tilewright.golden.llm.sites import LINEAR_SITES, Floats, Format, Site
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16, FP32, BlockFormat

ANDA_GROUP = 64


_EXPONENT = np.uint32(((1 << FP32.exponent_bits) - 1) << FP32.mantissa_bits)
_SMALLEST_NORMAL = np.float32(2.0**FP16.min_exponent)
_LARGEST = np.float32(65504.0)


def truncate(values: Floats, group: int, mantissa_bits: int) -> Floats:
    """``values`` in groups along the last axis; the last group may be short.

    They are rounded to fp16 first, beyond its range to its largest magnitude. Equals
    ``bfp.decode(fmt, bfp.encode(fmt, fp16(values), saturate=True))`` in every bit, signs of zero
    included, without leaving float32, which holds every value of the format.
    """
    BlockFormat(group=group, mantissa_bits=mantissa_bits)  # refuses what is no format
    require(values.dtype == np.float32, f"values must be float32, not {values.dtype}")
    require(values.ndim >= 1, "block floating point groups along the last axis; a scalar has none")
    *axes, length = values.shape
    padding = [*[(0, 0)] * len(axes), (0, -length % group)]
    # The nearest fp16 values; beyond fp16, and NaN, its largest magnitude with the sign.
    halves = np.copysign(np.fmin(np.abs(values), _LARGEST), values).astype(np.float16)
    groups = np.pad(halves.astype(np.float32), padding).reshape(*axes, -(-length // group), group)
    largest = np.abs(groups).max(axis=-1, keepdims=True, initial=0)
    step = np.maximum((largest.view(np.uint32) & _EXPONENT).view(np.float32), _SMALLEST_NORMAL)
    step *= np.float32(2.0 ** (1 - mantissa_bits))  # the worth of a mantissa's last bit
    groups /= step  # a power of two: exact
    np.trunc(groups, out=groups)
    groups *= step
    return groups.reshape(*axes, groups.shape[-2] * group)[..., :length]


class AndaFormat(Format):
    """Anda: inputs of the four linear modules and, with ``head_bits``, of the head."""

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
