"""Number of set bits."""

from operator import add

from tilewright.golden.params.arith import PopcountParams
from tilewright.hw.arith.reduction import reduction_stages
from tilewright.hw.stream.pipeline import PipelinedUnit, Stage


class Popcount(PipelinedUnit[PopcountParams]):
    """Number of set bits of ``mask``: one a cycle, latency ``params.latency``.

    An adder tree of the bits, a stage per level.
    """

    def stages(self) -> list[Stage]:
        return reduction_stages("mask", "count", self.params.width, add)
