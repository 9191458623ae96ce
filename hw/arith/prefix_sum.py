"""Parallel prefix sum of a bit mask."""

from types import SimpleNamespace

from amaranth import Const, Module, Value

from tilewright.golden.params.arith import PrefixStyle, PrefixSumParams
from tilewright.hw.stream.pipeline import PipelinedUnit, Stage


def prefix_network(style: PrefixStyle, width: int) -> list[dict[int, int]]:
    """The adders of each level: ``{k: j}`` adds the running count of place j to that of place k.

    Afterwards every place holds the count of all places up to and including itself.

    - ripple: ``width - 1`` levels, ``width - 1`` adders;
    - Sklansky: logarithmic depth, half the places add on every level, large fan-out;
    - Kogge-Stone: logarithmic depth, nearly all places add on every level, fan-out 2.
    """
    if style is PrefixStyle.RIPPLE:
        return [{k: k - 1} for k in range(1, width)]
    spans = [1 << level for level in range((width - 1).bit_length())]
    if style is PrefixStyle.SKLANSKY:
        return [{k: k // s * s - 1 for k in range(width) if k // s % 2} for s in spans]
    return [{k: k - s for k in range(s, width)} for s in spans]


def prefix_level(counts: list[Value], adders: dict[int, int]) -> list[Value]:
    """``counts`` after one level of the network."""
    # Place k never counts more than its k + 1 places, so the cut drops nothing.
    return [
        (count + counts[adders[k]])[: (k + 1).bit_length()] if k in adders else count
        for k, count in enumerate(counts)
    ]


class PrefixSum(PipelinedUnit[PrefixSumParams]):
    """Set bits of ``mask`` below every place, and their total.

    One a cycle, latency ``params.latency``; a stage per level of the network.
    """

    def stages(self) -> list[Stage]:
        network = prefix_network(self.params.style, self.params.width)

        def level(k: int) -> Stage:
            def stage(m: Module, s: SimpleNamespace) -> dict:
                counts = prefix_level(list(s.counts if k else s.mask), network[k])
                if k < len(network) - 1:
                    return {"counts": counts}
                return {"index": [Const(0), *counts[:-1]], "total": counts[-1]}

            return stage

        return [level(k) for k in range(len(network))]
