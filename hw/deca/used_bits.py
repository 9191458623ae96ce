"""Which bits of a step a configuration uses: registers of the others hold their value.

Nothing reads the bits that a configuration leaves unused, so their values do not matter; not
loading them saves the clock of their registers and the switching after them.
"""

from functools import reduce
from operator import or_

from amaranth import Const, Value, ValueLike
from amaranth.lib import data

from tilewright.golden.params.deca import CODE_BITS, DecaParams, ScaleKind
from tilewright.hw.deca.layout import scale_bits

Segment = tuple[slice, Value]  # bits, and whether they mean something


def used_codes(p: DecaParams, config: data.View, spare: int = 0) -> list[Segment]:
    """Segments of a step's codes, ``spare`` bits in front of the first code included."""
    need = {q: p.lookups(q) * q for q in CODE_BITS}
    segments, below = [], 0
    for bound in sorted(set(need.values())):
        users = [config.code_bits == q for q in CODE_BITS if need[q] >= bound]
        segments.append((slice(below, bound + spare), reduce(or_, users)))
        below = bound + spare
    return segments


def used_scales(p: DecaParams, config: data.View, spare: int = 0) -> list[Segment]:
    """Segments of a chunk's scales, ``spare`` bits in front of the first scale included."""
    levels = (p.lanes - 1).bit_length()

    def needed(kind: ScaleKind, beyond: int) -> Value:
        """Whether scales of ``kind`` take more than ``beyond`` bytes, 0 or a power of two."""
        sizes = [k for k in range(levels) if (p.lanes >> k) * kind.bytes > beyond]
        always = kind.bytes > beyond  # even one scale does
        return (config.scale == kind.code) & (always or _below(config.group_log2, len(sizes)))

    segments, below, beyond = [], 0, 0
    while below < scale_bits(p) + spare:
        bytes_ = max(1, 2 * beyond)
        above = min(8 * bytes_, scale_bits(p)) + spare
        segments.append(
            (slice(below, above), needed(ScaleKind.E8M0, beyond) | needed(ScaleKind.BF16, beyond))
        )
        below, beyond = above, bytes_
    return segments


def _below(value: Value, bound: int) -> ValueLike:
    return value < bound if bound else Const(0)
