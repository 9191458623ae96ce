"""Number of set bits."""

from hw.arith.adder_tree import tree_sum
from hw.stream.pipeline import PipelinedUnit

__all__ = ["Popcount"]


class Popcount(PipelinedUnit):
    """Number of set bits of ``mask``: exact, one a cycle, latency ``params.latency``."""

    def stages(self):
        return [lambda m, x: {"count": tree_sum(list(x.mask))}]
